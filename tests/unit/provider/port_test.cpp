// SPDX-License-Identifier: BSD-2-Clause
// What an engine knows of its port. The test holds the daemon's end of the connection.
#include "verbena/context/port.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "noting_host.hpp"
#include "verbena/link/slot_group.hpp"

namespace verbena::provider {
namespace {

struct Unheard final : DaemonListener {
  void on_message(control::Incoming&&) override {}
  void on_lost(const char*) noexcept override {}
};

using Events = std::vector<queue::AsyncEvent>;

// A RoCE port with its own address in row 0 of its GID table, a further address in row 1, a free
// row 2 and an IPv6 address in row 3.
class PortTest : public testing::Test {
 protected:
  enum Row : std::uint8_t { kOwn, kFurther, kFree, kIpv6 };

  PortTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    daemon_.reset(ends[0]);
    const timeval longest{60, 0};
    EXPECT_EQ(::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest), 0);
    client_.emplace(control::Channel(control::UniqueFd(ends[1])), listener_);
    port_.emplace(*client_);
    EngineOptions options;
    options.device.slot = slot_;
    options.device.address = own_address(1);
    options.device.plan.infiniband = false;
    options.links.self = {own_address(1), slot_};
    options.links.receiver.reset(::dup(group_.fd(slot_)));
    options.has_rings = false;
    engine_.emplace(host_, std::move(options));
    info_.persona = control::Persona::kRoce;
    IpAddress ipv6;
    ipv6.bytes = {0x20, 0x01, 0x0d, 0xb8};
    for (const IpAddress& address : {own_address(1), own_address(2), IpAddress{}, ipv6}) {
      info_.gids.push_back({Gid::from_ip(address), control::GidType::kRoceV2, 0, {}});
    }
    info_.gids[kFree].gid = {};
    port_->open(info_);
    port_->attach(*engine_);
  }

  // Asks for the path from a row of the GID table to an IPv4 peer.
  qp::PathAttributes path_from(std::uint8_t row, Port::MayAsk may_ask) {
    ibv_ah_attr ah{};
    ah.is_global = 1;
    ah.port_num = 1;
    const Gid peer = Gid::from_ip(own_address(3));
    std::memcpy(ah.grh.dgid.raw, peer.bytes.data(), sizeof ah.grh.dgid.raw);
    ah.grh.sgid_index = row;
    ah.grh.hop_limit = 64;
    return port_->path_to("test", ah, may_ask);
  }
  // Receives the request for the socket of the further address.
  std::uint32_t hear_request() {
    const auto message = control::receive_packet(daemon_.get(), 0);
    EXPECT_TRUE(message && message->type() == control::MessageType::kOpenAddress);
    if (!message) return 0;
    const auto request = control::decode<control::OpenAddress>(message->payload);
    EXPECT_TRUE(request && request->address == own_address(2));
    return message->header.sequence;
  }
  bool is_asked_more() const { return control::receive_packet(daemon_.get(), MSG_DONTWAIT).ok(); }
  std::vector<control::UniqueFd> socket_at_further_address() {
    std::vector<control::UniqueFd> fds(1);
    fds[0].reset(::dup(further_group_.fd(further_slot_)));
    return fds;
  }
  Events events_of(std::uint32_t changes) {
    Events events;
    port_->on_event({changes, info_}, [&](queue::AsyncEvent event) { events.push_back(event); });
    return events;
  }

  link::SlotGroup group_ = std::move(link::SlotGroup::open(own_address(1), {})).value();
  link::SlotGroup further_group_ = std::move(link::SlotGroup::open(own_address(2), {})).value();
  std::uint32_t slot_ = group_.add_slot().value();
  std::uint32_t further_slot_ = further_group_.add_slot().value();
  control::UniqueFd daemon_;
  Unheard listener_;
  std::optional<DaemonClient> client_;
  std::optional<Port> port_;
  NotingHost host_;
  std::optional<Engine> engine_;
  control::DeviceInfo info_;
};

TEST_F(PortTest, SendsFromItsOwnAddressWithoutAsking) {
  const qp::PathAttributes path = path_from(kOwn, Port::MayAsk::kYes);
  EXPECT_TRUE(path.resolved && path.has_local_gid);
  EXPECT_EQ(path.destination.address, own_address(3));
  EXPECT_EQ(path.destination.source, 0);
  EXPECT_FALSE(is_asked_more());
}

