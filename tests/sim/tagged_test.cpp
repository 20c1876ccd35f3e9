// SPDX-License-Identifier: BSD-2-Clause
// Tagged messages between devices: eager, announced (rendezvous) and without a tag, in random order
// over a lossy wire, against a model that searches the posted tags from the front. Also
// announcements whose data never comes.
#include <algorithm>

#include "steps.hpp"
#include "verbena/base/random.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::sim::tagged {
namespace {

constexpr std::uint32_t kSlot = 256;
constexpr std::uint32_t kHeader = 16;
constexpr std::uint32_t kAnnouncement = 32;
constexpr std::uint32_t kTags = 40;
constexpr std::uint32_t kMessages = 40;
constexpr std::uint64_t kPlain = 1000;  // wr_ids of plain receives

enum class Kind : std::uint8_t { kNoTag = 0, kAnnounced = 1, kFin = 2, kEager = 3 };

PeerOptions tagged() {
  PeerOptions options;
  options.use_srq = true;
  options.max_tags = kTags;
  return options;
}

class Tagged : public Scene {
 public:
  explicit Tagged(std::uint64_t seed = 1) : Scene({}, tagged(), seed) {
    fill_pattern(left.target.bytes(), seed + 5);
  }

  void add(std::uint64_t id, std::uint64_t tag, std::uint64_t mask) {
    const queue::Sge sge{right.inbox.address(id * kSlot), kSlot, right.inbox.key()};
    queue::TagOperation op;
    op.receive_id = id;
    op.tag = tag;
    op.mask = mask;
    op.sges = {&sge, 1};
    ASSERT_EQ(right.srq()->tags->post(op), queue::TagMatching::Posted::kOk);
  }
  // Sends message `n`: its header (and eager data) is in slot n of the source, announced data in
  // the target.
  void send_message(std::uint32_t n, Kind kind, std::uint64_t tag, std::uint32_t length,
                    std::uint32_t key) {
    std::uint8_t* at = left.source.bytes().data() + std::size_t{n} * kSlot;
    std::memset(at, 0, kHeader);
    at[0] = static_cast<std::uint8_t>(kind);
    wire::store_be32(at + 4, n);
    wire::store_be64(at + 8, tag);
    if (kind == Kind::kAnnounced) {
      wire::store_be64(at + 16, left.target.address(std::size_t{n} * kSlot));
      wire::store_be32(at + 24, key);
      wire::store_be32(at + 28, length);
    }
    const std::uint32_t bytes = kind == Kind::kAnnounced ? kAnnouncement : kHeader + length;
    ASSERT_EQ(left.post(left.send(n + 1, bytes, std::size_t{n} * kSlot)), requester::Posted::kOk);
  }
  std::span<const std::uint8_t> received(std::uint64_t slot, std::size_t length) {
    return right.inbox.bytes().subspan(slot * kSlot, length);
  }
};

struct Expected {
  std::uint64_t id;
  CompletionOpcode opcode;
  std::uint16_t flags;
  std::uint32_t length;
  Kind kind;
  std::uint32_t message;
};

struct Model {
  struct Entry {
    std::uint64_t id, tag, mask;
  };
  std::vector<Entry> entries;
  std::uint64_t next_plain = kPlain;

  Expected deliver(std::uint32_t n, Kind kind, std::uint64_t tag, std::uint32_t length) {
    const std::uint32_t whole = kind == Kind::kAnnounced ? kAnnouncement : kHeader + length;
    if (kind == Kind::kNoTag) {
      return {next_plain++, CompletionOpcode::kTagNoTag, 0, whole, kind, n};
    }
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& e) { return (tag & e.mask) == e.tag; });
    if (found == entries.end()) {
      return {next_plain++, CompletionOpcode::kTagReceive, 0, whole, kind, n};
    }
    const std::uint64_t id = found->id;
    entries.erase(found);
    const bool eager = kind == Kind::kEager;
    return {id,
            CompletionOpcode::kTagReceive,
            static_cast<std::uint16_t>(queue::kTagMatched | (eager ? queue::kTagDataValid : 0)),
            length,
            kind,
            n};
  }
};

