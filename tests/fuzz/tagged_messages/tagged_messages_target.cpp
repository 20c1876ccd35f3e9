// SPDX-License-Identifier: BSD-2-Clause
// A program and a peer of a tag-matching SRQ, which act in any order over a lossy wire: entries are
// added, deleted and synchronised; messages come eagerly, announced, without a tag, or with an
// invalid header. A model that searches all entries from the front says which buffer each message
// takes, what its completion says, and whether the device answers with FIN.
//
// The input: operations, each a byte and its arguments (missing ones are zero).
#include <algorithm>
#include <cstring>

#include "input.hpp"
#include "pair.hpp"
#include "verbena/wire/bytes.hpp"

namespace {

using namespace verbena;
using fuzz::Input;
using namespace verbena::sim;
using queue::CompletionOpcode;

constexpr std::uint32_t kSlot = 256;
constexpr std::uint32_t kSlots = 32;  // tagged buffers; as many plain ones are behind them
constexpr std::uint32_t kHeader = 16;
constexpr std::uint32_t kAnnouncement = 32;
constexpr std::uint64_t kPlain = 1000;
constexpr std::uint64_t kNobody = ~std::uint64_t{0};
constexpr std::uint64_t kMasks[] = {~std::uint64_t{0}, ~std::uint64_t{0}, 0x0f, 0};

struct Entry {
  std::uint64_t id, tag, mask;
  std::uint32_t handle;
  bool listed;
};

PeerOptions receiver() {
  PeerOptions options;
  options.use_srq = true;
  options.max_tags = kSlots;
  return options;
}

class Play {
 public:
  Play() : pair_({}, receiver()), tags_(*pair_.right.srq()->tags) {
    pair_.world.filter = [this](const Node&, std::span<const std::uint8_t>) {
      const bool lost = (loss_ & 1) != 0;
      loss_ >>= 1;
      return !lost;
    };
  }

  void run(Input& in) {
    for (int steps = 0; !in.empty() && steps < 200; ++steps) {
      switch (in.byte() % 6) {
        case 0:
        case 1:
          add(in.byte(), in.byte());
          break;
        case 2:
          remove(in.byte());
          break;
        case 3:
          synchronise(in.byte());
          break;
        case 4:
          loss_ = in.byte();
          break;
        default:
          send(in.byte(), in.byte(), in.byte());
      }
      VERBENA_CHECK(tags_.size() == entries_.size());
      VERBENA_CHECK(tags_.wants_synchronisation() == (unexpected_ != handled_));
    }
  }

 private:
  void settle() {
    if (unexpected_ != handled_) return;
    for (Entry& e : entries_) e.listed = true;
  }
  queue::Completion next() {
    VERBENA_CHECK(pair_.run_until([&] { return !pair_.right.receives.empty(); }, 60'000'000'000));
    const queue::Completion c = pair_.right.receives.front();
    pair_.right.receives.erase(pair_.right.receives.begin());
    return c;
  }
  void post(queue::TagOperation& op, CompletionOpcode opcode, queue::TagMatching::Posted expected,
            queue::Status status) {
    op.id = ++ids_;
    op.signaled = true;
    VERBENA_CHECK(tags_.post(op) == expected);
    if (expected != queue::TagMatching::Posted::kOk) return;
    // The operation changes the program's list first. The flag tells the state after that.
    if (op.opcode == queue::TagOpcode::kAdd) {
      entries_.push_back({op.receive_id, op.tag, op.mask, op.handle, false});
    }
    settle();
    const queue::Completion c = next();
    VERBENA_CHECK(c.id == op.id && c.opcode == opcode && c.status == status);
    VERBENA_CHECK(c.flags == (unexpected_ != handled_ ? queue::kTagSyncRequest : 0));
  }

  void add(std::uint8_t what, std::uint8_t flags) {
    std::uint64_t slot = 0;
    const auto taken = [&](const Entry& e) { return e.id == slot; };
    while (slot < kSlots && std::any_of(entries_.begin(), entries_.end(), taken)) ++slot;
    const queue::Sge sge{pair_.right.inbox.address(slot * kSlot), kSlot, pair_.right.inbox.key()};
    queue::TagOperation op;
    op.receive_id = slot;
    op.mask = kMasks[flags & 3];
    op.tag = (what & 31) & op.mask;
    op.sges = {&sge, 1};
    const bool full = entries_.size() == kSlots;
    op.synchronises = (flags & 4) != 0;
    op.unexpected_count = (flags & 8) != 0 ? unexpected_ : flags;
    if (op.synchronises && !full) handled_ = op.unexpected_count;
    post(op, CompletionOpcode::kTagAdd,
         full ? queue::TagMatching::Posted::kFull : queue::TagMatching::Posted::kOk,
         queue::Status::kSuccess);
  }
  void remove(std::uint8_t which) {
    queue::TagOperation op;
    op.opcode = queue::TagOpcode::kDelete;
    op.handle = gone_;  // the handle of an entry that has left, or of none
    const std::size_t at = which & 63;
    const bool there = at < entries_.size();
    if (there) {
      op.handle = gone_ = entries_[at].handle;
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    post(op, CompletionOpcode::kTagDelete, queue::TagMatching::Posted::kOk,
         there ? queue::Status::kSuccess : queue::Status::kTagMatching);
  }
  void synchronise(std::uint8_t what) {
    queue::TagOperation op;
    op.opcode = queue::TagOpcode::kSync;
    op.synchronises = true;
    op.unexpected_count = handled_ = (what & 1) != 0 ? what : unexpected_;
    post(op, CompletionOpcode::kTagSync, queue::TagMatching::Posted::kOk, queue::Status::kSuccess);
  }

  // Returns the entry that a message takes. Without one, counts the message as unexpected.
  std::uint64_t match(std::uint64_t tag) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
      return e.listed && (tag & e.mask) == e.tag;
    });
    if (found == entries_.end()) {
      ++unexpected_;
      settle();
      return kNobody;
    }
    const std::uint64_t id = found->id;
    gone_ = found->handle;
    entries_.erase(found);
    return id;
  }