TEST_F(PortTest, AsksForTheSocketOfAFurtherAddressOnce) {
  std::thread daemon([this] {
    const std::uint32_t sequence = hear_request();
    const int fd = further_group_.fd(further_slot_);
    EXPECT_TRUE(control::send_packet(
        daemon_.get(), control::encode(control::AddressOpened{own_address(2)}, sequence),
        std::span(&fd, 1), 0));
  });
  const qp::PathAttributes path = path_from(kFurther, Port::MayAsk::kYes);
  daemon.join();
  EXPECT_TRUE(path.resolved);
  EXPECT_EQ(path.destination.source, 1);
  EXPECT_EQ(port_->source_at(own_address(2)), 1);
  EXPECT_EQ(path_from(kFurther, Port::MayAsk::kYes).destination.source, 1);
  EXPECT_FALSE(is_asked_more());
}

TEST_F(PortTest, DoesNotAskWhileItHandlesAMessage) {
  const qp::PathAttributes path = path_from(kFurther, Port::MayAsk::kNo);
  EXPECT_FALSE(path.resolved);
  EXPECT_EQ(path.obstacle, qp::PathAttributes::Obstacle::kLocalAddress);
  EXPECT_FALSE(is_asked_more());
}

TEST_F(PortTest, HasNoPathFromAnAddressThatIsRefused) {
  std::thread daemon([this] {
    const control::Refused refusal{EADDRINUSE, "another emulator has it"};
    EXPECT_TRUE(
        control::send_packet(daemon_.get(), control::encode(refusal, hear_request()), {}, 0));
  });
  const qp::PathAttributes path = path_from(kFurther, Port::MayAsk::kYes);
  daemon.join();
  EXPECT_FALSE(path.resolved);
  EXPECT_EQ(path.obstacle, qp::PathAttributes::Obstacle::kLocalAddress);
  EXPECT_FALSE(port_->source_at(own_address(2)));
}

TEST_F(PortTest, TellsRowsThatAreFreeOrOfAnotherFamily) {
  EXPECT_FALSE(path_from(kFree, Port::MayAsk::kYes).has_local_gid);
  EXPECT_FALSE(path_from(200, Port::MayAsk::kYes).has_local_gid);
  const qp::PathAttributes path = path_from(kIpv6, Port::MayAsk::kYes);
  EXPECT_FALSE(path.resolved);
  EXPECT_EQ(path.obstacle, qp::PathAttributes::Obstacle::kOtherFamily);
  EXPECT_FALSE(is_asked_more());
}

TEST_F(PortTest, RaisesOneEventForEachChange) {
  info_.port_state = control::PortState::kDown;
  EXPECT_EQ(events_of(control::kPortStateChanged), Events{queue::AsyncEvent::kPortError});
  EXPECT_EQ(port_->info().port_state, control::PortState::kDown);
  info_.port_state = control::PortState::kActive;
  EXPECT_EQ(events_of(control::kPortStateChanged), Events{queue::AsyncEvent::kPortActive});
  EXPECT_EQ(events_of(control::kLidChanged | control::kGidsChanged | control::kPkeysChanged |
                      control::kSmChanged),
            (Events{queue::AsyncEvent::kLidChange, queue::AsyncEvent::kGidChange,
                    queue::AsyncEvent::kPkeyChange, queue::AsyncEvent::kSmChange}));
  EXPECT_EQ(events_of(0), Events{});
}

TEST_F(PortTest, ReceivesDatagramsAtAddressesThatComeLater) {
  const control::GidEntry further = info_.gids[kFurther];
  info_.gids.resize(1);
  port_->open(info_);
  port_->open_all_addresses();
  EXPECT_FALSE(is_asked_more());
  info_.gids.push_back(further);
  EXPECT_EQ(events_of(control::kGidsChanged), Events{queue::AsyncEvent::kGidChange});
  hear_request();
  std::vector<control::UniqueFd> fds = socket_at_further_address();
  {
    const std::lock_guard guard(client_->lock());
    port_->on_address_opened(own_address(2), fds);
  }
  EXPECT_EQ(port_->source_at(own_address(2)), 1);
  events_of(control::kGidsChanged);
  EXPECT_FALSE(is_asked_more());
}

}  // namespace
}  // namespace verbena::provider
