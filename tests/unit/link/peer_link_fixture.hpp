// SPDX-License-Identifier: BSD-2-Clause
// Three contexts at two addresses, with a PeerLink each, for the tests of rings beside UDP.
#pragma once

#include "link_fixture.hpp"
#include "verbena/link/peer_link.hpp"

namespace verbena::link::test {

class PeerLinkTest : public ::testing::Test {
 protected:
  struct Context {
    explicit Context(SlotGroup& group) : node(group), self{group.local(), node.slot} {
      link = std::make_unique<PeerLink>(std::move(node.link), self, node.drops);
    }
    Qpn qp(std::uint32_t index) const { return node.qp(index); }
    Node node;
    Peer self;
    std::unique_ptr<PeerLink> link;
  };

  // Joins two contexts by a ring, as the emulator does.
  static int join(Context& from, Context& target, std::size_t capacity = 1u << 20) {
    const int fd = SharedRing::create(capacity).value();
    target.link->add_inbound(from.self, SharedRing::map(fd).value());
    EXPECT_TRUE(from.link->add_outbound(target.self, SharedRing::map(fd).value()));
    return fd;
  }
  static void join_and_forget(Context& from, Context& target, std::size_t capacity = 1u << 20) {
    ::close(join(from, target, capacity));
  }

  // Sends packets first .. first + count - 1 in one batch. Returns how many were taken.
  static std::size_t send(Context& from, const Context& target, std::uint32_t first,
                          std::uint32_t count, std::size_t length = 100) {
    Batch batch;
    for (std::uint32_t i = 0; i < count; ++i) {
      batch.add(make_packet(target.qp(1), first + i, length), to(target.self.address));
    }
    return from.link->send(batch.get(), from.qp(1));
  }

  // Sleeps and receives as a progress thread does, until `count` packets have come.
  static void receive(Context& at, Collector& sink, std::size_t count) {
    while (sink.arrived.size() < count) {
      if (at.link->prepare_wait()) {
        ASSERT_TRUE(wait_readable(at.link->wait_fd())) << "nobody woke us";
        at.link->end_wait();
      }
      while (at.link->receive(sink, 64) > 0) {
      }
    }
  }
  static void expect_psns(const Collector& sink, std::uint32_t count) {
    ASSERT_EQ(sink.arrived.size(), count);
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(sink.arrived[i].psn(), i);
  }

  SlotGroup group_a_ = open_group(own_address(0));
  SlotGroup group_b_ = open_group(own_address(1));
  Context a_{group_a_};
  Context b_{group_b_};
  Context c_{group_b_};
};

}  // namespace verbena::link::test
