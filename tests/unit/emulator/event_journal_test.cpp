// SPDX-License-Identifier: BSD-2-Clause
// What readers of events are sent, and when; how many records of one context are taken in a turn.
#include "event_journal.hpp"

#include <algorithm>

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

using control::JournalKind;
using control::JournalQuery;
using control::JournalText;

class EventJournalTest : public ClientsTest {
 protected:
  void ask(const Client& reader, std::uint64_t after, bool follows, std::uint32_t sequence = 1) {
    JournalQuery query;
    query.after = after;
    query.follows = follows;
    journal_.on_query(*reader.session, incoming(query, sequence));
    reactor_.run();
  }
  void note(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) journal_.note(R"({"kind":"test"})");
  }
  // Returns the text of all pages that the reader has been sent.
  static std::string text(const Client& reader) {
    std::string all;
    while (true) {
      const auto in = control::receive_packet(reader.fd.get(), MSG_DONTWAIT);
      if (!in) return all;
      all += control::decode<JournalText>(in->payload)->text;
    }
  }
  static std::size_t lines(const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }
  static void tell(const Client& context, JournalKind kind) {
    fabric::Port& port = *context.session->context->port;
    control::JournalRecord record;
    record.kind = kind;
    ASSERT_TRUE(port.journal(context.session->context->slot).put(record, ""));
  }

  EventJournal journal_{clients_, reactor_};
};

TEST_F(EventJournalTest, AReaderHasWhatThereWasAndNoMoreUnlessItFollows) {
  const Client reader = connect();
  const Client follower = connect();
  note(3);
  ask(reader, 1, false);
  ask(follower, 1, true);
  note(2);
  reactor_.run();
  const auto [page, sequence] = heard<JournalText>(reader);
  EXPECT_EQ(sequence, 1u);
  EXPECT_TRUE(page.last);
  EXPECT_EQ(lines(page.text), 2u);
  EXPECT_TRUE(hears_nothing(reader));
  EXPECT_EQ(lines(text(follower)), 4u);
}

TEST_F(EventJournalTest, WhatHappensInOneTurnIsOnePage) {
  const Client follower = connect();
  ask(follower, 0, true);
  heard<JournalText>(follower);
  note(3);
  reactor_.run();
  EXPECT_EQ(lines(heard<JournalText>(follower).first.text), 3u);
  EXPECT_TRUE(hears_nothing(follower));
}

TEST_F(EventJournalTest, WhoAsksForNothingLearnsTheNewestNumber) {
  const Client reader = connect();
  note(3);
  ask(reader, JournalQuery::kNothing, false);
  const JournalText page = heard<JournalText>(reader).first;
  EXPECT_EQ(page.newest, 3u);
  EXPECT_EQ(page.text, "");
}

TEST_F(EventJournalTest, OneQuestionOfAReaderAtATime) {
  const Client reader = connect();
  ask(reader, 0, true);
  heard<JournalText>(reader);
  ask(reader, 0, true, 2);
  EXPECT_EQ(refusal(reader, 2), EBUSY);
}

// While a question waits, others are handled, but not within each other, however fast they come.
TEST_F(EventJournalTest, QuestionsThatWaitAreNotHeardWithinEachOther) {
  constexpr int kQuestions = 50;
  const Client context = connect_context();
  int depth = 0, deepest = 0;
  on_message_ = [&](Session& session, const control::Incoming& in) {
    deepest = std::max(deepest, ++depth);
    journal_.on_query(session, in);
    --depth;
  };
  JournalQuery query;
  query.after = JournalQuery::kNothing;
  for (int i = 1; i <= kQuestions; ++i) {
    const auto packet = control::encode(query, static_cast<std::uint32_t>(i));
    ASSERT_TRUE(control::send_packet(context.fd.get(), packet, {}, MSG_DONTWAIT).ok());
  }
  reactor_.run();
  EXPECT_LE(deepest, 2);
  for (std::uint32_t i = 1; i <= kQuestions; ++i) {
    EXPECT_EQ(heard<JournalText>(context).second, i);
  }
  EXPECT_TRUE(hears_nothing(context));
}

TEST_F(EventJournalTest, AReaderThatDoesNotReadHasOnePageUnderWay) {
  const Client reader = connect();
  ask(reader, 0, true);
  heard<JournalText>(reader);
  // The events are more than the reader's socket holds.
  const std::string event = R"({"text":")" + std::string(30'000, 'x') + "\"}";
  constexpr std::size_t kEvents = 200;
  for (std::size_t i = 0; i < kEvents; ++i) {
    journal_.note(event);
    reactor_.run();
  }
  EXPECT_LT(shares_.unread.held_by(kPid), 3 * JournalText::kTextMost);
  std::size_t read = 0;
  for (std::string page; !(page = text(reader)).empty(); reactor_.run()) read += lines(page);
  EXPECT_EQ(read, kEvents);
}

TEST_F(EventJournalTest, AReaderThatHasGoneIsForgotten) {
  const Client reader = connect();
  ask(reader, 0, true);
  note(1);
  disconnect(reader);
  journal_.on_client_gone(reader.id);
  reactor_.run();
  note(1);
  reactor_.run();
}

TEST_F(EventJournalTest, AContextThatTellsMuchIsHeardOverSeveralTurns) {
  const Client reader = connect();
  const Client context = connect_context();
  ask(reader, 0, true);
  heard<JournalText>(reader);
  for (int i = 0; i < 100; ++i) tell(context, JournalKind::kTimeout);
  journal_.take_in(*context.session);
  EXPECT_TRUE(hears_nothing(reader));
  reactor_.run();
  EXPECT_EQ(lines(text(reader)), 100u);
}

TEST_F(EventJournalTest, TheEndOfAContextComesBehindWhatItHasTold) {
  const Client reader = connect();
  const Client context = connect_context();
  const Client further = connect_context();
  further.session->is_further_engine = true;
  ask(reader, 0, true);
  heard<JournalText>(reader);
  journal_.note_opened(*context.session);
  journal_.note_opened(*further.session);
  tell(context, JournalKind::kClosed);
  tell(further, JournalKind::kTimeout);
  journal_.note_closed(*context.session);
  journal_.note_closed(*further.session);
  reactor_.run();
  const std::string all = text(reader);
  EXPECT_EQ(lines(all), 3u) << all;
  EXPECT_LT(all.find("timeout"), all.find("closed")) << all;
}

TEST_F(EventJournalTest, FollowersHaveTheLastWords) {
  const Client follower = connect();
  ask(follower, 0, true);
  heard<JournalText>(follower);
  journal_.end("test");
  EXPECT_NE(text(follower).find("test"), std::string::npos);
}

}  // namespace
}  // namespace verbena::daemon
