// SPDX-License-Identifier: BSD-2-Clause
// An engine's connection to the daemon. The test holds the daemon's end.
#include "verbena/context/daemon_client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "verbena/control/import_messages.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::provider {
namespace {

struct Listener final : DaemonListener {
  void on_message(control::Incoming&& message) override {
    heard.push_back(message.type());
    if (throws) throw std::runtime_error("of no use");
  }
  void on_lost(const char* reason) noexcept override { lost = reason; }

  std::vector<control::MessageType> heard;
  std::string lost;
  bool throws = false;
};

class DaemonClientTest : public testing::Test {
 protected:
  DaemonClientTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    daemon_.reset(ends[0]);
    client_.emplace(control::Channel(control::UniqueFd(ends[1])), listener_);
  }
  template <typename Message>
  void say(const Message& message, std::uint32_t sequence = 0) {
    ASSERT_TRUE(control::send_packet(daemon_.get(), control::encode(message, sequence), {}, 0));
  }
  control::Incoming hear() {
    auto message = control::receive_packet(daemon_.get(), 0);
    EXPECT_TRUE(message);
    return std::move(*message);
  }

  control::UniqueFd daemon_;
  Listener listener_;
  std::optional<DaemonClient> client_;
};

TEST_F(DaemonClientTest, HandlesWhatComesBeforeAnAnswer) {
  std::thread daemon([this] {
    const control::Incoming question = hear();
    EXPECT_EQ(question.type(), control::MessageType::kExtraSlot);
    say(control::OwnerGone{}, control::kDaemonSequence);
    say(control::SlotAdded{7}, question.header.sequence);
  });
  const auto added = client_->ask<control::SlotAdded>(control::ExtraSlot{});
  daemon.join();
  ASSERT_TRUE(added);
  EXPECT_EQ(added->slot, 7u);
  EXPECT_EQ(listener_.heard, std::vector{control::MessageType::kOwnerGone});
}

TEST_F(DaemonClientTest, SaysWhyTheDaemonRefuses) {
  std::thread daemon([this] {
    const control::Incoming question = hear();
    say(control::Refused{ENOSPC, "no slot is left"}, question.header.sequence);
  });
  const auto added = client_->ask<control::SlotAdded>(control::ExtraSlot{});
  daemon.join();
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ENOSPC);
  EXPECT_EQ(added.error().text, "no slot is left");
}

TEST_F(DaemonClientTest, ReadsOneMessageAtATime) {
  say(control::OwnerGone{});
  say(control::OwnerGone{});
  EXPECT_TRUE(client_->read_one());
  EXPECT_EQ(listener_.heard.size(), 1u);
  EXPECT_TRUE(client_->read_one());
  EXPECT_EQ(listener_.heard.size(), 2u);
  EXPECT_TRUE(client_->read_one());  // nothing is there
  EXPECT_EQ(listener_.heard.size(), 2u);
  EXPECT_EQ(listener_.lost, "");
}

TEST_F(DaemonClientTest, LeavesTheReadingToWhoAwaitsAnAnswer) {
  say(control::OwnerGone{});
  const std::lock_guard asks(client_->lock());
  bool was_read = true;
  std::thread([&] { was_read = client_->read_one(); }).join();
  EXPECT_FALSE(was_read);
  EXPECT_TRUE(listener_.heard.empty());
}

TEST_F(DaemonClientTest, OutlivesAMessageThatCannotBeHandled) {
  listener_.throws = true;
  say(control::OwnerGone{});
  EXPECT_TRUE(client_->read_one());
  EXPECT_EQ(listener_.heard.size(), 1u);
  EXPECT_EQ(listener_.lost, "");
}

TEST_F(DaemonClientTest, NoticesTheDaemonsEnd) {
  daemon_.reset();
  EXPECT_TRUE(client_->read_one());
  EXPECT_EQ(listener_.lost, "the emulator is gone");
  EXPECT_FALSE(client_->ask<control::SlotAdded>(control::ExtraSlot{}));
}

TEST_F(DaemonClientTest, TellsNothingThatADeafDaemonDoesNotTake) {
  // If one of these waited, the test would not end.
  for (int i = 0; i < 100'000; ++i) client_->tell(control::ExtraSlot{});
  EXPECT_EQ(hear().type(), control::MessageType::kExtraSlot);
}

}  // namespace
}  // namespace verbena::provider
