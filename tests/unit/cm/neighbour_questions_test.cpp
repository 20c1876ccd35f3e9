// SPDX-License-Identifier: BSD-2-Clause
// How often the host is asked for a neighbour's address, and how the wait for it ends.
#include "verbena/cm/neighbour_questions.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "../../sim/cm/cm_world.hpp"

namespace verbena::cm {
namespace {

constexpr TimeNs kLook = NeighbourQuestions::kLook;

class NeighbourQuestionsTest : public testing::Test {
 protected:
  NeighbourQuestionsTest() { ports_.neighbours_answer = false; }
  void ask(IdHandle id, TimeNs until, std::uint32_t address = 0x0a000063) {
    const IpAddress there = IpAddress::v4(address);
    questions_.ask(id, {ports_.default_port(), ports_.default_port_address(), there, false}, until);
  }
  // Returns each ID whose wait has ended, and the error it ended with.
  std::map<IdHandle, int> look(TimeNs now) {
    std::map<IdHandle, int> ended;
    for (const NeighbourQuestions::Ended& one : questions_.look(now)) ended[one.id] = one.error;
    return ended;
  }

  sim::HostPorts ports_{0x0a000001, true};
  NeighbourQuestions questions_{ports_};
};

using Ended = std::map<IdHandle, int>;

TEST_F(NeighbourQuestionsTest, AreLookedAtAgainUntilThereIsAnAnswer) {
  EXPECT_EQ(questions_.next_deadline(), kNever);
  ask(7, 10 * kLook);
  EXPECT_EQ(questions_.next_deadline(), 0u);
  EXPECT_EQ(look(5), Ended{});
  EXPECT_EQ(questions_.next_deadline(), 5 + kLook);
  ports_.neighbours_answer = true;
  EXPECT_EQ(look(4 + kLook), Ended{}) << "not due";
  const auto ended = questions_.look(5 + kLook);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].id, 7u);
  EXPECT_EQ(ended[0].error, 0);
  EXPECT_EQ(ended[0].route.peer, IpAddress::v4(0x0a000063));
  EXPECT_EQ(questions_.next_deadline(), kNever);
}

TEST_F(NeighbourQuestionsTest, EndInVainWithTheProgramsPatience) {
  ask(7, 10);
  ask(8, 5 * kLook);
  EXPECT_EQ(look(9), Ended{});
  EXPECT_EQ(look(9 + kLook), (Ended{{7, ETIMEDOUT}}));
  EXPECT_EQ(look(5 * kLook), (Ended{{8, ETIMEDOUT}}));
}

TEST_F(NeighbourQuestionsTest, EndWhenThePortGoesDown) {
  ask(7, 10 * kLook);
  ports_.up = false;
  ports_.neighbours_answer = true;
  EXPECT_EQ(look(0), (Ended{{7, ENODEV}}));
}

// Looks whenever a look is due, until all questions have ended. Returns when each of them did.
std::map<IdHandle, TimeNs> ends_of(NeighbourQuestions& questions) {
  std::map<IdHandle, TimeNs> ends;
  while (questions.next_deadline() != kNever) {
    const TimeNs now = questions.next_deadline();
    for (const NeighbourQuestions::Ended& one : questions.look(now)) {
      EXPECT_EQ(one.error, ETIMEDOUT);
      ends[one.id] = now;
    }
  }
  return ends;
}

TEST_F(NeighbourQuestionsTest, OfManyIdsCostAsMuchAsOne) {
  const auto until = [](IdHandle id) { return 100 * kLook + id * kLook / 100; };
  ask(1, until(1));
  EXPECT_GE(ends_of(questions_).at(1), until(1));
  const unsigned asked_for_one = std::exchange(ports_.neighbours_asked, 0);
  EXPECT_LE(asked_for_one, 30u);
  for (IdHandle id = 1; id <= 300; ++id) ask(id, until(id));
  const auto ends = ends_of(questions_);
  ASSERT_EQ(ends.size(), 300u);
  for (const auto& [id, end] : ends) {
    EXPECT_GE(end, until(id));
    EXPECT_LE(end, until(id) + kLook);
  }
  // The last one waits 3 looks longer than the first.
  EXPECT_LE(ports_.neighbours_asked, asked_for_one + 4);
}

