// SPDX-License-Identifier: BSD-2-Clause
// A program that makes any calls in any order on two connected devices: posts, receives,
// transitions with any mask, windows, registrations, polls. Packets get lost, and time passes in
// between. After each step the queue pairs must be consistent. Every request completes at most once
// and in order. At the end everything goes to error, and nothing is left over.
//
// The input: a byte that chooses transport and mode, then operations, each a byte and its arguments
// (missing ones are zero). Bit 7 of an operation chooses the end.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "input.hpp"
#include "pair.hpp"

namespace {

using namespace verbena;
using fuzz::Input;
using namespace verbena::sim;
using qp::State;

// One end, and what its completions are compared with.
struct Side {
  explicit Side(Peer& p) : peer(p) {}
  Peer& peer;
  std::uint64_t next_id = 1;
  std::uint64_t last_sent = 0;  // ids only grow
  std::uint64_t receives_owed = 0;
  std::vector<std::uint32_t> windows;
  std::vector<std::uint32_t> regions;

  void reap() {
    peer.reap();
    for (const queue::Completion& c : peer.sends) {
      VERBENA_CHECK(c.id > last_sent && c.id < next_id);
      last_sent = c.id;
    }
    VERBENA_CHECK(peer.receives.size() <= receives_owed);
    receives_owed -= peer.receives.size();
    peer.sends.clear();
    peer.receives.clear();
  }
};

class Play {
 public:
  Play(const PeerOptions& left, const PeerOptions& right)
      : pair_(left, right), sides_{Side(pair_.left), Side(pair_.right)} {
    pair_.world.filter = [this](const Node&, std::span<const std::uint8_t>) {
      const bool lost = (loss_ >> (packet_++ & 7) & 1) != 0;
      return !lost;
    };
  }

  void run(Input& in) {
    // 300 steps reach every state, and no input takes a second.
    for (int steps = 0; !in.empty() && steps < 300; ++steps) {
      const std::uint8_t op = in.byte();
      Side& side = sides_[op >> 7];
      step(side, sides_[1 - (op >> 7)], op & 0x7f, in);
      for (Side& s : sides_) {
        s.reap();
        const Guard guard(s.peer.qp().lock());
        VERBENA_CHECK(s.peer.qp().is_consistent());
      }
    }
    finish();
  }

