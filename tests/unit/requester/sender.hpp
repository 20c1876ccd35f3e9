// SPDX-License-Identifier: BSD-2-Clause
// What the parts of a requester work on: a queue pair's endpoint with memory, a completion queue
// and a path, and a send queue.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "verbena/memory/registry.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_queue.hpp"

namespace verbena::requester::testing {

class SenderTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMtu = 256;
  static constexpr memory::DomainId kDomain = 7;

  class Path final : public wire::Path {
   public:
    std::uint32_t capacity_packets(std::size_t) noexcept override { return 64; }
    Packing packing() noexcept override { return form; }
    Packing form;
  };
  class Sink final : public queue::EventSink {
   public:
    void on_completion_event(void*) noexcept override {}
    void on_async_event(queue::AsyncEvent, void*) noexcept override {}
  };

  SenderTest() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::uint8_t>(i * 7);
    endpoint_.number = Qpn(0x004001);
    endpoint_.peer = Qpn(0x008002);
    endpoint_.domain = kDomain;
    endpoint_.memory = &registry_;
    endpoint_.events = &sink_;
    endpoint_.port = &port_;
    endpoint_.drops = &drops_;
    endpoint_.send_cq = &cq_;
    endpoint_.mtu = kMtu;
    endpoint_.path = std::make_unique<Path>();
    queue_.count_freed_by(&freed_);
    memory::RegionRequest region;
    region.domain = kDomain;
    region.host_address = region.base = reinterpret_cast<std::uint64_t>(bytes_.data());
    region.length = bytes_.size();
    region.access = memory::kLocalWrite;
    key_ = *registry_.register_region(region);
  }

  wire::Path::Packing& form() { return static_cast<Path&>(*endpoint_.path).form; }
  queue::Sge sge(std::size_t at, std::uint32_t length) const {
    return {reinterpret_cast<std::uint64_t>(bytes_.data() + at), length, key_};
  }
  std::vector<queue::Completion> completions() {
    std::vector<queue::Completion> all;
    for (queue::Completion c; cq_.poll_one(c);) all.push_back(c);
    return all;
  }

  std::array<std::uint8_t, 4096> bytes_;
  memory::Registry registry_{memory::trusting_memory_port()};
  Sink sink_;
  queue::CompletionQueue cq_{{.capacity = 64}, sink_};
  PortCounters port_;
  DropCounters drops_;
  queue::FreedSlots freed_;
  queue::Endpoint endpoint_;
  SendQueue queue_{{.capacity = 4, .max_sges = 2, .max_inline = 64, .datagram = true}};
  std::uint32_t key_ = 0;
};

}  // namespace verbena::requester::testing
