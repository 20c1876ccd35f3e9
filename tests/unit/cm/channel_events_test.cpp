// SPDX-License-Identifier: BSD-2-Clause
// Events that lie ready in shared memory. The books count exactly the events that a reader took, a
// withdrawn event is not handed out, and the answers beside an event are those of the commands.
#include "verbena/cm_service/channel_events.hpp"

#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "../../sim/cm/cm_programs.hpp"
#include "verbena/control/cm_answers.hpp"

namespace verbena::cm_service {
namespace {

using cm::ConnParam;
using cm::Ece;
using cm::IdHandle;
using cm::RdmaEventType;
using cm::sim::Host;
using cm::sim::inet;
using cm::sim::kPort;
using cm::sim::World;

constexpr cm::ChannelId kChannel = 1;
constexpr std::uint16_t kTcp = 0x106;
constexpr IdHandle kFirst = cm::IdTable::kFirstHandle;

// One host's channel, as a reader of its memory sees it.
class Reader {
 public:
  explicit Reader(Host& host) : host_(host), events_(ChannelEvents::create()) {
    EXPECT_NE(events_, nullptr);
    host_.cm.open_channel(kChannel);
    const control::UniqueFd fd = events_->release_fd();
    void* at = ::mmap(nullptr, sizeof *page_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(at, MAP_FAILED);
    page_ = static_cast<control::CmEventPage*>(at);
  }
  ~Reader() { ::munmap(page_, sizeof *page_); }

  ChannelEvents& events() { return *events_; }
  std::size_t take_back_first() { return events_->take_back_first(host_.cm, kChannel); }
  std::size_t take_back_from(std::uint32_t number) {
    return events_->take_back_from(host_.cm, kChannel, number);
  }
  control::CmEventPage& page() { return *page_; }
  void close() { events_.reset(); }
  std::size_t settle() { return events_->settle(host_.cm, kChannel); }
  void lay_out() { events_->lay_out(host_.ucma, host_.cm, kChannel); }
  std::optional<rdma_ucm_event_resp> take() {
    lay_out();
    if (!control::take_cm_event(*page_, false, copy) &&
        !control::take_cm_event(*page_, true, copy)) {
      return std::nullopt;
    }
    rdma_ucm_event_resp event{};
    EXPECT_EQ(copy.event().size(), sizeof event);
    std::memcpy(&event, copy.event().data(), sizeof event);
    return event;
  }
  std::vector<std::uint8_t> ask(std::uint32_t command, std::uint32_t id, std::uint32_t argument) {
    const rdma_ucm_cmd_hdr header{command, sizeof(rdma_ucm_query), 0xffff};
    const rdma_ucm_query query{0, id, argument};
    std::vector<std::uint8_t> bytes(sizeof header + sizeof query);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &query, sizeof query);
    const cm::UcmaReply reply = host_.ucma.execute(0, kChannel, bytes);
    EXPECT_EQ(reply.error, 0);
    return reply.response;
  }
  // Expects `count` answers, each equal to the answer of its command.
  void expect_answers(std::size_t count) {
    std::size_t found = 0;
    for (const std::uint32_t command : {RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_CMD_INIT_QP_ATTR}) {
      for (std::uint32_t argument = 0; argument < 4; ++argument) {
        const auto answer = control::find_answer(copy.answers(), {command, argument});
        if (!answer) continue;
        ++found;
        EXPECT_EQ(std::vector<std::uint8_t>(answer->begin(), answer->end()),
                  ask(command, copy.id, argument));
      }
    }
    EXPECT_EQ(found, count);
  }

  control::CmEventCopy copy;

