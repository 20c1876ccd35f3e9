// SPDX-License-Identifier: BSD-2-Clause
// The list of tagged buffers: the sentences of ibv_post_srq_ops(3) one by one, and a comparison
// with a model that keeps all entries in one vector and searches it from the front.
#include "verbena/queue/tag_matching.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "recording_sink.hpp"
#include "verbena/base/random.hpp"

namespace verbena::queue::tag_matching {
namespace {

using testing::RecordingSink;
using Posted = TagMatching::Posted;

constexpr std::uint64_t kExact = ~std::uint64_t{0};

class TagMatchingTest : public ::testing::Test {
 protected:
  static CompletionQueue::Options cq_options() {
    CompletionQueue::Options options;
    options.capacity = 1u << 20;
    return options;
  }

  // Adds an entry whose buffer follows from its receive id.
  Posted add(std::uint64_t receive_id, std::uint64_t tag, std::uint64_t mask, TagOperation& op) {
    const Sge sge{receive_id * 16, 64, 7};
    op.opcode = TagOpcode::kAdd;
    op.receive_id = receive_id;
    op.tag = tag;
    op.mask = mask;
    op.sges = {&sge, 1};
    return tags_.post(op);
  }
  std::uint32_t add(std::uint64_t receive_id, std::uint64_t tag, std::uint64_t mask = kExact) {
    TagOperation op;
    EXPECT_EQ(add(receive_id, tag, mask, op), Posted::kOk);
    return op.handle;
  }
  void remove(std::uint32_t handle, std::uint64_t id = 0, bool signaled = false) {
    TagOperation op;
    op.opcode = TagOpcode::kDelete;
    op.id = id;
    op.signaled = signaled;
    op.handle = handle;
    EXPECT_EQ(tags_.post(op), Posted::kOk);
  }
  void synchronise(std::uint32_t count, std::uint64_t id = 0, bool signaled = false) {
    TagOperation op;
    op.opcode = TagOpcode::kSync;
    op.id = id;
    op.signaled = signaled;
    op.synchronises = true;
    op.unexpected_count = count;
    EXPECT_EQ(tags_.post(op), Posted::kOk);
  }
  std::optional<std::uint64_t> match(std::uint64_t tag) {
    ActiveReceive out;
    if (!tags_.match(tag, out)) return std::nullopt;
    EXPECT_EQ(out.sge_count, 1u);
    EXPECT_EQ(out.sges[0].address, out.id * 16);
    EXPECT_EQ(out.capacity, 64u);
    return out.id;
  }
  Completion next() {
    Completion c;
    EXPECT_TRUE(cq_.poll_one(c));
    return c;
  }
  bool is_silent() {
    Completion c;
    return !cq_.poll_one(c);
  }

