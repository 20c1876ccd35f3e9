// SPDX-License-Identifier: BSD-2-Clause
// What the parts of a responder work on: the endpoint of a queue pair, with memory, receives, a
// completion queue and a path; and packets of its peer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "../queue/endpoint_fixture.hpp"
#include "verbena/queue/receive_queue.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::responder::testing {

class ReceiverTest : public queue::testing::EndpointTest {
 protected:
  // A packet of the peer, which keeps its bytes.
  struct Packet {
    std::vector<std::uint8_t> bytes;
    wire::PacketView view;
  };

  ReceiverTest() {
    endpoint_.receives = &receives_;
    endpoint_.receive_account = receives_.attach(cq_);
  }
  ~ReceiverTest() override { receives_.detach(cq_); }

  void post(std::uint64_t id, const std::vector<queue::Sge>& sges) {
    queue::RecvRequest r;
    r.id = id;
    r.sges = sges;
    ASSERT_EQ(receives_.post(r), queue::ReceiveQueue::Posted::kOk);
  }
  Packet packet(wire::Opcode opcode, std::span<const std::uint8_t> payload,
                wire::PacketHeaders headers = {}) const {
    Packet p;
    headers.bth.pad = wire::pad_for(payload.size());
    p.bytes.resize(wire::kMaxHeaders);
    p.bytes.resize(wire::write_headers(static_cast<std::uint8_t>(opcode), headers, p.bytes.data()));
    p.bytes.insert(p.bytes.end(), payload.begin(), payload.end());
    p.bytes.resize(p.bytes.size() + headers.bth.pad);
    const auto view = wire::parse_packet(p.bytes);
    EXPECT_TRUE(view.ok());
    if (view.ok()) p.view = *view;
    return p;
  }
  Packet packet(wire::Opcode opcode, Psn psn) const {
    wire::PacketHeaders headers;
    headers.bth.psn = psn;
    return packet(opcode, {}, headers);
  }
  bool holds(std::size_t at, std::span<const std::uint8_t> data) const {
    return std::equal(data.begin(), data.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  queue::ReceiveQueue receives_{{.capacity = 4, .max_sges = 2}, sink_};
};

}  // namespace verbena::responder::testing