  void send(std::uint8_t kind, std::uint8_t tag, std::uint8_t size) {
    const std::uint8_t opcode = kind < 128 ? static_cast<std::uint8_t>(1 + 2 * (kind & 1)) : kind;
    const bool announced = opcode == 1, tagged = announced || opcode == 3;
    const std::uint32_t data = announced ? 2u * size : size % (kSlot - kHeader);
    const std::uint32_t bytes = announced ? kAnnouncement : kHeader + data;
    std::uint8_t* at = pair_.left.source.bytes().data();
    std::memset(at, 0, kAnnouncement);
    at[0] = opcode;
    wire::store_be32(at + 4, 42);
    wire::store_be64(at + 8, tag & 31);
    if (announced) {
      wire::store_be64(at + 16, pair_.left.target.address());
      wire::store_be32(at + 24, pair_.left.target.key());
      wire::store_be32(at + 28, data);
    }
    if (plain_ == taken_) {
      const std::size_t slot = kSlots + plain_ % kSlots;
      VERBENA_CHECK(pair_.right.receive(kPlain + plain_++, kSlot, slot * kSlot));
    }
    if (!awaits_fin_) awaits_fin_ = pair_.left.receive(1, kSlot);
    pair_.left.post(pair_.left.send(++sends_, bytes));
    const std::uint64_t buffer = tagged ? match(tag & 31) : kNobody;
    const bool matched = buffer != kNobody;
    const queue::Completion c = next();
    VERBENA_CHECK(c.status == queue::Status::kSuccess);
    VERBENA_CHECK(c.opcode ==
                  (tagged ? CompletionOpcode::kTagReceive : CompletionOpcode::kTagNoTag));
    VERBENA_CHECK(c.byte_length == (matched ? data : bytes));
    if (matched) {
      VERBENA_CHECK(c.id == buffer && c.tag == (tag & 31u) && c.tag_private == 42);
      VERBENA_CHECK(c.flags == (queue::kTagMatched | (announced ? 0 : queue::kTagDataValid)));
    } else {
      VERBENA_CHECK(c.id == kPlain + taken_++);
      VERBENA_CHECK((c.flags & ~queue::kTagSyncRequest) == 0);
    }
    if (matched && announced) fetch(buffer, data);
    pair_.run_until([&] { return !pair_.left.sends.empty(); }, 60'000'000'000);
    VERBENA_CHECK(pair_.left.sends.size() == 1 &&
                  pair_.left.sends[0].status == queue::Status::kSuccess);
    pair_.left.sends.clear();
  }
  // The device reads the data on its own, if there is room for it, and sends FIN.
  void fetch(std::uint64_t id, std::uint32_t length) {
    const queue::Completion c = next();
    VERBENA_CHECK(c.id == id && c.opcode == CompletionOpcode::kTagReceive);
    if (length > kSlot) {
      VERBENA_CHECK(c.status == queue::Status::kTagRendezvousIncomplete);
      return;
    }
    VERBENA_CHECK(c.status == queue::Status::kSuccess && c.flags == queue::kTagDataValid);
    VERBENA_CHECK(pair_.run_until([&] { return !pair_.left.receives.empty(); }, 60'000'000'000));
    VERBENA_CHECK(pair_.left.receives.size() == 1 && pair_.left.receives[0].byte_length == kHeader);
    pair_.left.receives.clear();
    awaits_fin_ = false;
  }

  Pair pair_;
  queue::TagMatching& tags_;
  std::vector<Entry> entries_;
  std::uint32_t unexpected_ = 0;
  std::uint32_t handled_ = 0;
  std::uint32_t gone_ = 0xfffff;
  std::uint64_t ids_ = 1u << 20;
  std::uint64_t sends_ = 0;
  std::uint64_t plain_ = 0;  // how many were posted
  bool awaits_fin_ = false;  // a receive of the left end is posted
  std::uint64_t taken_ = 0;
  std::uint8_t loss_ = 0;  // a bit for each of the next eight packets: lost
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  Play().run(in);
  return 0;
}
