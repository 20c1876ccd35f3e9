// SPDX-License-Identifier: BSD-2-Clause
// A decorator that records all packets that pass into a capture's ring (capture_ring.hpp), from
// which `verbena capture` makes a file. It never waits for a reader. It makes up source ports: one
// for each sending queue pair, with the parity of grh_port.hpp. While no capture runs, it costs a
// load.
//
// Threads: as Link says; any thread may call start(), leave_out() and stop() at any time. While a
// capture runs, sends wait for each other, so that the ring's order is the order of what happened.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/link/capture_ring.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/link.hpp"

namespace verbena::link {

class CaptureLink final : public Link {
 public:
  CaptureLink(std::unique_ptr<Link> inner, const IpAddress& local, Clock clock = &monotonic_now_ns);

  // Records into the ring from now on; a capture that was running ends. Packets that come from
  // `recorded_by_sender` are left out, because they are recorded where they are sent.
  void start(CaptureRing ring, std::vector<IpAddress> recorded_by_sender);
  // Replaces the addresses whose packets are left out.
  void leave_out(std::vector<IpAddress> recorded_by_sender);
  void stop() noexcept;
  // Stops recording in a forked child, where the ring is the parent's and a thread that does not
  // exist there may hold the lock.
  void abandon() noexcept { running_.publish(false); }
  bool is_running() const noexcept { return running_.read_relaxed(); }
  // Records what reached the port by another way than this link.
  void record_received(const wire::RxDatagram& datagram) noexcept;

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override {
    return send_as(batch, flow, Fate::kCarried);
  }
  std::size_t send_ruled(wire::TxBatch& batch, Qpn flow) noexcept override {
    return send_as(batch, flow, Fate::kRuled);
  }
  // The file shows the packets whole, with an ICRC that is wrong.
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept override;
  void note_unsent(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet, Qpn flow,
                   Unsent why) noexcept override;
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;

 private:
  class Tap;
  class Recording;
  using Fate = CaptureRecord::Fate;

  std::size_t send_as(wire::TxBatch& batch, Qpn flow, Fate fate) noexcept;
  bool is_recorded_by_sender(const IpAddress& source) noexcept;
  void record_sent(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet, Qpn flow,
                   TimeNs when, Fate fate) noexcept;
  void put(CaptureRecord& record, std::span<const std::uint8_t> packet) noexcept;

  std::unique_ptr<Link> inner_;
  IpAddress local_;
  Clock clock_;
  Published<bool> running_{false};

  Lock lock_;  // guards the writer
  std::optional<CaptureWriter> writer_;
  Lock addresses_lock_;  // guards the addresses; never held for long, unlike lock_
  std::vector<IpAddress> recorded_by_sender_;
};

}  // namespace verbena::link
