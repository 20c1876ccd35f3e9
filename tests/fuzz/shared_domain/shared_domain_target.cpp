// SPDX-License-Identifier: BSD-2-Clause
// An XRC receiver that forwards requests to SRQs of other processes, the owners of these SRQs, and
// a sender. The input repeats, changes and withholds their packets, owners die, and the receiver is
// set up again. All posted requests complete, none completes twice, no byte outside of a region is
// written, and each owner has at most one proxy.
//
// The input: operations, each a byte and its arguments (missing ones are zero).
#include <algorithm>
#include <deque>

#include "input.hpp"
#include "shared_domain.hpp"

namespace {

using namespace verbena;
using fuzz::Input;
using namespace verbena::sim;

constexpr std::size_t kRemembered = 32;
constexpr std::uint32_t kReceive = 1024;

PeerOptions options() {
  PeerOptions o;
  o.timeout = 8;
  o.retry_count = 3;
  o.rnr_retry = 3;
  o.min_rnr_timer = 1;
  return o;
}

struct Seen {
  std::size_t to;
  IpAddress from;
  std::vector<std::uint8_t> bytes;
};

class Play {
 public:
  Play() : s_(options()) {
    s_.world.filter = [this](const Node& from, std::span<const std::uint8_t> bytes) {
      remember(from, bytes);
      const bool lost = (loss_ & 1) != 0;
      loss_ >>= 1;
      return !lost;
    };
    provide_receives();
  }

  void run(Input& in) {
    for (int steps = 0; !in.empty() && steps < 200; ++steps) {
      switch (in.byte() % 8) {
        case 0:
        case 1:
        case 2:
          post(in.byte(), in.byte());
          break;
        case 3:
        case 4:
          forge(in);
          break;
        case 5:
          loss_ = in.byte();
          break;
        case 6:
          run_for(1'000u << (in.byte() % 16));
          break;
        default:
          disturb(in.byte());
      }
      check();
    }
    loss_ = 0;
    const bool all_ended = s_.run_until([this] {
      provide_receives();
      return s_.sender.sends.size() == posted_;
    });
    VERBENA_CHECK(all_ended);
    check();
  }

 private:
  void remember(const Node& from, std::span<const std::uint8_t> bytes) {
    const Qpn to((std::uint32_t{bytes[5]} << 16) | (std::uint32_t{bytes[6]} << 8) | bytes[7]);
    for (std::size_t i = 0; i < s_.world.size(); ++i) {
      if (!s_.world.node(i).device().is_own(to.value())) continue;
      seen_.push_back({i, from.address(), {bytes.begin(), bytes.end()}});
      if (seen_.size() > kRemembered) seen_.pop_front();
      return;
    }
  }

  void provide_receives() {
    for (std::size_t i = 0; i < SharedDomain::kOwners; ++i) {
      while (s_.owner(i).receive(1, kReceive)) {
      }
    }
  }

  void post(std::uint8_t what, std::uint8_t size) {
    const std::size_t owner = (what >> 4) % SharedDomain::kOwners;
    Peer& to = s_.owner(owner);
    const std::uint64_t id = posted_ + 1;
    const std::uint32_t length = size * 5u;
    Request request;
    switch (what % 4) {
      case 0:
        request = s_.sender.send(id, length);
        break;
      case 1:
        request = s_.sender.write(id, length, to);
        break;
      case 2:
        request = s_.sender.read(id, length, to);
        break;
      default:
        request = s_.sender.fetch_add(id, size, to);
    }
    if (s_.sender.post(s_.to(owner, request)) == requester::Posted::kOk) ++posted_;
  }

  // Sends one of the last packets again, with some of its bytes changed.
  void forge(Input& in) {
    if (seen_.empty()) return;
    const std::uint8_t which = in.byte();
    Seen packet = seen_[seen_.size() - 1 - which % seen_.size()];
    for (unsigned changes = which / kRemembered; changes != 0; --changes) {
      const std::size_t at = in.byte() % packet.bytes.size();
      packet.bytes[at] = static_cast<std::uint8_t>(packet.bytes[at] ^ in.byte());
    }
    if (which / kRemembered == 7) packet.bytes.resize(in.byte() % (packet.bytes.size() + 1));
    s_.world.inject(packet.to, packet.from, packet.bytes);
  }

  void disturb(std::uint8_t what) {
    const std::size_t owner = 1 + what / 8 % (SharedDomain::kOwners - 1);
    switch (what % 4) {
      case 0:
        s_.registry.withdraw(s_.owner(owner).node());
        break;
      case 1:
        s_.registry.admit(s_.owner(owner).node());
        break;
      case 2:
        s_.receiver.to_state(qp::State::kError);
        break;
      default:
        reconnect();
    }
  }

  // Requests that are under way end without completions here.
  void reconnect() {
    run_for(0);
    for (Peer* peer : {&s_.sender, &s_.receiver}) peer->to_state(qp::State::kReset);
    run_for(0);
    posted_ = s_.sender.sends.size();
    s_.sender.bring_up(s_.receiver);
    s_.receiver.bring_up(s_.sender);
  }

  void run_for(TimeNs length) {
    s_.run(length);
    provide_receives();
  }

  void check() {
    VERBENA_CHECK(s_.sender.sends.size() <= posted_);
    for (Peer* peer : {&s_.sender, &s_.receiver}) {
      const Guard guard(peer->qp().lock());
      VERBENA_CHECK(peer->qp().is_consistent());
    }
    for (std::size_t i = 0; i < SharedDomain::kOwners; ++i) {
      s_.owner(i).inbox.expect_guards();
      s_.owner(i).target.expect_guards();
    }
    s_.sender.result.expect_guards();
    VERBENA_CHECK(s_.registry.proxies() < SharedDomain::kOwners);
  }

  std::deque<Seen> seen_;
  std::uint8_t loss_ = 0;
  std::size_t posted_ = 0;
  SharedDomain s_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  Play().run(in);
  return 0;
}