 private:
  Host& host_;
  std::unique_ptr<ChannelEvents> events_;
  control::CmEventPage* page_ = nullptr;
};

class ChannelEventsTest : public ::testing::TestWithParam<bool> {
 protected:
  IdHandle create(Host& host, std::uint64_t uid) {
    IdHandle id = 0;
    EXPECT_EQ(host.cm.create_id(kChannel, uid, kTcp, 0, id), 0);
    return id;
  }
  IdHandle resolving(std::uint64_t uid) {
    const IdHandle id = create(a_, uid);
    EXPECT_EQ(a_.cm.resolve_addr(kChannel, id, {}, inet(b_.ports.default_port_address(), kPort)),
              0);
    return id;
  }
  IdHandle listening(std::int32_t backlog) {
    const IdHandle id = create(b_, 77);
    EXPECT_EQ(b_.cm.bind(kChannel, id, inet(IpAddress::v4(0), kPort)), 0);
    EXPECT_EQ(b_.cm.listen(world_.now, kChannel, id, backlog), 0);
    return id;
  }
  static ConnParam param(std::uint32_t qpn) {
    ConnParam p;
    p.qp_num = qpn;
    p.responder_resources = p.initiator_depth = 2;
    return p;
  }
  void connect(std::uint64_t uid) {
    const IdHandle id = resolving(uid);
    EXPECT_EQ(a_.cm.resolve_route(kChannel, id), 0);
    EXPECT_EQ(a_.cm.connect(world_.now, kChannel, id, param(0x4000 + id), Ece{}), 0);
    world_.step(world_.now + cm::sim::kMillisecond);
  }
  static void destroy(Host& host, TimeNs now, IdHandle id, std::uint32_t expected_reported) {
    std::uint32_t reported = 0;
    std::uint32_t withdrawn = 0;
    EXPECT_EQ(host.cm.destroy_id(now, kChannel, id, reported, withdrawn), 0);
    EXPECT_EQ(reported, expected_reported);
  }