void check_data(Tagged& t, const Expected& e) {
  const std::uint8_t* source = t.left.source.bytes().data() + std::size_t{e.message} * kSlot;
  const bool matched = (e.flags & queue::kTagMatched) != 0;
  if (matched && e.kind == Kind::kEager) source += kHeader;
  if (matched && e.kind == Kind::kAnnounced) {
    source = t.left.target.bytes().data() + std::size_t{e.message} * kSlot;
  }
  const std::uint64_t slot = matched ? e.id : e.id - kPlain + kTags;
  const auto bytes = t.received(slot, e.length);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), source)) << "message " << e.message;
}

class TaggedSeeds : public testing::TestWithParam<std::uint64_t> {};

TEST_P(TaggedSeeds, MessagesReachTheBuffersThatTheModelNames) {
  Random random(GetParam());
  Tagged t(GetParam());
  Model model;
  constexpr std::uint64_t kMasks[] = {~std::uint64_t{0}, ~std::uint64_t{0}, 0x0c, 0};
  for (std::uint64_t id = 0; id < kTags; ++id) {
    const std::uint64_t mask = kMasks[random.below(std::size(kMasks))];
    const std::uint64_t tag = random.below(16) & mask;
    t.add(id, tag, mask);
    model.entries.push_back({id, tag, mask});
  }
  for (std::uint64_t n = 0; n < kMessages; ++n) {
    ASSERT_TRUE(t.right.receive(kPlain + n, kSlot, (kTags + n) * kSlot));
    ASSERT_TRUE(t.left.receive(n, kSlot, n * kSlot));
  }
  t.pair.world.faults().drop = t.pair.world.faults().duplicate = 50'000;
  t.pair.world.faults().reorder = 50'000;

  std::vector<Expected> expected;
  std::vector<std::uint64_t> fetched;
  for (std::uint32_t n = 0; n < kMessages; ++n) {
    constexpr Kind kKinds[] = {Kind::kEager, Kind::kEager, Kind::kAnnounced, Kind::kNoTag};
    const Kind kind = kKinds[random.below(std::size(kKinds))];
    const std::uint64_t tag = random.below(20);
    const auto length = static_cast<std::uint32_t>(1 + random.below(kSlot - kHeader));
    t.send_message(n, kind, tag, length, t.left.target.key());
    expected.push_back(model.deliver(n, kind, tag, length));
    const bool matched = (expected.back().flags & queue::kTagMatched) != 0;
    if (matched && kind == Kind::kAnnounced) fetched.push_back(expected.back().id);
  }
  ASSERT_TRUE(t.pair.run_until(
      [&] {
        return t.left.sends.size() == kMessages && t.left.receives.size() == fetched.size() &&
               t.right.receives.size() == expected.size() + fetched.size();
      },
      60'000'000'000));
  EXPECT_THAT(statuses(t.left.sends), testing::Each(Status::kSuccess));

  std::size_t next = 0;
  std::vector<std::uint64_t> done;
  for (const queue::Completion& c : t.right.receives) {
    ASSERT_EQ(c.status, Status::kSuccess);
    if (c.flags == queue::kTagDataValid) {
      done.push_back(c.id);
      continue;
    }
    const Expected& e = expected[next++];
    EXPECT_EQ(c.id, e.id);
    EXPECT_EQ(c.opcode, e.opcode);
    EXPECT_EQ(c.flags, e.flags);
    EXPECT_EQ(c.byte_length, e.length);
    check_data(t, e);
  }
  EXPECT_EQ(done, fetched);
  for (std::size_t i = 0; i < t.left.receives.size(); ++i) {
    EXPECT_EQ(t.left.receives[i].byte_length, kHeader);
    EXPECT_EQ(t.left.inbox.bytes()[i * kSlot], static_cast<std::uint8_t>(Kind::kFin));
  }
  t.expect_unharmed();
}

INSTANTIATE_TEST_SUITE_P(Seeds, TaggedSeeds, testing::Range<std::uint64_t>(1, 101));

TEST(Announcements, OfMemoryThatIsNotOpenEndIncomplete) {
  Tagged t;
  t.add(3, 7, ~std::uint64_t{0});
  t.send_message(0, Kind::kAnnounced, 7, 100, 0x00bad000);
  ASSERT_TRUE(t.pair.run_until([&] { return t.right.receives.size() >= 2; }));
  EXPECT_EQ(t.right.receives[0].flags, queue::kTagMatched);
  EXPECT_EQ(t.right.receives[1].id, 3u);
  EXPECT_EQ(t.right.receives[1].status, Status::kTagRendezvousIncomplete);
  EXPECT_EQ(t.right.receives[1].opcode, CompletionOpcode::kTagReceive);
  EXPECT_EQ(t.right.receives[1].tag, 7u);
  t.expect_unharmed();
}

TEST(Announcements, OfAPeerThatFallsSilentEndIncomplete) {
  Tagged t;
  t.add(3, 7, ~std::uint64_t{0});
  t.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    return &from != &t.pair.b || t.is_beside(bytes);
  };
  t.send_message(0, Kind::kAnnounced, 7, 100, t.left.target.key());
  ASSERT_TRUE(t.pair.run_until([&] { return t.right.receives.size() >= 2; }, 60'000'000'000));
  EXPECT_EQ(t.right.receives[1].id, 3u);
  EXPECT_EQ(t.right.receives[1].status, Status::kTagRendezvousIncomplete);
}

// No data is read, nothing beyond the buffer is touched, and both sides go on.
TEST(Announcements, OfMoreThanTheBufferHoldsEndIncomplete) {
  Tagged t;
  t.add(3, 7, ~std::uint64_t{0});
  t.add(4, 8, ~std::uint64_t{0});
  t.send_message(0, Kind::kAnnounced, 7, kSlot + 1, t.left.target.key());
  ASSERT_TRUE(t.pair.run_until([&] { return t.right.receives.size() >= 2; }));
  EXPECT_EQ(t.right.receives[0].flags, queue::kTagMatched);
  EXPECT_EQ(t.right.receives[0].status, Status::kSuccess);
  EXPECT_EQ(t.right.receives[0].byte_length, kSlot + 1);
  EXPECT_EQ(t.right.receives[1].id, 3u);
  EXPECT_EQ(t.right.receives[1].status, Status::kTagRendezvousIncomplete);
  EXPECT_EQ(t.right.receives[1].tag, 7u);
  t.send_message(1, Kind::kEager, 8, 20, 0);
  ASSERT_TRUE(t.pair.run_until([&] { return t.right.receives.size() >= 3; }));
  EXPECT_EQ(t.right.receives[2].id, 4u);
  EXPECT_EQ(t.right.receives[2].status, Status::kSuccess);
  EXPECT_EQ(t.right.state(), qp::State::kRts);
  EXPECT_TRUE(t.left.receives.empty());  // no FIN was sent
  t.expect_unharmed();
}

// "This flag also may be returned by unexpected receive WC, asking for IBV_WR_TAG_SYNC operation to
// keep TM coherence consistency."
TEST(Unexpected, MessagesAskForSynchronisationWhenTheProgramIsFarBehind) {
  Tagged t;
  const auto deliver = [&] {
    EXPECT_TRUE(t.right.receive(kPlain, kSlot, 0));
    t.send_message(0, Kind::kEager, 7, 20, 0);
    EXPECT_TRUE(
        t.pair.run_until([&] { return !t.right.receives.empty() && !t.left.sends.empty(); }));
    const std::uint16_t flags = t.right.receives.back().flags;
    t.right.receives.clear();
    t.left.sends.clear();
    return flags;
  };
  for (std::uint32_t n = 0; n < queue::TagMatching::kFarBehind; ++n) ASSERT_EQ(deliver(), 0) << n;
  EXPECT_EQ(deliver(), queue::kTagSyncRequest);
  queue::TagOperation op;
  op.opcode = queue::TagOpcode::kSync;
  op.synchronises = true;
  op.unexpected_count = queue::TagMatching::kFarBehind + 1;
  ASSERT_EQ(t.right.srq()->tags->post(op), queue::TagMatching::Posted::kOk);
  EXPECT_EQ(deliver(), 0);
}

TEST(TaggedBuffers, ThatAreTooShortFailTheirMessage) {
  Tagged t;
  t.add(3, 7, ~std::uint64_t{0});
  // The payload is longer than a slot, and the buffer is one slot long.
  t.send_message(0, Kind::kEager, 7, kSlot + 1, 0);
  ASSERT_TRUE(t.pair.run_until([&] { return !t.right.receives.empty() && !t.left.sends.empty(); }));
  EXPECT_EQ(t.right.receives[0].id, 3u);
  EXPECT_EQ(t.right.receives[0].status, Status::kLocalLength);
  EXPECT_EQ(t.left.sends[0].status, Status::kRemoteInvalidRequest);
  t.expect_unharmed();
}

}  // namespace
}  // namespace verbena::sim::tagged
