// SPDX-License-Identifier: BSD-2-Clause
// What the parts of a requester or responder work on: the endpoint of a queue pair, with memory, a
// completion queue and a path.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "verbena/memory/registry.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/endpoint.hpp"

namespace verbena::queue::testing {

class EndpointTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMtu = 256;
  static constexpr memory::DomainId kDomain = 7;

  class Path final : public wire::Path {
   public:
    std::uint32_t capacity_packets(std::size_t) noexcept override { return 64; }
    Packing packing() noexcept override { return form; }
    Packing form;
  };
  class Sink final : public EventSink {
   public:
    void on_completion_event(void*) noexcept override {}
    void on_async_event(AsyncEvent, void*) noexcept override {}
    void explain(const char* text) noexcept override { said += text; }
    bool wants_explanations() const noexcept override { return true; }
    std::string said;
  };

  EndpointTest() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::uint8_t>(i * 7);
    endpoint_.number = endpoint_.shown_number = Qpn(0x004001);
    endpoint_.peer = endpoint_.shown_peer = Qpn(0x008002);
    endpoint_.domain = kDomain;
    endpoint_.memory = &registry_;
    endpoint_.events = &sink_;
    endpoint_.port = &port_;
    endpoint_.drops = &drops_;
    endpoint_.send_cq = endpoint_.receive_cq = &cq_;
    endpoint_.mtu = kMtu;
    endpoint_.path = std::make_unique<Path>();
    key_ = make_key(kDomain, bytes_.size());
  }

  wire::Path::Packing& form() { return static_cast<Path&>(*endpoint_.path).form; }
  // Registers the first `length` bytes of our memory.
  std::uint32_t make_key(memory::DomainId domain, std::size_t length) {
    memory::RegionRequest region;
    region.domain = domain;
    region.host_address = region.base = address(0);
    region.length = length;
    region.access = memory::kLocalWrite | memory::kRemoteRead;
    return *registry_.register_region(region);
  }
  std::uint64_t address(std::size_t at) const {
    return reinterpret_cast<std::uint64_t>(bytes_.data() + at);
  }
  Sge sge(std::size_t at, std::uint32_t length) const { return {address(at), length, key_}; }
  std::vector<Completion> completions() {
    std::vector<Completion> all;
    for (Completion c; cq_.poll_one(c);) all.push_back(c);
    return all;
  }

  std::array<std::uint8_t, 4096> bytes_;
  memory::Registry registry_{memory::trusting_memory_port()};
  Sink sink_;
  CompletionQueue cq_{{.capacity = 64}, sink_};
  PortCounters port_;
  DropCounters drops_;
  Endpoint endpoint_;
  std::uint32_t key_ = 0;
};

}  // namespace verbena::queue::testing
