// SPDX-License-Identifier: BSD-2-Clause
// Tests which clients are accepted, and what a client is told that is turned away.
#include "listener.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

class ListenerTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    control::UniqueFd socket = seqpacket();
    // The kernel chooses an abstract name.
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)), 0);
    ASSERT_EQ(::listen(socket.get(), 16), 0);
    ASSERT_EQ(::fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
    size_ = sizeof address_;
    ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address_), &size_), 0);
    listener_.start(std::move(socket));
  }
  static control::UniqueFd seqpacket() {
    return control::UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  }
  bool call(const control::UniqueFd& client) const {
    return ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address_), size_) == 0;
  }
  static int reason(const control::UniqueFd& client) {
    const auto in = control::receive_packet(client.get(), MSG_DONTWAIT);
    return in ? static_cast<int>(control::decode<control::Refused>(in->payload)->code) : 0;
  }

  sockaddr_un address_{};
  socklen_t size_ = 0;
  std::vector<std::pair<control::UniqueFd, std::uint32_t>> accepted_;
  Listener listener_{reactor_, clients_, shares_.descriptors,
                     [this](control::UniqueFd fd, std::uint32_t pid) {
                       accepted_.emplace_back(std::move(fd), pid);
                     }};
};

TEST_F(ListenerTest, AClientIsAcceptedWithItsProcess) {
  const control::UniqueFd first = seqpacket();
  const control::UniqueFd second = seqpacket();
  ASSERT_TRUE(call(first) && call(second));
  reactor_.run();
  ASSERT_EQ(accepted_.size(), 2u);
  EXPECT_EQ(accepted_[0].second, static_cast<std::uint32_t>(::getpid()));
  listener_.stop();
  const control::UniqueFd late = seqpacket();
  EXPECT_FALSE(call(late));
}

TEST_F(ListenerTest, AProcessWithItsShareIsTurnedAway) {
  while (shares_.descriptors.try_take(static_cast<std::uint32_t>(::getpid()))) {
  }
  const control::UniqueFd client = seqpacket();
  ASSERT_TRUE(call(client));
  reactor_.run();
  EXPECT_TRUE(accepted_.empty());
  EXPECT_EQ(reason(client), EMFILE);
}

// Limits the process to `most` descriptors while it lives.
class Limited {
 public:
  explicit Limited(rlim_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~Limited() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  rlimit before_{};
};

TEST_F(ListenerTest, WithoutDescriptorsTheNewcomerIsTold) {
  const control::UniqueFd client = seqpacket();
  ASSERT_TRUE(call(client));
  {
    const Limited limited(256);
    std::vector<control::UniqueFd> all;
    while (all.emplace_back(seqpacket())) {
    }
    reactor_.run();
    EXPECT_EQ(reason(client), EMFILE);
  }
  EXPECT_TRUE(accepted_.empty());
  const control::UniqueFd next = seqpacket();
  ASSERT_TRUE(call(next));
  reactor_.run();
  EXPECT_EQ(accepted_.size(), 1u);
}

TEST_F(ListenerTest, WithoutEvenTheSpareOneItPauses) {
  const control::UniqueFd client = seqpacket();
  ASSERT_TRUE(call(client));
  {
    const Limited limited(1);
    reactor_.run();
  }
  reactor_.run();
  EXPECT_TRUE(accepted_.empty());
  reactor_.advance(Listener::kPauseNs);
  EXPECT_EQ(accepted_.size(), 1u);
}

}  // namespace
}  // namespace verbena::daemon
