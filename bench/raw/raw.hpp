// SPDX-License-Identifier: BSD-2-Clause
// What the machine gives to anyone: the limits that Verbena's figures are held against. Each
// measurement takes `seconds` and uses two processes.
#pragma once

#include <cstddef>

#include "sample.hpp"

namespace verbena::bench {

// Round trips in microseconds between unconnected sockets on loopback.
Quantiles udp_round_trip_us(std::size_t bytes, bool blocking, double seconds);
// The same, polled, in the form that a reliable connection gives it: packets of 1 KiB with their
// headers and the acknowledgement behind them in one segmented send, whole buffers received.
Quantiles udp_acknowledged_round_trip_us(std::size_t bytes, double seconds);
// The same, polled, with what a packet with a checksum costs either side: copied and summed from
// where an application has it, summed again and copied to where another one wants it. Sent from a
// socket that is connected to there, and kept by the kernel in pages where that costs less.
Quantiles udp_sealed_round_trip_us(std::size_t bytes, double seconds);
// One way, segmented sends (64 KiB at most) into coalescing receives, never more on the way than
// the receive buffer holds. Megabytes (1e6) of payload in a second.
double udp_stream_mb_s(std::size_t packet_bytes, double seconds);
// The same with what a transport whose packets have checksums adds: a copy and a checksum on either
// side. (One that sends from where its payloads lie is spared the sender's copy.)
double udp_sealed_stream_mb_s(std::size_t packet_bytes, double seconds);
// One way through a ring in shared memory with copies in and out, both sides spinning; in
// microseconds.
Quantiles ring_hop_us(std::size_t bytes, double seconds);
// The same ring kept full, both sides spinning.
double ring_stream_mb_s(std::size_t bytes, double seconds);
// The same with 4 KiB at a time out of so many buffers of 8 KiB, one after the other, into as many:
// what queue pairs with buffers of their own leave of the caches.
double ring_buffers_mb_s(std::size_t buffers, double seconds);
double memcpy_mb_s(std::size_t bytes, double seconds);
// Into another process's memory; 0 where the system forbids it.
double process_vm_writev_mb_s(std::size_t bytes, double seconds);

}  // namespace verbena::bench
