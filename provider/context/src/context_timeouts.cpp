// SPDX-License-Identifier: BSD-2-Clause
// A context's part in time-outs: when they count, and what has become of who does not answer.
#include "verbena/context/context.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::provider {
namespace {

// Of reading before time-outs count, should there be no end of what comes.
constexpr int kRoundsUntilTimeouts = 64;

}  // namespace

// What has come is read first, however late this thread is, or others that were late with it: an
// answer that lies here was not lost.
void Context::handle_timeouts(device::Acknowledge acknowledge) noexcept {
  if (device_->is_timer_due(now())) {
    for (int round = 0; round < kRoundsUntilTimeouts; ++round) {
      peers_->look_at_udp();
      const std::size_t received = is_undisturbed() ? peers_->receive(*this, kPollBudget)
                                                    : link_->receive(*this, kPollBudget);
      if (received == 0) break;
      device_->finish_receive(now(), acknowledge);
    }
  }
  device_->handle_timeouts(now());
}

void Context::inquire(const wire::Destination& to, Qpn qp, TimeNs now) noexcept {
  if (is_fatal() || !reports_.must_ask(to.address, qp, now)) return;
  tell(control::PeerQuestion{to.address, qp.value()});
}

wire::PeerReport Context::report_on(const wire::Destination& to, Qpn qp, TimeNs since) noexcept {
  return reports_.report_on(to.address, qp, since);
}

void Context::handle_peer_news(const control::PeerNews& news) {
  reports_.told(news, link::monotonic_now_ns());
}

void Context::handle_qp_question(const control::QpQuestion& question) {
  control::QpAnswer answer{question.asker, question.asker_slot, question.qpn,
                           control::PeerQp::kNone};
  device_->for_each_qp([&](qp::QueuePair& qp) {
    if (qp.number().value() != question.qpn) return;
    const Guard guard(qp.lock());
    switch (qp.state()) {
      case qp::State::kReset:
      case qp::State::kInit:
        answer.queue_pair = control::PeerQp::kNotReady;
        break;
      case qp::State::kError:
        answer.queue_pair = control::PeerQp::kError;
        break;
      default:
        answer.queue_pair = control::PeerQp::kReady;
        break;
    }
  });
  tell(answer);
}

}  // namespace verbena::provider
