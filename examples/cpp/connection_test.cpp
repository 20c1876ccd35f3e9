// SPDX-License-Identifier: BSD-2-Clause
#include "connection.hpp"

#include <future>
#include <verbena/gtest.hpp>

namespace example {
namespace {

[[maybe_unused]] auto* const device =
    ::testing::AddGlobalTestEnvironment(new verbena::testing::Environment);

constexpr const char* kHost = "127.0.0.1";
constexpr const char* kService = "7471";
constexpr int kMessages = 200;

struct Ends {
  Ends() : Ends(Listener(kHost, kService)) {}
  explicit Ends(Listener listener)
      : accepted(std::async(std::launch::async, [&listener] { return listener.accept(); })),
        client(Connection::to(kHost, kService)),
        server(accepted.get()) {}

  std::future<Connection> accepted;
  Connection client;
  Connection server;
};

void exchange(Ends& ends) {
  for (int i = 0; i < kMessages; ++i) {
    const std::string text = "message " + std::to_string(i);
    ends.client.send(text);
    ASSERT_EQ(ends.server.receive(), text);
  }
}

TEST(Connection, DeliversMessagesInOrder) {
  Ends ends;
  exchange(ends);
  EXPECT_VERBENA_COUNTER("sent_sends", ==, kMessages);
  EXPECT_VERBENA_DROPS("injected_fault", ==, 0);
}

TEST(Connection, DeliversThemOnABadLine) {
  Ends ends;
  const verbena::testing::Fault fault{"--data", "--loss", "5%", "--duplicate", "5%", "--seed", "1"};
  exchange(ends);
  EXPECT_VERBENA_COUNTER("retransmitted_packets", >, 0);
  EXPECT_VERBENA_DROPS("injected_fault", >, 0);
}

TEST(Connection, ThrowsWhereNobodyListens) {
  EXPECT_THROW(Connection::to(kHost, "7472"), std::system_error);
}

TEST(Connection, ThrowsWhenThePeerIsNotReached) {
  Ends ends;
  const verbena::testing::Fault fault{"--data", "--loss", "100%"};
  EXPECT_THROW(ends.client.send("hello"), std::runtime_error);
  EXPECT_VERBENA_COUNTER("retry_exceeded_err", ==, 1);
}

}  // namespace
}  // namespace example