  World world_{1, GetParam()};
  Host& a_ = world_.add_host();
  Host& b_ = world_.add_host();
  Reader active_{a_};
  Reader passive_{b_};
};
INSTANTIATE_TEST_SUITE_P(Both, ChannelEventsTest, testing::Values(false, true),
                         [](const auto& persona) { return persona.param ? "Roce" : "InfiniBand"; });

TEST_P(ChannelEventsTest, AnswersAreWhatTheCommandsAnswer) {
  listening(0);
  const IdHandle id = resolving(5);
  ASSERT_EQ(active_.take()->event, 0u);
  active_.expect_answers(2);
  EXPECT_EQ(a_.cm.resolve_route(kChannel, id), 0);
  ASSERT_EQ(active_.take()->event, 2u);
  active_.expect_answers(2);
  EXPECT_EQ(a_.cm.connect(world_.now, kChannel, id, param(0x4001), Ece{}), 0);
  world_.step();
  const auto request = passive_.take();
  ASSERT_EQ(request->event, 4u);
  EXPECT_EQ(request->uid, 77u);
  EXPECT_EQ(passive_.copy.id, request->id);
  passive_.expect_answers(6);
  const ConnParam accepted = param(0x8001);
  EXPECT_EQ(b_.cm.accept(world_.now, kChannel, request->id, 7, &accepted, Ece{}), 0);
  world_.step();
  ASSERT_EQ(active_.take()->event, 5u);
  active_.expect_answers(3);
}

// The command does what was promised, and nothing is promised twice.
TEST_P(ChannelEventsTest, TheCallThatComesNextIsPromised) {
  const auto promised = [](const Reader& reader, std::uint32_t command, std::uint32_t argument) {
    const auto answer = control::find_answer(reader.copy.answers(), {command, argument});
    return answer && answer->size() == 1 ? int{answer->front()} : -1;
  };
  listening(0);
  const IdHandle id = resolving(5);
  ASSERT_TRUE(active_.take());
  EXPECT_EQ(promised(active_, RDMA_USER_CM_CMD_CONNECT, 1), -1);
  EXPECT_EQ(a_.cm.resolve_route(kChannel, id), 0);
  ASSERT_TRUE(active_.take());
  ConnParam most = param(0x4001);
  most.private_data.assign(std::vector<std::uint8_t>(57));
  EXPECT_EQ(promised(active_, RDMA_USER_CM_CMD_CONNECT, 1), 56);
  EXPECT_EQ(a_.cm.connect(world_.now, kChannel, id, most, Ece{}), EINVAL);
  most.private_data.size = 56;
  EXPECT_EQ(a_.cm.connect(world_.now, kChannel, id, most, Ece{}), 0);
  world_.step();
  const auto request = passive_.take();
  ASSERT_TRUE(request);
  EXPECT_EQ(promised(passive_, RDMA_USER_CM_CMD_ACCEPT, 1), 196);
  EXPECT_EQ(promised(passive_, RDMA_USER_CM_CMD_ACCEPT, 0), -1);
  ConnParam accepted = param(0x8001);
  accepted.private_data.assign(std::vector<std::uint8_t>(196));
  EXPECT_EQ(b_.cm.accept(world_.now, kChannel, request->id, 7, &accepted, Ece{}), 0);
  world_.step();
  ASSERT_TRUE(active_.take());
  EXPECT_EQ(promised(active_, RDMA_USER_CM_CMD_ACCEPT, 0), 255);
  EXPECT_EQ(promised(active_, RDMA_USER_CM_CMD_ACCEPT, 1), -1);
  EXPECT_EQ(a_.cm.accept(world_.now, kChannel, id, 0, nullptr, Ece{}), 0);
}

// A request that its sender takes back has no event for the program, but it has changed.
TEST_P(ChannelEventsTest, ARequestThatIsTakenBackIsChanged) {
  listening(0);
  connect(1);
  const auto request = passive_.take();
  ASSERT_TRUE(request);
  b_.cm.take_wakeups();
  std::uint32_t reported = 0;
  std::uint32_t withdrawn = 0;
  EXPECT_EQ(a_.cm.destroy_id(world_.now, kChannel, kFirst, reported, withdrawn), 0);
  world_.step();
  const auto wakeups = b_.cm.take_wakeups();
  ASSERT_EQ(wakeups.size(), 1u);
  EXPECT_EQ(wakeups[0].changed, request->id);
  EXPECT_EQ(wakeups[0].events, 0u);
}

TEST_P(ChannelEventsTest, WhatCameBeforeAPromisedAcceptanceIsToldAfterIt) {
  listening(0);
  connect(1);
  const auto request = passive_.take();
  ASSERT_TRUE(request);
  std::uint32_t reported = 0;
  std::uint32_t withdrawn = 0;
  EXPECT_EQ(a_.cm.destroy_id(world_.now, kChannel, kFirst, reported, withdrawn), 0);
  world_.step();
  EXPECT_FALSE(passive_.take());
  const ConnParam accepted = param(0x8001);
  EXPECT_EQ(b_.cm.accept(world_.now, kChannel, request->id, 42, &accepted, Ece{}), EINVAL);
  b_.cm.break_promise(kChannel, request->id, 42, EINVAL);
  const auto rejected = passive_.take();
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->event, 8u);
  EXPECT_EQ(rejected->uid, 42u);
  EXPECT_FALSE(passive_.take());
}

TEST_P(ChannelEventsTest, ABrokenPromiseIsAnEvent) {
  listening(0);
  connect(1);
  const auto request = passive_.take();
  ASSERT_TRUE(request);
  b_.cm.break_promise(kChannel, request->id, 42, EINVAL);
  const auto broken = passive_.take();
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->event, 6u);
  EXPECT_EQ(broken->uid, 42u);
  EXPECT_EQ(static_cast<std::int32_t>(broken->status), -EINVAL);
  b_.cm.break_promise(kChannel, 12345, 42, EINVAL);
  EXPECT_FALSE(passive_.take());
}

// The peer rejects while the program confirms, which it was promised to succeed.
TEST_P(ChannelEventsTest, ARejectionIsTheOnlyEndOfAPromisedConfirmation) {
  listening(0);
  connect(1);
  const auto request = passive_.take();
  ASSERT_TRUE(request);
  const ConnParam accepted = param(0x8001);
  EXPECT_EQ(b_.cm.accept(world_.now, kChannel, request->id, 42, &accepted, Ece{}), 0);
  world_.step();
  while (const auto event = active_.take()) {
    if (event->event == 5u) break;
  }
  std::uint32_t reported = 0;
  std::uint32_t withdrawn = 0;
  EXPECT_EQ(b_.cm.destroy_id(world_.now, kChannel, request->id, reported, withdrawn), 0);
  world_.step();
  EXPECT_EQ(a_.cm.accept(world_.now, kChannel, kFirst, 0, nullptr, Ece{}), EINVAL);
  a_.cm.break_promise(kChannel, kFirst, 0, EINVAL);
  const auto rejected = active_.take();
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->event, 8u);
  EXPECT_FALSE(active_.take());
}

