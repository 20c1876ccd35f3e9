// SPDX-License-Identifier: BSD-2-Clause
// How many questions to other contexts may wait, which may answer them, and what happens to them
// when a client goes.
#include "questions.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

using control::MessageType;

class QuestionsTest : public ClientsTest {
 protected:
  static constexpr MessageType kKind = MessageType::kExportQuery;

  bool ask(const Client& asker, const Client& owner, std::uint32_t number) {
    const auto request = incoming(control::Ack{}, number);
    if (!questions_.may_ask(*asker.session, request, *owner.session)) return false;
    questions_.add(kKind, number,
                   {asker.id, asker.session->info.pid, number, owner.id, {ENOENT, "gone"}});
    return true;
  }
  void disconnect(const Client& client) {
    ClientsTest::disconnect(client);
    questions_.on_client_gone(client.id);
  }

  Questions questions_{clients_};
};

TEST_F(QuestionsTest, OnlyWhoWasAskedAnswersAndOnce) {
  const Client asker = connect();
  const Client owner = connect_context();
  ASSERT_TRUE(ask(asker, owner, 1));
  EXPECT_FALSE(questions_.take(kKind, 1, *asker.session));
  EXPECT_FALSE(questions_.take(MessageType::kReceiverCall, 1, *owner.session));
  EXPECT_FALSE(questions_.take(kKind, 2, *owner.session));
  const auto question = questions_.take(kKind, 1, *owner.session);
  ASSERT_TRUE(question);
  EXPECT_EQ(question->asker, asker.id);
  EXPECT_FALSE(questions_.take(kKind, 1, *owner.session));
}

TEST_F(QuestionsTest, AProcessHasItsLimitWhateverConnectionsItHas) {
  const Client first = connect();
  const Client second = connect();
  const Client other = connect(kPid + 1);
  const Client owner = connect_context();
  std::uint32_t number = 0;
  while (number < Questions::kOfOne) {
    ++number;
    ASSERT_TRUE(ask(number % 2 == 0 ? first : second, owner, number));
  }
  EXPECT_FALSE(ask(second, owner, ++number));
  EXPECT_EQ(refusal(second, number), EAGAIN);
  EXPECT_TRUE(ask(other, owner, ++number));
  // An answer makes room for another question.
  EXPECT_TRUE(questions_.take(kKind, 1, *owner.session));
  EXPECT_TRUE(ask(first, owner, ++number));
}

TEST_F(QuestionsTest, AContextIsAskedByAllTogetherNoMoreThanItsLimit) {
  const Client owner = connect_context();
  const Client idle = connect_context("b");
  std::vector<Client> askers;
  std::uint32_t number = 0;
  while (number < Questions::kToOne) {
    if (number % Questions::kOfOne == 0) askers.push_back(connect(kPid + number));
    ASSERT_TRUE(ask(askers.back(), owner, ++number));
  }
  const Client late = connect(kPid - 1);
  EXPECT_FALSE(ask(late, owner, ++number));
  EXPECT_TRUE(ask(late, idle, ++number));
}

TEST_F(QuestionsTest, AContextThatDoesNotReadIsNotAsked) {
  const Client asker = connect();
  const Client owner = connect_context();
  const std::string text(32 << 10, 'x');
  while (!owner.session->is_behind()) owner.session->send(control::Refused{EIO, text}, 0);
  EXPECT_FALSE(ask(asker, owner, 1));
  EXPECT_EQ(refusal(asker, 1), EAGAIN);
}

TEST_F(QuestionsTest, TheAskerIsToldThatTheOwnerHasGone) {
  const Client asker = connect();
  const Client owner = connect_context();
  const Client other = connect_context();
  ASSERT_TRUE(ask(asker, owner, 1));
  ASSERT_TRUE(ask(asker, other, 2));
  disconnect(owner);
  EXPECT_EQ(refusal(asker, 1), ENOENT);
  EXPECT_TRUE(hears_nothing(asker));
  EXPECT_TRUE(questions_.take(kKind, 2, *other.session));
}

TEST_F(QuestionsTest, OfAnAskerThatHasGoneOnlyWhatIsToBeUndoneStays) {
  const Client asker = connect();
  const Client owner = connect_context();
  ASSERT_TRUE(ask(asker, owner, 1));
  questions_.add(MessageType::kReceiverCall, 1,
                 {asker.id, kPid, 2, owner.id, {EINVAL, "gone"}, 0x4001});
  disconnect(asker);
  EXPECT_FALSE(questions_.take(kKind, 1, *owner.session));
  const auto call = questions_.take(MessageType::kReceiverCall, 1, *owner.session);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->receiver, 0x4001u);
}

}  // namespace
}  // namespace verbena::daemon
