// SPDX-License-Identifier: BSD-2-Clause
// Makes an engine a wire::Transmitter, with its paths: by a ring, as long as there is one to the
// peer's process, else by UDP.
#include <algorithm>

#include "verbena/engine/engine.hpp"
#include "verbena/link/shared_ring.hpp"
#include "verbena/wire/early_packets.hpp"

namespace verbena::provider {
namespace {

constexpr std::size_t kSmallPacket = 1024;

bool is_loopback(const IpAddress& address) {
  return address.is_v4() && address.v4_host_order() >> 24 == 127;
}

}  // namespace

class Engine::Path final : public wire::Path {
 public:
  Path(Engine& engine, const wire::Destination& to, Qpn peer)
      : engine_(engine), qpn_(peer), peer_{to.address, peer.slot(), to.source} {}

  // By UDP, a packet may be lost: no more may follow it than the peer keeps meanwhile. Of a ring it
  // is half, because answers share the ring with requests; a packet of at most 1 KiB counts as one
  // of 1 KiB, because others may be that long.
  std::uint32_t capacity_packets(std::size_t packet_bytes) noexcept override {
    const std::uint32_t by_udp = engine_.links_.peers().udp().capacity_packets(packet_bytes);
    if (!engine_.has_rings_ || !is_local()) {
      return std::min(by_udp, wire::EarlyPackets::most(packet_bytes));
    }
    const std::size_t largest = std::max(packet_bytes, kSmallPacket + wire::kMaxHeaders);
    return std::min(by_udp, link::SharedRing::packets_held(largest) / 2);
  }
  Packing packing() noexcept override { return engine_.links_.peers().packing(peer_); }
  Room room(TimeNs now) noexcept override {
    const Room room = engine_.links_.peers().room(peer_, now);
    return room == Room::kUnknown && awaits_ring(now) ? Room::kSoon : room;
  }
  std::optional<Reading> reading() noexcept override {
    return engine_.links_.peers().reading(peer_);
  }
  TimeNs wait_of_line(Qpn own, TimeNs now) noexcept override {
    return engine_.links_.faults().wait_of_line(own, now);
  }
  void inquire(TimeNs now) noexcept override {
    if (engine_.has_failed() || !engine_.reports_.must_ask(address(), qpn_, now)) return;
    engine_.host_.ask_about(address(), qpn_);
  }
  PeerReport report(TimeNs since) noexcept override {
    return engine_.reports_.report_on(address(), qpn_, since);
  }
  // Rings lead to an engine's first slot. Packets to queue pairs in its further slots all come by
  // UDP.
  bool hears_by_ring(Qpn own) noexcept override {
    const link::PeerLink& peers = engine_.links_.peers();
    return own.slot() == peers.self().slot && peers.hears_by_ring(peer_);
  }

 private:
  const IpAddress& address() const { return peer_.address; }
  bool is_local() const { return engine_.host_.is_own(address()) || is_loopback(address()); }
  // A socket holds little of what a quick sender sends until its peer has accepted a ring. The rest
  // would be lost.
  bool awaits_ring(TimeNs now) {
    may_get_ring_ = may_get_ring_ && is_local() && engine_.host_.may_get_ring(peer_, now);
    return may_get_ring_;
  }

  Engine& engine_;
  const Qpn qpn_;
  const link::Peer peer_;
  bool may_get_ring_ = true;
};

void Engine::send(wire::TxBatch& batch, Qpn flow) noexcept { links_.send(batch, flow); }

std::unique_ptr<wire::Path> Engine::path_to(const wire::Destination& to, Qpn peer) {
  return std::make_unique<Path>(*this, to, peer);
}

}  // namespace verbena::provider