 private:
  void step(Side& side, Side& other, std::uint8_t op, Input& in) {
    switch (op & 15) {
      case 0:
      case 1:
      case 2:
      case 3:
        return post(side, other, in);
      case 4:
        return receive(side, in);
      case 5:
        return pass(in);
      case 6:
        return modify(side, other, in, true);
      case 7:
        return modify(side, other, in, false);
      case 8:
        loss_ = in.byte();
        return;
      case 9:
        return window(side, in);
      case 10:
        return region(side, in);
      case 11:
        return queues(side, in);
      case 12:
        return reset(side);
      case 13:
        reset(side);
        return bring_up(side, other);
      case 14:
        pair_.world.run(1'000 * TimeNs{in.byte()});
        return;
      default:
        return spoil(other, in);
    }
  }

  void reset(Side& side) {
    side.peer.to_state(State::kReset);
    side.reap();
    forgive(side);
  }
  // RESET forgets requests and receives without completions.
  void forgive(Side& side) {
    if (side.peer.srq() == nullptr) side.receives_owed = 0;
  }
  void bring_up(Side& side, Side& other) {
    try {
      side.peer.bring_up(other.peer);
    } catch (const sim::Failure&) {
    }
  }

  std::uint32_t some_key(Side& side, std::uint8_t choice) const {
    const std::uint32_t keys[] = {side.peer.target.key(),
                                  side.peer.source.key(),
                                  side.peer.result.key(),
                                  side.windows.empty() ? 0 : side.windows.back(),
                                  side.regions.empty() ? 0 : side.regions.back(),
                                  0xdeadbe00};
    return keys[choice % 6];
  }

  void post(Side& side, Side& other, Input& in) {
    const std::uint8_t what = in.byte(), flags = in.byte(), size = in.byte(), where = in.byte();
    Request r = side.peer.send(0, std::uint32_t{size} * (where & 1 ? 64 : 7));
    r.opcode = static_cast<queue::WorkOpcode>(what % 12);
    r.flags = flags & 15;
    const std::uint8_t choice = what / 12;
    if (choice > 12) r.buffers[0].key = some_key(side, choice);
    if (choice > 16)
      r.buffers.push_back({side.peer.result.address(), choice, side.peer.result.key()});
    if (r.opcode == queue::WorkOpcode::kRead) {
      r.buffers[0] = {side.peer.result.address(), r.buffers[0].length, side.peer.result.key()};
    }
    if (choice == 20) r.buffers.clear();
    if (r.opcode == queue::WorkOpcode::kCompareSwap || r.opcode == queue::WorkOpcode::kFetchAdd) {
      r.buffers = {{side.peer.result.address(), 8, side.peer.result.key()}};
    }
    r.remote_address = other.peer.target.address() + 8 * (where >> 3);
    if (where & 2) r.remote_address += in.word();
    r.remote_key = (where & 4) != 0 ? some_key(other, in.byte()) : other.peer.target.key();
    r.immediate = r.opcode == queue::WorkOpcode::kLocalInvalidate ? some_key(side, choice)
                                                                  : some_key(other, choice);
    r.flush_placement = choice & 3;
    r.flush_selectivity = choice & 1;
    r.flush_length = size;
    r.window_key = side.windows.empty() ? 0x100 : side.windows.back();
    r.window_new_key = (flags & 16) != 0 ? 0 : r.window_key ^ (flags >> 4);
    r.window_region_key = some_key(side, where);
    r.window_address = side.peer.target.address() + size;
    r.window_length = what;
    r.window_access = flags;
    r.address = &to_[&other - sides_];
    to_[&other - sides_].destination.address = other.peer.node().address();
    r.remote_qpn = other.peer.qp().number().value();
    r.remote_qkey = 0x11111111;
    if (other.peer.srq() != nullptr) r.remote_srqn = other.peer.srq()->number;
    if (!side.peer.qp().may_post_send()) return;
    r.id = side.next_id;
    // The id is used up now, because the completion may come before post() returns.
    ++side.next_id;
    side.peer.post(std::move(r));
  }

  void receive(Side& side, Input& in) {
    const std::uint32_t length = 16u * in.byte();
    const std::uint8_t choice = in.byte();
    const queue::Sge sge{side.peer.inbox.address(), length,
                         choice < 200 ? side.peer.inbox.key() : some_key(side, choice)};
    ++side.receives_owed;
    if (!side.peer.receive_into(1, sge)) --side.receives_owed;
  }

  void pass(Input& in) { pair_.world.run(1'000'000 * TimeNs{in.byte()}); }

  // Changes the state with valid attributes, or tries any attributes with any mask.
  void modify(Side& side, Side& other, Input& in, bool sensible) {
    qp::Attributes a;
    a.state = static_cast<State>(in.byte() % 7);
    const std::uint32_t mask = sensible ? std::uint32_t{qp::kMaskState} : in.word();
    a.sqd_notify = true;
    a.port = sensible ? 1 : in.byte();
    a.access_flags = sensible ? 0xe : in.word();
    a.path_mtu = static_cast<Mtu>(sensible ? 1 : in.byte());
    a.path.dlid = 2;
    a.path.port = 1;
    a.path.resolved = true;
    a.path.destination.address = other.peer.node().address();
    a.dest_qpn = other.peer.qp().number();
    a.timeout = in.byte();
    a.retry_count = in.byte();
    a.rnr_retry = in.byte();
    a.min_rnr_timer = in.byte();
    a.max_rd_atomic = in.byte();
    a.max_dest_rd_atomic = in.byte();
    a.rq_psn = Psn(in.word());
    a.sq_psn = Psn(in.word());
    const auto refused =
        side.peer.node().device().modify_qp(side.peer.qp(), a, mask, pair_.world.now());
    VERBENA_CHECK(!refused || !refused->reason.empty());
    if (!refused && (mask & qp::kMaskState) != 0 && a.state == State::kReset) forgive(side);
  }

  void window(Side& side, Input& in) {
    memory::Registry& memory = side.peer.node().device().memory();
    const std::uint8_t what = in.byte();
    if (what & 1) {
      if (side.windows.empty()) return;
      (void)memory.free_window(side.windows.back());
      side.windows.pop_back();
    } else if (side.windows.size() < 8) {
      const auto window = memory.allocate_window(Peer::kDomain, (what & 2) != 0);
      if (window.ok()) side.windows.push_back(*window);
    }
  }

  void region(Side& side, Input& in) {
    memory::Registry& memory = side.peer.node().device().memory();
    const std::uint8_t what = in.byte();
    if (what & 1) {
      if (side.regions.empty()) return;
      if (memory.deregister(side.regions.back()).ok()) side.regions.pop_back();
    } else if (side.regions.size() < 8) {
      memory::RegionRequest r;
      r.domain = Peer::kDomain;
      r.host_address = r.base = side.peer.target.address();
      r.length = 1 + in.word() % Peer::kMemory;
      r.access = in.word() & 0x33f;
      const auto key = memory.register_region(r);
      if (key.ok()) side.regions.push_back(*key);
    }
  }

  void queues(Side& side, Input& in) {
    const std::uint8_t what = in.byte();
    side.peer.send_cq().arm((what & 1) != 0);
    side.peer.receive_cq().arm((what & 2) != 0);
    (void)side.peer.send_cq().resize(64 + what);
    if (side.peer.srq() != nullptr) {
      (void)side.peer.srq()->queue.set_limit(what);
      (void)side.peer.srq()->queue.resize(1 + what);
    }
    side.peer.node().device().set_port_active((what & 0xf0) != 0xf0);
  }

  // Sends any bytes as a packet from the other end's address.
  void spoil(Side& to, Input& in) {
    std::vector<std::uint8_t> bytes(12 + 4 * (in.byte() % 16));
    for (auto& b : bytes) b = in.byte();
    pair_.world.inject(to.peer.node().index(), sides_[&to == &sides_[0]].peer.node().address(),
                       bytes);
  }

  void finish() {
    for (Side& s : sides_) {
      s.peer.node().device().set_port_active(true);
      if (s.peer.state() != State::kReset) s.peer.to_state(State::kError);
      s.reap();
      VERBENA_CHECK(s.peer.qp().requester().queue().is_empty());
    }
    pair_.world.run(1'000'000'000);
    for (Side& s : sides_) {
      s.reap();
      if (s.peer.srq() == nullptr && s.peer.state() == State::kError &&
          !s.peer.receive_cq().in_error()) {
        VERBENA_CHECK(s.receives_owed == 0);
      }
      for (const Arena* a : {&s.peer.source, &s.peer.result, &s.peer.inbox, &s.peer.target}) {
        a->expect_guards();
      }
    }
  }

  Pair pair_;
  Side sides_[2];
  queue::AddressVector to_[2];
  std::uint8_t loss_ = 0;
  std::uint64_t packet_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  constexpr Transport kTransports[] = {Transport::kRc, Transport::kRc, Transport::kUc,
                                       Transport::kUd, Transport::kXrcSend};
  const std::uint8_t mode = in.byte();
  PeerOptions left, right;
  left.transport = kTransports[(mode & 15) % 5];
  right.transport = other_end(left.transport);
  left.use_srq = (mode & 16) != 0;
  right.use_srq = (mode & 32) != 0;
  left.cq_capacity = right.cq_capacity = (mode & 64) != 0 ? 16 : 512;
  left.rnr_retry = left.retry_count = right.retry_count = right.rnr_retry = 2;
  left.timeout = right.timeout = 8;
  Play(left, right).run(in);
  return 0;
}
