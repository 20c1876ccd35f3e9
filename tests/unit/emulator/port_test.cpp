// SPDX-License-Identifier: BSD-2-Clause
// A port on real sockets: what reaches the daemon's queue pairs, and how multicast is passed on.
#include "verbena/fabric/port.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <map>

#include "verbena/control/address_plan.hpp"
#include "verbena/fabric/plan.hpp"
#include "verbena/wire/bth.hpp"

namespace verbena::fabric {
namespace {

// Waits with poll() for what the port watches.
class TestPoller final : public Poller {
 public:
  void watch(int fd, std::function<void()> on_readable) override {
    watched_[fd] = std::move(on_readable);
  }
  void unwatch(int fd) override { watched_.erase(fd); }
  std::size_t size() const { return watched_.size(); }

  // Returns false if nothing came in time.
  bool run_once(int timeout_ms) {
    std::vector<pollfd> fds;
    for (const auto& [fd, call] : watched_) fds.push_back({fd, POLLIN, 0});
    if (::poll(fds.data(), fds.size(), timeout_ms) <= 0) return false;
    for (const pollfd& p : fds) {
      if (p.revents != 0 && watched_.count(p.fd) != 0) watched_[p.fd]();
    }
    return true;
  }

 private:
  std::map<int, std::function<void()>> watched_;
};

class Sink final : public ManagementSink {
 public:
  void on_management_datagram(Port&, const wire::RxDatagram& d) noexcept override {
    qpns.push_back(wire::BthView(d.bytes.data()).dest_qp().value());
  }
  void on_context_closed(Port&, std::uint32_t slot) noexcept override { closed.push_back(slot); }

  std::vector<std::uint32_t> qpns;
  std::vector<std::uint32_t> closed;
};

class PortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    settings::Settings wishes;
    // A part of loopback that no other process of this test run uses.
    const unsigned pid = static_cast<unsigned>(::getpid());
    wishes.fabric = settings::FabricRange{IpAddress::v4(0x7fc80000u + ((pid & 0x1fff) << 8)), 24};
    wishes.devices = {"a", "b"};
    const auto devices = plan_devices(wishes, {0, "tulip", "0.1.0", list_interfaces().value()});
    ASSERT_TRUE(devices.ok()) << devices.error().text;
    a_ = open(devices->at(0));
    b_ = open(devices->at(1));
  }
  std::unique_ptr<Port> open(const control::DeviceInfo& info) {
    auto port = Port::open(info, poller_, descriptors_, rules_);
    EXPECT_TRUE(port.ok()) << port.error().text;
    return port ? std::move(*port) : nullptr;
  }

  void send(Port& from, const IpAddress& to, Qpn qpn) {
    std::vector<std::uint8_t> buffer(256);
    wire::TxBatch batch(buffer);
    wire::Bth bth;
    bth.opcode = 0x64;  // UD SEND ONLY
    bth.dest_qp = qpn;
    std::uint8_t* at = batch.begin(24);
    std::fill(at, at + 24, std::uint8_t{0});
    bth.write_to(at);
    batch.commit(24, {to});
    EXPECT_EQ(from.send(batch, kManagementQpn), 1u);
  }
  // Runs the event loop until `done`, or until nothing has come for two seconds.
  template <typename Done>
  bool until(Done done) {
    while (!done()) {
      if (!poller_.run_once(2000)) return false;
    }
    return true;
  }

  static constexpr limits::Holder kProcess = 4711;
  TestPoller poller_;
  limits::FairShare descriptors_{1000};
  RuleTable rules_;
  std::unique_ptr<Port> a_;
  std::unique_ptr<Port> b_;
};