TEST_P(ChannelEventsTest, OnlyWhatWasTakenCounts) {
  const IdHandle first = resolving(1);
  const IdHandle second = resolving(2);
  EXPECT_EQ(active_.take()->uid, 1u);
  EXPECT_EQ(active_.settle(), 0u);
  EXPECT_EQ(a_.cm.pending_events(kChannel), 1u);
  EXPECT_EQ(active_.take_back_from(second), 0u);
  destroy(a_, world_.now, second, 0);
  EXPECT_FALSE(active_.take());
  destroy(a_, world_.now, first, 1);
}

TEST_P(ChannelEventsTest, OthersStayInTheirOrderWhenSomeAreWithdrawn) {
  std::vector<IdHandle> ids;
  for (std::uint64_t uid = 1; uid <= 5; ++uid) ids.push_back(resolving(uid));
  active_.lay_out();
  EXPECT_EQ(active_.take_back_from(ids[2]), 0u);
  destroy(a_, world_.now, ids[2], 0);
  for (const std::uint64_t uid : {1, 2, 4, 5}) EXPECT_EQ(active_.take()->uid, uid);
  EXPECT_FALSE(active_.take());
  EXPECT_EQ(active_.settle(), 1u);
  EXPECT_EQ(a_.cm.pending_events(kChannel), 0u);
}

// Events that come together are announced together, and the channel stays readable until the last.
TEST_P(ChannelEventsTest, OneAnnouncementIsForABatchAndBelongsToItsLast) {
  const IdHandle first = resolving(1);
  resolving(2);
  const IdHandle third = resolving(3);
  active_.lay_out();
  EXPECT_EQ(active_.events().announced(), 1u);
  resolving(4);
  active_.lay_out();
  EXPECT_EQ(active_.events().announced(), 2u);
  EXPECT_FALSE(control::take_cm_event(active_.page(), true, active_.copy));
  EXPECT_TRUE(control::take_cm_event(active_.page(), false, active_.copy));
  EXPECT_EQ(active_.copy.id, first);
  EXPECT_TRUE(control::take_cm_event(active_.page(), false, active_.copy));
  EXPECT_FALSE(control::take_cm_event(active_.page(), false, active_.copy));
  EXPECT_EQ(active_.settle(), 0u);
  EXPECT_TRUE(control::take_cm_event(active_.page(), true, active_.copy));
  EXPECT_EQ(active_.copy.id, third);
  EXPECT_EQ(active_.settle(), 1u);
  EXPECT_EQ(active_.events().announced(), 1u);
  EXPECT_EQ(active_.events().size(), 1u);
}

TEST_P(ChannelEventsTest, WithTheLastOfABatchWithdrawnTheOneBeforeItIsAnnounced) {
  resolving(1);
  const IdHandle second = resolving(2);
  active_.lay_out();
  EXPECT_EQ(active_.take_back_from(second), 0u);
  destroy(a_, world_.now, second, 0);
  EXPECT_EQ(active_.events().announced(), 0u);
  EXPECT_EQ(active_.events().to_be_announced(), 1u);
  active_.lay_out();
  EXPECT_EQ(active_.events().announced(), 1u);
  EXPECT_FALSE(control::take_cm_event(active_.page(), false, active_.copy));
  EXPECT_EQ(active_.take()->uid, 1u);
}

TEST_P(ChannelEventsTest, TheFirstCanBeFetchedByACommandInstead) {
  resolving(1);
  resolving(2);
  active_.lay_out();
  EXPECT_EQ(active_.take_back_first(), 0u);
  EXPECT_EQ(a_.cm.get_event(kChannel)->uid, 1u);
  EXPECT_EQ(active_.take()->uid, 2u);
  EXPECT_EQ(active_.take_back_first(), 1u);
  EXPECT_EQ(a_.cm.pending_events(kChannel), 0u);
}

