// SPDX-License-Identifier: BSD-2-Clause
// What a context does through XRC domains that it shares with others: between the daemon's
// messages, the engine's wishes, and those who know what to do.
#include "verbena/context/context.hpp"

namespace verbena::provider {

// Under control_lock_, as all that handles messages.
void Context::handle_xrc_message(const control::Incoming& message) {
  using control::MessageType;
  const auto use = [&](auto&& decoded, auto&& handler) {
    if (decoded) handler(*decoded);
  };
  const auto& bytes = message.payload;
  switch (message.type()) {
    case MessageType::kStandInWanted:
      return use(control::decode<control::StandInWanted>(bytes),
                 [this](const auto& m) { shared_domains_.on_wanted(m); });
    case MessageType::kStandInAnswer:
      return use(control::decode<control::StandInAnswer>(bytes),
                 [this](const auto& m) { shared_domains_.on_answer(m); });
    case MessageType::kStandInsReleased:
      return use(control::decode<control::StandInsReleased>(bytes),
                 [this](const auto& m) { shared_domains_.on_released(m); });
    case MessageType::kReceiverCall:
      return use(control::decode<control::ReceiverCall>(bytes),
                 [this](const auto& m) { receivers_.on_call(m); });
    case MessageType::kReceiverEvent:
      return use(control::decode<control::ReceiverEvent>(bytes),
                 [this](const auto& m) { receivers_.on_remote_event(m); });
    default:
      return;
  }
}

void Context::on_stand_in_wanted(const queue::StandIn& wanted) noexcept {
  shared_domains_.want(wanted);
}

void Context::on_stand_ins_released(Qpn receiver) noexcept { shared_domains_.release(receiver); }

}  // namespace verbena::provider