TEST_F(PortTest, ManagementGoesToTheSinkAndTheRestIsCounted) {
  Sink sink;
  a_->set_management_sink(&sink);
  send(*b_, a_->info().address, Qpn(1));
  send(*b_, a_->info().address, Qpn(0));
  ASSERT_TRUE(until([&] { return sink.qpns.size() == 2; }));
  EXPECT_EQ(sink.qpns, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(b_->totals()[PortCounter::kXmitPackets], 2u);
  EXPECT_EQ(b_->totals()[PortCounter::kXmitBytes], 2 * 24u);
  EXPECT_EQ(a_->totals()[PortCounter::kRcvPackets], 2u);
  EXPECT_EQ(a_->totals()[PortCounter::kRcvBytes], 2 * 24u);
  send(*b_, a_->info().address, Qpn::from(500, 3));
  ASSERT_TRUE(until([&] { return a_->totals()[DropReason::kUnknownQp] == 1; }));
  EXPECT_EQ(a_->totals()[DropReason::kUnknownQp], 1u);
}

TEST_F(PortTest, APortThatIsDownTakesNothing) {
  Sink sink;
  a_->set_management_sink(&sink);
  a_->set_state(control::PortState::kDown);
  send(*b_, a_->info().address, Qpn(1));
  ASSERT_TRUE(until([&] { return a_->totals()[DropReason::kPortDown] == 1; }));
  EXPECT_TRUE(sink.qpns.empty());
  EXPECT_EQ(a_->totals()[DropReason::kPortDown], 1u);
}

TEST_F(PortTest, MulticastReachesEachContextThatJoined) {
  const Gid mgid = Gid::from_ip(*IpAddress::parse("ff12:401b:ffff::0f2a:0107"));
  std::vector<std::pair<std::uint32_t, control::Relayed>> relayed;
  a_->set_relay([&](std::uint32_t slot, const control::Relayed& d) {
    relayed.push_back({slot, d});
  });
  const auto first = a_->add_context(kProcess);
  const auto second = a_->add_context(kProcess);
  const auto third = a_->add_context(kProcess);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  const std::size_t watched = poller_.size();
  ASSERT_TRUE(a_->join(mgid, *first, Qpn::from(*first, 1).value()).ok());
  ASSERT_TRUE(a_->join(mgid, *first, Qpn::from(*first, 2).value()).ok());
  const auto joined = a_->join(mgid, *third, Qpn::from(*third, 1).value());
  ASSERT_TRUE(joined.ok()) << joined.error().text;
  EXPECT_EQ(poller_.size(), watched + 1) << "one socket for the group";

  send(*b_, control::group_of_mgid(mgid, true), kMulticastQpn);
  ASSERT_TRUE(until([&] { return relayed.size() == 2; }));
  EXPECT_EQ(relayed[0].first, *first);
  EXPECT_EQ(relayed[1].first, *third);
  EXPECT_EQ(relayed[0].second.mgid, mgid);
  EXPECT_EQ(relayed[0].second.source, b_->info().address);
  EXPECT_EQ(relayed[0].second.packet.size(), 24u);

  a_->remove_context(*first);
  a_->remove_context(*third);
  EXPECT_EQ(poller_.size(), watched) << "the group's socket is closed";
  EXPECT_FALSE(a_->leave(mgid, *second, 1).ok());
  EXPECT_FALSE(a_->join(Gid::link_local(1), *second, 1).ok());
}

// The process that joined the group first pays for it, as long as it is a member.
TEST_F(PortTest, AGroupIsOfAMembersShare) {
  const Gid mgid = Gid::from_ip(*IpAddress::parse("ff12:401b:ffff::0f2a:0108"));
  constexpr limits::Holder kOther = 4712;
  const auto first = a_->add_context(kProcess);
  const auto second = a_->add_context(kOther);
  ASSERT_TRUE(first.ok() && second.ok());
  const std::size_t of_first = descriptors_.held_by(kProcess);
  const std::size_t of_second = descriptors_.held_by(kOther);
  ASSERT_TRUE(a_->join(mgid, *first, 1).ok());
  ASSERT_TRUE(a_->join(mgid, *second, 1).ok());
  EXPECT_EQ(descriptors_.held_by(kProcess), of_first + Port::kDescriptorsPerGroup);
  EXPECT_EQ(descriptors_.held_by(kOther), of_second);
  ASSERT_TRUE(a_->leave(mgid, *first, 1).ok());
  EXPECT_EQ(descriptors_.held_by(kProcess), of_first);
  EXPECT_EQ(descriptors_.held_by(kOther), of_second + Port::kDescriptorsPerGroup);
  a_->remove_context(*second);
  a_->remove_context(*first);
  EXPECT_EQ(descriptors_.held_by(kProcess) + descriptors_.held_by(kOther), 0u);
}

TEST_F(PortTest, TheCountersOfTheDeadStay) {
  Sink sink;
  a_->set_management_sink(&sink);
  const auto slot = a_->add_context(kProcess);
  ASSERT_TRUE(slot.ok());
  EXPECT_GE(a_->receive_fd(*slot), 0);
  EXPECT_GE(a_->stats_fd(*slot), 0);
  a_->remove_context(*slot);
  EXPECT_EQ(sink.closed, std::vector<std::uint32_t>{*slot});
  EXPECT_EQ(a_->contexts(), 0u);
  EXPECT_EQ(*a_->add_context(kProcess), *slot) << "used again";
}

// A RoCE port whose interface has a further address. Here the further address is in loopback.
TEST_F(PortTest, AFurtherAddressIsOpenedWhenItIsUsed) {
  Sink sink;
  control::DeviceInfo info = a_->info();
  const IpAddress further = control::address_of_lid({info.subnet, info.prefix_length}, 77);
  info.persona = control::Persona::kRoce;
  info.gids = {{Gid::from_ip(info.address), control::GidType::kRoceV2, 1, "lo"},
               {Gid::from_ip(further), control::GidType::kRoceV2, 1, "lo"}};
  a_->set_info(info);
  a_->set_management_sink(&sink);
  EXPECT_TRUE(a_->has_address(further));
  EXPECT_FALSE(a_->has_address(b_->info().address));
  EXPECT_FALSE(a_->source_at(further).has_value());
  const auto slot = a_->add_context(kProcess);
  ASSERT_TRUE(slot.ok());
  EXPECT_FALSE(a_->socket_at(b_->info().address, *slot, {}).ok());
  const std::size_t before = descriptors_.held_by(kProcess);
  const auto socket = a_->socket_at(further, *slot, {});
  ASSERT_TRUE(socket.ok()) << socket.error().text;
  EXPECT_NE(*socket, a_->receive_fd(*slot));
  EXPECT_EQ(*a_->socket_at(further, *slot, {}), *socket) << "the same again, at no cost";
  EXPECT_EQ(descriptors_.held_by(kProcess), before + Port::kDescriptorsPerAddress);
  EXPECT_EQ(*a_->socket_at(info.address, *slot, {}), a_->receive_fd(*slot));
  EXPECT_EQ(a_->source_at(further), 1);
  EXPECT_EQ(*a_->open_address(further), 1);
  send(*b_, further, Qpn(1));
  ASSERT_TRUE(until([&] { return sink.qpns.size() == 1; }));
  // The socket stays open when the address has gone, because others may know the address.
  info.gids.pop_back();
  a_->set_info(info);
  EXPECT_FALSE(a_->has_address(further));
  EXPECT_EQ(a_->source_at(further), 1);
  send(*b_, further, Qpn(1));
  ASSERT_TRUE(until([&] { return sink.qpns.size() == 2; }));
  a_->remove_context(*slot);
  EXPECT_EQ(descriptors_.held_by(kProcess), 0u);
}

TEST_F(PortTest, TheSameAddressTwiceIsRefused) {
  const auto again = Port::open(a_->info(), poller_, descriptors_, rules_);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().text.find("is taken by"), std::string::npos);
}

}  // namespace
}  // namespace verbena::fabric