// The memory stays with a program that has mapped it, and with one that has forgotten the close.
TEST_P(ChannelEventsTest, AChannelThatIsGoneHasNoEvents) {
  resolving(1);
  resolving(2);
  active_.lay_out();
  active_.close();
  EXPECT_FALSE(control::take_cm_event(active_.page(), false, active_.copy));
  EXPECT_FALSE(control::take_cm_event(active_.page(), true, active_.copy));
}

// Events for which there is no room wait in the books, and follow later.
TEST_P(ChannelEventsTest, ManyComeAFewAtATime) {
  constexpr std::uint64_t kMany = 3 * control::kCmTickets + 5;
  for (std::uint64_t uid = 1; uid <= kMany; ++uid) resolving(uid);
  for (std::uint64_t uid = 1; uid <= kMany; ++uid) {
    active_.settle();
    ASSERT_EQ(active_.take()->uid, uid);
  }
  active_.settle();
  EXPECT_EQ(a_.cm.pending_events(kChannel), 0u);
}

TEST_P(ChannelEventsTest, AnswersAreOutdatedByACommandAndByTheNextEvent) {
  const auto is_current = [&] {
    return active_.copy.version == control::version_of(active_.page(), active_.copy.id);
  };
  const IdHandle listener = listening(0);
  const IdHandle id = resolving(1);
  ASSERT_TRUE(active_.take());
  EXPECT_TRUE(is_current());
  active_.events().outdate_answers(id);
  EXPECT_FALSE(is_current());

  EXPECT_EQ(a_.cm.resolve_route(kChannel, id), 0);
  ASSERT_TRUE(active_.take());
  EXPECT_TRUE(is_current());
  EXPECT_EQ(a_.cm.connect(world_.now, kChannel, id, param(0x4001), Ece{}), 0);
  world_.step();
  EXPECT_TRUE(is_current());
  destroy(b_, world_.now, listener, 0);  // destroys the request as well
  world_.step();
  active_.lay_out();
  EXPECT_FALSE(is_current());
  EXPECT_EQ(active_.take()->event, 8u);
}

// A program that writes anything into the memory spoils its own books, and no others.
TEST_P(ChannelEventsTest, WhoScribblesGetsAtMostAWrongOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<IdHandle> ids;
    for (std::uint64_t uid = 1; uid <= 5; ++uid) ids.push_back(resolving(uid));
    active_.lay_out();
    for (auto& ticket : active_.page().tickets) {
      if (random() % 3 == 0) ticket.store(ticket.load() ^ random() % 4);
      if (random() % 9 == 0) ticket.store(random());
    }
    const std::size_t before = a_.cm.pending_events(kChannel);
    const std::size_t used = random() % 2 == 0 ? active_.take_back_first() : active_.settle();
    ASSERT_LE(a_.cm.pending_events(kChannel) + used, before);
    ASSERT_LE(active_.events().announced(), active_.events().size());
    for (const IdHandle id : ids) {
      active_.take_back_from(id);
      std::uint32_t reported = 0;
      std::uint32_t withdrawn = 0;
      ASSERT_EQ(a_.cm.destroy_id(world_.now, kChannel, id, reported, withdrawn), 0);
      ASSERT_EQ(reported + withdrawn, 1u);
      active_.lay_out();
    }
    ASSERT_EQ(a_.cm.pending_events(kChannel), 0u);
  }
}

// A request that was taken does not count against the backlog, even before the daemon is told.
TEST_P(ChannelEventsTest, WhatWasTakenMakesRoomInTheBacklog) {
  b_.cm.set_catch_up([&](cm::ChannelId) { passive_.settle(); });
  listening(1);
  for (std::uint64_t uid = 1; uid <= 3; ++uid) {
    connect(uid);
    const auto request = passive_.take();
    ASSERT_TRUE(request) << uid;
    EXPECT_EQ(request->event, 4u);
  }
}

}  // namespace
}  // namespace verbena::cm_service
