// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/udp_link.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "udp_receiver.hpp"
#include "udp_sender.hpp"

namespace verbena::link {

Result<std::unique_ptr<UdpLink>, SocketError> UdpLink::open(int rx_fd, const IpAddress& local,
                                                            const UdpOptions& options,
                                                            DropCounters& drops,
                                                            std::span<const int> senders) {
  std::unique_ptr<UdpLink> link(new UdpLink(rx_fd, local, options, drops));
  auto error = senders.empty() ? link->sender_->open() : link->sender_->adopt(senders);
  if (error) return Failure{std::move(*error)};
  return link;
}

UdpLink::UdpLink(int rx_fd, const IpAddress& local, const UdpOptions& options, DropCounters& drops)
    : local_(local),
      sender_(std::make_unique<UdpSender>(local, options, statistics_)),
      receiver_(std::make_unique<UdpReceiver>(rx_fd, local, options, drops, statistics_)) {}

UdpLink::~UdpLink() = default;

std::size_t UdpLink::send(wire::TxBatch& batch, Qpn flow) noexcept {
  return sender_->send(batch, 0, batch.size(), flow);
}

std::size_t UdpLink::send_part(wire::TxBatch& batch, std::size_t first, std::size_t count,
                               Qpn flow) noexcept {
  return sender_->send(batch, first, count, flow);
}

std::size_t UdpLink::send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept {
  return sender_->send(batch, 0, batch.size(), flow, &damage);
}

bool UdpLink::takes_bundles(const IpAddress& address) const noexcept {
  return sender_->may_bundle(address);
}

void UdpLink::kick(const IpAddress& address, std::uint32_t slot) noexcept {
  sender_->kick(address, slot);
}

std::size_t UdpLink::receive(RxSink& sink, std::size_t) noexcept {
  return receiver_->receive(sink);
}

void UdpLink::want_header_fields() noexcept { receiver_->want_header_fields(); }

int UdpLink::wait_fd() const noexcept { return receiver_->fd(); }

void UdpLink::leave_socket_for(int other) const noexcept {
  (void)::dup3(other, receiver_->fd(), O_CLOEXEC);
}

std::uint32_t UdpLink::capacity_packets(std::size_t packet_bytes) const noexcept {
  return datagrams_held(receiver_->buffer_bytes(), packet_bytes + wire::kIcrcSize);
}

// The kernel charges a datagram with its sk_buff and with its data block, which it rounds up to a
// power of two after adding room for headers and its shared information (measured: 2304 bytes for 1
// KiB, 8448 for 4 KiB). Small data blocks come from a cache of one size (measured: 832 for 28
// bytes; more in other configurations). A reader that is behind gets the room of what it has read
// back in portions of a quarter of the buffer.
std::uint32_t datagrams_held(std::uint64_t buffer_bytes, std::size_t payload_bytes) noexcept {
  constexpr std::uint64_t kSkBuff = 256;
  constexpr std::uint64_t kHeadersAndInfo = 16 + 48 + 15 + 320;
  constexpr std::uint64_t kSmallest = 768;
  const std::uint64_t cost =
      kSkBuff + std::max(kSmallest, std::bit_ceil(payload_bytes + kHeadersAndInfo));
  const std::uint64_t usable = buffer_bytes - buffer_bytes / 4;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(usable / cost, 0xffffffff));
}

}  // namespace verbena::link