  RecordingSink sink_;
  CompletionQueue cq_{cq_options(), sink_};
  TagMatching tags_{{.max_tags = 1000, .max_sges = 2}, cq_};
};

// "To request WC for tag list operations IBV_OPS_SIGNALED flags should be passed ... wr_id will
// identify WC."
TEST_F(TagMatchingTest, CompletesWhatIsSignaledAndNothingElse) {
  TagOperation op;
  op.id = 11;
  op.signaled = true;
  add(1, 5, kExact, op);
  const std::uint32_t handle = op.handle;
  Completion c = next();
  EXPECT_EQ(c.id, 11u);
  EXPECT_EQ(c.opcode, CompletionOpcode::kTagAdd);
  EXPECT_EQ(c.status, Status::kSuccess);
  EXPECT_EQ(c.flags, 0);
  remove(handle, 12, true);
  c = next();
  EXPECT_EQ(c.id, 12u);
  EXPECT_EQ(c.opcode, CompletionOpcode::kTagDelete);
  EXPECT_EQ(c.status, Status::kSuccess);
  synchronise(0, 13, true);
  c = next();
  EXPECT_EQ(c.id, 13u);
  EXPECT_EQ(c.opcode, CompletionOpcode::kTagSync);
  remove(add(2, 5));
  synchronise(0);
  EXPECT_TRUE(is_silent());
}

// "Incoming message considered matching if TMH.tag & entry.mask == entry.tag", in posting order.
TEST_F(TagMatchingTest, MatchesUnderTheMaskOldestFirst) {
  add(1, 0x1200, 0xff00);
  add(2, 0x1234);
  add(3, 0, 0);
  EXPECT_EQ(match(0x1234), 1u);
  EXPECT_EQ(match(0x1234), 2u);
  EXPECT_EQ(match(0x1234), 3u);
  EXPECT_EQ(match(0x1234), std::nullopt);
}

TEST_F(TagMatchingTest, EqualTagsLeaveInPostingOrder) {
  for (std::uint64_t id = 0; id < 100; ++id) add(id, 9);
  for (std::uint64_t id = 0; id < 100; ++id) EXPECT_EQ(match(9), id);
}

// "Operation may fail due to concurrent tag consumption - in this case IBV_WC_TM_ERR status will be
// returned in WC". A failure always has a completion, signaled or not.
TEST_F(TagMatchingTest, DeletingWhatWasConsumedFailsInTheCompletion) {
  const std::uint32_t handle = add(1, 5);
  EXPECT_EQ(match(5), 1u);
  remove(handle, 21);
  const Completion c = next();
  EXPECT_EQ(c.id, 21u);
  EXPECT_EQ(c.opcode, CompletionOpcode::kTagDelete);
  EXPECT_EQ(c.status, Status::kTagMatching);
}

TEST_F(TagMatchingTest, AHandleIsGoodOnce) {
  const std::uint32_t first = add(1, 5);
  remove(first);
  const std::uint32_t second = add(2, 5);
  EXPECT_NE(first, second);
  remove(first);
  EXPECT_EQ(next().status, Status::kTagMatching);
  EXPECT_EQ(match(5), 2u);
  remove(~0u);
  EXPECT_EQ(next().status, Status::kTagMatching);
}

TEST_F(TagMatchingTest, DeletedFromTheMiddle) {
  add(1, 5);
  const std::uint32_t middle = add(2, 5);
  const std::uint32_t last = add(3, 5);
  add(4, 5);
  remove(middle);
  EXPECT_EQ(match(5), 1u);
  remove(last);
  EXPECT_EQ(match(5), 4u);
  EXPECT_EQ(tags_.size(), 0u);
}

// "Size of tag matching list is limited by max_num_tags. SGE list size is limited by max_sge."
TEST_F(TagMatchingTest, LimitsRefuseAndChangeNothing) {
  TagMatching tags({.max_tags = 2, .max_sges = 1}, cq_);
  TagOperation op;
  op.mask = kExact;
  EXPECT_EQ(tags.post(op), Posted::kOk);
  const std::array<Sge, 2> two{};
  op.sges = two;
  EXPECT_EQ(tags.post(op), Posted::kTooManySges);
  op.sges = {};
  EXPECT_EQ(tags.post(op), Posted::kOk);
  // A refused operation does not synchronise.
  ActiveReceive out;
  EXPECT_FALSE(tags.match(1, out));
  op.synchronises = true;
  op.unexpected_count = 1;
  EXPECT_EQ(tags.post(op), Posted::kFull);
  EXPECT_TRUE(tags.wants_synchronisation());
  EXPECT_EQ(tags.size(), 2u);
}

// "This process considered coherent only if all unexpected messages received by HW is completely
// processed in SW". Until then new entries wait, and old ones match.
TEST_F(TagMatchingTest, OutOfPhaseNewEntriesWait) {
  add(1, 5);
  EXPECT_EQ(match(6), std::nullopt);
  EXPECT_TRUE(tags_.wants_synchronisation());
  add(2, 6);
  EXPECT_EQ(match(5), 1u);
  EXPECT_EQ(match(6), std::nullopt);
  synchronise(1);  // two messages were unexpected
  EXPECT_EQ(tags_.size(), 1u);
  EXPECT_EQ(match(6), std::nullopt);
  synchronise(3);
  EXPECT_FALSE(tags_.wants_synchronisation());
  EXPECT_EQ(match(6), 2u);
}

// "IBV_WC_TM_SYNC_REQ flag returned in list operation WC shows that counter synchronization
// required."
TEST_F(TagMatchingTest, CompletionsAskForSynchronisation) {
  match(6);
  TagOperation op;
  op.signaled = true;
  add(1, 7, kExact, op);
  EXPECT_EQ(next().flags, kTagSyncRequest);
  synchronise(1, 0, true);
  EXPECT_EQ(next().flags, 0);
}

// "To pass to hardware number of processed unexpected messages unexpected_cnt field should be used
// and IBV_OPS_TM_SYNC flag should be set". Any operation may set it; it applies first.
TEST_F(TagMatchingTest, AnyOperationMaySynchronise) {
  match(6);
  TagOperation op;
  op.synchronises = true;
  op.unexpected_count = 1;
  add(1, 7, kExact, op);
  EXPECT_EQ(match(7), 1u);
  // Without the flag the count has no effect.
  match(6);
  TagOperation other;
  other.unexpected_count = 2;
  add(2, 7, kExact, other);
  EXPECT_EQ(match(7), std::nullopt);
}

TEST_F(TagMatchingTest, AMessageThatComesAgainWasNotUnexpected) {
  EXPECT_EQ(match(6), std::nullopt);
  add(1, 6);
  tags_.take_back_unexpected();
  EXPECT_FALSE(tags_.wants_synchronisation());
  EXPECT_EQ(match(6), 1u);
}

TEST_F(TagMatchingTest, WaitingEntriesCanBeDeleted) {
  match(6);
  const std::uint32_t a = add(1, 6);
  add(2, 6);
  const std::uint32_t c = add(3, 6);
  remove(a);
  remove(c);
  synchronise(1);
  EXPECT_EQ(match(6), 2u);
  EXPECT_EQ(tags_.size(), 0u);
}

// --- the model ---

struct Model {
  struct Entry {
    std::uint64_t receive_id, tag, mask;
    std::uint32_t handle;
    bool listed;
  };
  std::vector<Entry> entries;  // in posting order
  std::uint32_t unexpected = 0;
  std::uint32_t handled = 0;

