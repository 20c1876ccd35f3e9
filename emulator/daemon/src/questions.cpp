// SPDX-License-Identifier: BSD-2-Clause
#include "questions.hpp"

#include <cerrno>

namespace verbena::daemon {

bool Questions::may_ask(Session& asker, const control::Incoming& in, const Session& owner) const {
  std::size_t of_asker = 0;
  std::size_t to_owner = 0;
  for (const auto& [key, question] : waiting_) {
    if (question.process == asker.info.pid) ++of_asker;
    if (question.owner == owner.id) ++to_owner;
  }
  if (of_asker < kOfOne && to_owner < kToOne && !owner.is_behind()) return true;
  asker.refuse(in.header.sequence,
               {EAGAIN, "too many questions to other contexts wait for answers"});
  return false;
}

std::optional<Questions::Question> Questions::take(control::MessageType kind, std::uint32_t number,
                                                   const Session& owner) {
  const auto found = waiting_.find({kind, number});
  if (found == waiting_.end() || found->second.owner != owner.id) return std::nullopt;
  return std::move(waiting_.extract(found).mapped());
}

Questions::Question* Questions::find(control::MessageType kind, std::uint32_t number) {
  const auto found = waiting_.find({kind, number});
  return found == waiting_.end() ? nullptr : &found->second;
}

void Questions::on_client_gone(Session::Id gone) {
  std::erase_if(waiting_, [&](const auto& entry) {
    const Question& question = entry.second;
    if (question.owner != gone) return question.asker == gone && question.receiver == 0;
    if (Session* const asker = clients_.find(question.asker)) {
      asker->refuse(question.sequence, question.if_gone);
    }
    return true;
  });
}

}  // namespace verbena::daemon
