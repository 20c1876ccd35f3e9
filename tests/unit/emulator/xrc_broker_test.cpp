// SPDX-License-Identifier: BSD-2-Clause
// Calls upon a receiver that belongs to another process: which processes may make them, and that
// what was opened is closed once, whichever process goes.
#include "xrc_broker.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

using control::ReceiverVerb;

class XrcBrokerTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    owner_.emplace(connect_context());
    holder_.emplace(connect_context());
    receiver_ = Qpn::from(owner_->session->context->slot, 1).value();
    domain_ = open_domain(*owner_);
  }
  std::uint32_t open_domain(const Client& client) {
    control::OpenDomain request;
    request.inode = 12;
    request.create = true;
    broker_.on_message(*client.session, incoming(request, 1));
    return heard<control::DomainOpened>(client).first.number;
  }
  void call(ReceiverVerb verb, std::uint32_t sequence) {
    control::ReceiverCall call;
    call.verb = verb;
    call.domain = domain_;
    call.receiver = receiver_;
    broker_.on_message(*holder_->session, incoming(call, sequence));
  }
  void answer(std::uint32_t code) {
    const auto call = heard<control::ReceiverCall>(*owner_).first;
    control::ReceiverAnswer answer;
    answer.ticket = call.ticket;
    answer.code = code;
    broker_.on_message(*owner_->session, incoming(answer));
  }
  void disconnect(const Client& client) {
    broker_.on_context_closed(*client.session);
    ClientsTest::disconnect(client);
    questions_.on_client_gone(client.id);
  }

  Questions questions_{clients_};
  XrcBroker broker_{clients_, questions_, reactor_};
  std::optional<Client> owner_;
  std::optional<Client> holder_;
  std::uint32_t receiver_ = 0;
  std::uint32_t domain_ = 0;
};

TEST_F(XrcBrokerTest, WhoHasNotOpenedTheDomainCallsNobody) {
  call(ReceiverVerb::kOpen, 2);
  EXPECT_EQ(refusal(*holder_, 2), EINVAL);
  EXPECT_EQ(open_domain(*holder_), domain_);
  call(ReceiverVerb::kQuery, 3);
  EXPECT_EQ(refusal(*holder_, 3), EINVAL) << "without a handle";
  EXPECT_TRUE(hears_nothing(*owner_));
}

TEST_F(XrcBrokerTest, WhatIsOpenCanBeClosedOnce) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  answer(0);
  EXPECT_EQ(heard<control::ReceiverDone>(*holder_).second, 2u);
  call(ReceiverVerb::kClose, 3);
  call(ReceiverVerb::kClose, 4);
  EXPECT_EQ(refusal(*holder_, 4), EINVAL);
  answer(0);
  EXPECT_EQ(heard<control::ReceiverDone>(*holder_).second, 3u);
  disconnect(*holder_);
  EXPECT_TRUE(hears_nothing(*owner_));
}

TEST_F(XrcBrokerTest, AHandleThatWasRefusedIsNone) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  answer(ENOENT);
  EXPECT_EQ(refusal(*holder_, 2), ENOENT);
  disconnect(*holder_);
  EXPECT_TRUE(hears_nothing(*owner_));
}

TEST_F(XrcBrokerTest, TheHandlesOfWhoGoesAreClosed) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  answer(0);
  disconnect(*holder_);
  EXPECT_EQ(heard<control::ReceiverCall>(*owner_).first.verb, ReceiverVerb::kClose);
}

TEST_F(XrcBrokerTest, AHandleThatComesTooLateIsClosed) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  disconnect(*holder_);
  answer(0);
  const auto close = heard<control::ReceiverCall>(*owner_).first;
  EXPECT_EQ(close.verb, ReceiverVerb::kClose);
  EXPECT_EQ(close.receiver, receiver_);
}

TEST_F(XrcBrokerTest, AnOwnerThatIsSilentIsWaitedForSoLong) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  reactor_.advance(XrcBroker::kDeadlineNs - 1);
  EXPECT_TRUE(hears_nothing(*holder_));
  answer(0);
  EXPECT_EQ(heard<control::ReceiverDone>(*holder_).second, 2u);
  reactor_.advance(1);
  EXPECT_TRUE(hears_nothing(*holder_));
  call(ReceiverVerb::kClose, 3);
  EXPECT_EQ(heard<control::ReceiverCall>(*owner_).first.verb, ReceiverVerb::kClose);
}

TEST_F(XrcBrokerTest, AHandleThatIsGivenUpIsClosedWhenItComes) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  reactor_.advance(XrcBroker::kDeadlineNs);
  EXPECT_EQ(refusal(*holder_, 2), ETIMEDOUT);
  answer(0);
  EXPECT_EQ(heard<control::ReceiverCall>(*owner_).first.verb, ReceiverVerb::kClose);
  EXPECT_TRUE(hears_nothing(*holder_));
  call(ReceiverVerb::kQuery, 3);
  EXPECT_EQ(refusal(*holder_, 3), EINVAL) << "without a handle";
}

TEST_F(XrcBrokerTest, WhoWasRefusedInTimeHearsNoMoreOfIt) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  reactor_.advance(XrcBroker::kDeadlineNs);
  EXPECT_EQ(refusal(*holder_, 2), ETIMEDOUT);
  disconnect(*owner_);
  EXPECT_TRUE(hears_nothing(*holder_));
}

TEST_F(XrcBrokerTest, TheCallerIsToldThatTheOwnerHasGone) {
  open_domain(*holder_);
  call(ReceiverVerb::kOpen, 2);
  disconnect(*owner_);
  EXPECT_EQ(refusal(*holder_, 2), EINVAL);
}

}  // namespace
}  // namespace verbena::daemon