  bool in_phase() const { return unexpected == handled; }
  void settle() {
    if (!in_phase()) return;
    for (Entry& e : entries) e.listed = true;
  }
  std::optional<std::uint64_t> match(std::uint64_t tag) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) {
      return e.listed && (tag & e.mask) == e.tag;
    });
    if (found == entries.end()) {
      ++unexpected;
      settle();  // for a program that was ahead
      return std::nullopt;
    }
    const std::uint64_t id = found->receive_id;
    entries.erase(found);
    return id;
  }
  bool remove(std::uint32_t handle) {
    return std::erase_if(entries, [&](const Entry& e) { return e.handle == handle; }) == 1;
  }
};

class TagMatchingAgainstModel : public TagMatchingTest,
                                public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  std::uint64_t some_mask() {
    constexpr std::uint64_t kMasks[] = {kExact, kExact, kExact, 0xff, 0xf0, 0};
    return kMasks[random_.below(std::size(kMasks))];
  }
  std::uint64_t some_tag() { return random_.below(64); }

  void add_one() {
    TagOperation op;
    op.id = ++ids_;
    op.signaled = random_.below(2) == 0;
    if (random_.below(4) == 0) {
      op.synchronises = true;
      op.unexpected_count = model_.unexpected;
      model_.handled = model_.unexpected;
      model_.settle();
    }
    const std::uint64_t mask = some_mask();
    const std::uint64_t tag = some_tag() & mask;
    ASSERT_EQ(add(op.id, tag, mask, op), Posted::kOk);
    model_.entries.push_back({op.id, tag, mask, op.handle, false});
    model_.settle();
    if (op.signaled) expect_completion(op.id, CompletionOpcode::kTagAdd, Status::kSuccess);
    if (random_.below(3) == 0) handles_.push_back(op.handle);
  }
  void remove_one() {
    if (handles_.empty()) return;
    const std::size_t which = random_.below(handles_.size());
    const std::uint32_t handle = handles_[which];
    handles_.erase(handles_.begin() + static_cast<std::ptrdiff_t>(which));
    const bool there = model_.remove(handle);
    remove(handle, ++ids_, true);
    expect_completion(ids_, CompletionOpcode::kTagDelete,
                      there ? Status::kSuccess : Status::kTagMatching);
  }
  void synchronise_one() {
    model_.handled =
        random_.below(3) == 0 ? static_cast<std::uint32_t>(random_.below(100)) : model_.unexpected;
    model_.settle();
    synchronise(model_.handled);
  }
  void match_one() {
    const std::uint64_t tag = some_tag();
    const auto expected = model_.match(tag);
    EXPECT_EQ(match(tag), expected);
    if (expected || random_.below(4) != 0) return;
    tags_.take_back_unexpected();
    --model_.unexpected;
    model_.settle();
  }
  void expect_completion(std::uint64_t id, CompletionOpcode opcode, Status status) {
    const Completion c = next();
    EXPECT_EQ(c.id, id);
    EXPECT_EQ(c.opcode, opcode);
    EXPECT_EQ(c.status, status);
    EXPECT_EQ(c.flags, model_.in_phase() ? 0 : kTagSyncRequest);
  }

  Random random_{GetParam()};
  Model model_;
  std::vector<std::uint32_t> handles_;
  std::uint64_t ids_ = 0;
};

TEST_P(TagMatchingAgainstModel, TenThousandOperations) {
  SCOPED_TRACE(GetParam());
  for (int step = 0; step < 10'000 && !HasFailure(); ++step) {
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        add_one();
        break;
      case 3:
        remove_one();
        break;
      case 4:
        synchronise_one();
        break;
      default:
        match_one();
        break;
    }
    // The model stays below the limit, which another test covers.
    while (model_.entries.size() > 900) match_one();
    ASSERT_EQ(tags_.size(), model_.entries.size()) << "step " << step;
    ASSERT_EQ(tags_.wants_synchronisation(), !model_.in_phase()) << "step " << step;
  }
  EXPECT_TRUE(is_silent());
}

INSTANTIATE_TEST_SUITE_P(Seeds, TagMatchingAgainstModel, ::testing::Range<std::uint64_t>(1, 21));

}  // namespace
}  // namespace verbena::queue::tag_matching