TEST_F(NeighbourQuestionsTest, OfSeveralNeighboursAreAnsweredApart) {
  ask(7, 10);
  ask(8, 5 * kLook, 0x0a000064);
  EXPECT_EQ(look(10), (Ended{{7, ETIMEDOUT}}));
  ports_.neighbours_answer = true;
  EXPECT_EQ(look(10 + kLook), (Ended{{8, 0}}));
  EXPECT_EQ(ports_.neighbours_asked, 3u);
}

TEST_F(NeighbourQuestionsTest, AreLookedAtSoonAgainForEachNewId) {
  ask(7, kNever);
  TimeNs now = 0;
  for (int looks = 0; looks < 40; ++looks) {
    now = questions_.next_deadline();
    EXPECT_EQ(look(now), Ended{});
  }
  EXPECT_EQ(questions_.next_deadline(), now + NeighbourQuestions::kLookMax);
  ask(8, kNever);
  EXPECT_EQ(questions_.next_deadline(), now + kLook);
  EXPECT_EQ(look(now + kLook), Ended{});
  EXPECT_EQ(questions_.next_deadline(), now + 2 * kLook);
}

TEST_F(NeighbourQuestionsTest, EndSoonWhenThePortGoesDown) {
  ask(7, kNever);
  EXPECT_EQ(look(0), Ended{});
  EXPECT_EQ(look(kLook), Ended{});
  ports_.up = false;
  questions_.look_soon();
  EXPECT_EQ(questions_.next_deadline(), 0u);
  EXPECT_EQ(look(kLook + 1), (Ended{{7, ENODEV}}));
}

// The description of the port that the question began with is gone.
class RenewedPorts final : public sim::HostPorts {
 public:
  RenewedPorts() : HostPorts(0x0a000001, true) {}
  const PortInfo* find(DeviceId device) const override {
    const PortInfo* const first = HostPorts::find(device);
    if (first == nullptr || !is_renewed) return first;
    renewed = *first;
    return &renewed;
  }
  bool is_renewed = false;
  mutable PortInfo renewed;
};

TEST(NeighbourQuestionsOfADevice, AreAnsweredByWhatIsKnownOfItThen) {
  RenewedPorts ports;
  ports.neighbours_answer = false;
  NeighbourQuestions questions(ports);
  PortInfo asked = *ports.find(1);
  const IpAddress there = IpAddress::v4(0x0a000063);
  questions.ask(7, {&asked, asked.address, there, false}, 10 * kLook);
  EXPECT_TRUE(questions.look(0).empty());
  asked.device = 99;  // the memory was reused
  ports.is_renewed = true;
  EXPECT_TRUE(questions.look(kLook).empty());
  ports.neighbours_answer = true;
  const auto ended = questions.look(2 * kLook);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].error, 0);
  EXPECT_EQ(ended[0].route.port, &ports.renewed);
}

TEST(NeighbourQuestionsOfADevice, EndWhenItIsGone) {
  sim::HostPorts ports(0x0a000001, true);
  ports.neighbours_answer = false;
  NeighbourQuestions questions(ports);
  const IpAddress there = IpAddress::v4(0x0a000063);
  {
    const auto asked = std::make_unique<PortInfo>(*ports.find(1));
    questions.ask(7, {asked.get(), asked->address, there, false}, 10 * kLook);
  }
  ports.present = false;
  const auto ended = questions.look(0);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].error, ENODEV);
}

TEST_F(NeighbourQuestionsTest, OfAnIdThatIsGoneAreForgotten) {
  ask(7, kLook);
  ask(8, kLook);
  questions_.forget(7);
  EXPECT_EQ(look(kLook), (Ended{{8, ETIMEDOUT}}));
}

}  // namespace
}  // namespace verbena::cm
