// SPDX-License-Identifier: BSD-2-Clause
// What the machine gives to any program: the limits with which Verbena's figures are compared. Each
// measurement takes `seconds` and uses two processes.
#pragma once

#include <cstddef>

#include "sample.hpp"

namespace verbena::bench {

// Round trips in microseconds between unconnected sockets on loopback.
Quantiles udp_round_trip_us(std::size_t bytes, bool blocking, double seconds);
// Polled round trips in the form of a reliable connection: packets of 1 KiB with their headers and
// the acknowledgement behind them in one segmented send, received as whole buffers.
Quantiles udp_acknowledged_round_trip_us(std::size_t bytes, double seconds);
// Polled round trips with what a packet with a checksum costs either side: copied and summed from
// an application's memory, summed again and copied to another application's memory. They are sent
// from a connected socket, and the kernel keeps them in pages where that costs less.
Quantiles udp_sealed_round_trip_us(std::size_t bytes, double seconds);
// One way: segmented sends (64 KiB at most) into coalescing receives, with never more under way
// than the receive buffer holds. Megabytes (1e6) of payload per second.
double udp_stream_mb_s(std::size_t packet_bytes, double seconds);
// The same stream with what checksums of packets add: a copy and a checksum on either side. (A
// transport that sends payloads from where they are is spared the sender's copy.)
double udp_sealed_stream_mb_s(std::size_t packet_bytes, double seconds);
// Microseconds one way through a ring in shared memory, with copies in and out. Both sides spin.
Quantiles ring_hop_us(std::size_t bytes, double seconds);
// A stream through such a ring, which is kept full. Both sides spin.
double ring_stream_mb_s(std::size_t bytes, double seconds);
// A stream of pieces of 4 KiB from this number of buffers of 8 KiB in turn into as many: what queue
// pairs with buffers of their own leave of the caches.
double ring_buffers_mb_s(std::size_t buffers, double seconds);
double memcpy_mb_s(std::size_t bytes, double seconds);
// Copies into another process's memory; 0 if the system forbids it.
double process_vm_writev_mb_s(std::size_t bytes, double seconds);

}  // namespace verbena::bench
