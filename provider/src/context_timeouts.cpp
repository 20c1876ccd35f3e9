// A context's part in time-outs: when they count.
#include "context.hpp"

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

}  // namespace verbena::provider
