// SPDX-License-Identifier: BSD-2-Clause
// Tests which clients a number, a slot or an address leads to, and until when.
#include "client_table.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

class ClientTableTest : public ClientsTest {};

TEST_F(ClientTableTest, WhoHasGoneIsNotFoundAndHearsNothing) {
  const Client client = connect();
  EXPECT_EQ(clients_.find(client.id), client.session);
  EXPECT_EQ(clients_.info(client.id)->pid, kPid);
  EXPECT_EQ(shares_.descriptors.held_by(kPid), 1u);
  disconnect(client);
  EXPECT_EQ(clients_.find(client.id), nullptr);
  EXPECT_EQ(clients_.info(client.id), nullptr);
  EXPECT_FALSE(clients_.is_called(client.id, "tulip"));
  clients_.send(client.id, control::encode(control::Ack{}, 1), {});
  clients_.catch_up(client.id);
  EXPECT_EQ(clients_.remove(client.id), nullptr);
  EXPECT_EQ(shares_.descriptors.held_by(kPid), 0u);
  EXPECT_NE(connect().id, client.id);
}

// Memory or a descriptor may be missing at any point.
TEST_F(ClientTableTest, AMessageThatCannotBeCarriedOutEndsItsClientAlone) {
  const Client unlucky = connect();
  const Client other = connect();
  const std::size_t watched = reactor_.watched();
  on_message_ = [&](Session& session, const control::Incoming& in) {
    if (session.id == unlucky.id) throw std::bad_alloc();
    session.answer(in.header.sequence, control::Done{});
  };
  const auto packet = control::encode(control::Stay{}, 1);
  for (const Client* client : {&unlucky, &other}) {
    ASSERT_TRUE(control::send_packet(client->fd.get(), packet, {}, MSG_DONTWAIT).ok());
  }
  reactor_.run();
  EXPECT_EQ(heard<control::Ack>(other).second, 1u);
  EXPECT_EQ(ended_,
            (std::vector{std::pair{unlucky.id, std::string("Stay failed: std::bad_alloc")}}));
  EXPECT_EQ(reactor_.watched(), watched - 1);
}

TEST_F(ClientTableTest, AClientThatCannotBeWatchedHasTakenNothing) {
  const std::size_t before = shares_.descriptors.left();
  reactor_.refuse_to_watch();
  EXPECT_THROW(connect(), std::system_error);
  EXPECT_EQ(clients_.size(), 0u);
  EXPECT_EQ(shares_.descriptors.left(), before);
}

TEST_F(ClientTableTest, AContextIsFoundByEachOfItsSlots) {
  const Client first = connect_context("a");
  const Client second = connect_context("a");
  const Client other = connect_context("b");
  Session::Context& context = *second.session->context;
  context.extra_slots = {77};
  const fabric::Port& a = *fabric_->find("a");
  EXPECT_EQ(clients_.context_with_slot(a, context.slot), second.session);
  EXPECT_EQ(clients_.context_with_slot(a, 77), second.session);
  EXPECT_EQ(clients_.context_with_slot(*fabric_->find("b"), 77), nullptr);
  EXPECT_EQ(clients_.context_of(a.info().address, context.slot), second.session);
  EXPECT_EQ(clients_.context_of(a.info().address, 77), nullptr);
  EXPECT_EQ(clients_.contexts_of("a").size(), 2u);
  EXPECT_EQ(clients_.contexts_of("b"), std::vector<Session*>{other.session});
  EXPECT_EQ(clients_.contexts_of("").size(), 3u);
  disconnect(second);
  EXPECT_EQ(clients_.context_with_slot(a, 77), nullptr);
  EXPECT_EQ(clients_.contexts_of("a"), std::vector<Session*>{first.session});
}

TEST_F(ClientTableTest, NewsGoesToTheContextsOfOneDeviceOrOfAll) {
  const Client a = connect_context("a");
  const Client b = connect_context("b");
  const Client command = connect();
  clients_.tell_contexts("a", control::Shutdown{"one"});
  clients_.tell_contexts("", control::Shutdown{"all"});
  EXPECT_EQ(heard<control::Shutdown>(a).first.reason, "one");
  const auto [news, number] = heard<control::Shutdown>(a);
  EXPECT_EQ(news.reason, "all");
  EXPECT_NE(number & control::kDaemonSequence, 0u);
  EXPECT_EQ(heard<control::Shutdown>(b).second, number);
  EXPECT_TRUE(hears_nothing(b));
  EXPECT_TRUE(hears_nothing(command));
}

}  // namespace
}  // namespace verbena::daemon
