// SPDX-License-Identifier: BSD-2-Clause
// Two devices of one thread, connected by calls: each handles at once what the other sends, from
// the sender's own buffer. This measures the engine alone: no wire, no copies of a link, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "verbena/device/device.hpp"

namespace verbena::bench {

class Host final : public wire::Transmitter, public queue::EventSink {
 public:
  Host(std::uint32_t number, IpAddress address, std::uint32_t depth, std::size_t memory_bytes);
  ~Host() override;
  void connect(Host& peer);

  void send(wire::TxBatch& batch, Qpn) noexcept override {
    for (const auto& p : batch.packets()) {
      wire::RxDatagram d;
      d.bytes = batch.bytes_of(p);
      d.source = address_;
      d.destination = peer_->address_;
      peer_->device->handle_datagram(now, d);
    }
    packets += batch.size();
  }
  std::unique_ptr<wire::Path> path_to(const wire::Destination&, Qpn) override {
    struct Path final : wire::Path {
      std::uint32_t capacity_packets(std::size_t) noexcept override { return 1024; }
    };
    return std::make_unique<Path>();
  }
  void on_completion_event(void*) noexcept override {}
  void on_async_event(queue::AsyncEvent, void*) noexcept override {}

  // Sends what the last packets made due, mostly acknowledgements.
  void finish() { device->finish_receive(now, device::Acknowledge::kNow); }
  // Returns the offset of the id-th slot of 4096 bytes; slots are used again in turn.
  std::size_t slot(std::uint64_t id) const { return id * 4096 % memory.size(); }
  void post_receive(std::uint64_t id, std::uint32_t length);

  std::unique_ptr<device::Device> device;
  queue::CompletionQueue send_cq, receive_cq;
  qp::QueuePair* qp = nullptr;
  std::vector<std::uint8_t> memory;
  std::uint32_t key = 0;
  TimeNs now = 1'000'000;
  std::uint64_t packets = 0;

 private:
  IpAddress address_;
  Host* peer_ = nullptr;
};

struct Joined {
  explicit Joined(std::uint32_t depth = 256, std::size_t memory_bytes = 1 << 20);
  // Posts `batch` requests like `request`, the last one signaled, and returns when it has
  // completed. With `walks` each request takes the next slot of memory as its source, from slot
  // `first` on.
  void exchange(queue::SendRequest request, std::uint32_t batch, bool walks = false,
                std::uint64_t first = 0);
  queue::SendRequest write(const queue::Sge& sge, bool inlined) const;

  Host left, right;
};

}  // namespace verbena::bench
