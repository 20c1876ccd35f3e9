// SPDX-License-Identifier: BSD-2-Clause
#include "answer_data.hpp"

#include <algorithm>

#include "verbena/queue/payload.hpp"

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;
using wire::Operation;

namespace {

Status scatter(queue::Endpoint& endpoint, const SendQueue& queue, std::uint32_t position,
               std::uint64_t offset, const queue::Payload& data) {
  const SendEntry& entry = queue.at(position);
  const queue::Sge* sge = queue.sges(position);
  // A rendezvous reads into buffers of the tag-matching SRQ.
  const memory::DomainId domain = entry.internal ? endpoint.srq->domain : endpoint.domain;
  std::size_t from = 0;
  std::size_t left = data.size();
  for (std::uint32_t i = 0; i < entry.sge_count && left != 0; ++i, ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(sge->length - offset, left);
    const memory::AccessRequest request{sge->key,
                                        domain,
                                        sge->address + offset,
                                        part,
                                        memory::kLocalWrite,
                                        endpoint.number.value()};
    const auto pin = endpoint.memory->pin(request);
    if (!pin.ok() || !data.place(from, part, *pin)) {
      const auto refusal = pin.ok() ? memory::Refusal::kNotMapped : pin.error();
      queue::blame(endpoint, "cannot write what %s with wr_id %llu has brought: sg_list[%u]: %s",
                   to_string(entry.opcode).data(), static_cast<unsigned long long>(entry.id), i,
                   endpoint.memory->explain(request, refusal).c_str());
      return Status::kLocalProtection;
    }
    from += part;
    left -= part;
    offset = 0;
  }
  return left == 0 ? Status::kSuccess : Status::kLocalLength;
}

// Refuses an answer that is not of the kind or the length that the request asked for.
Status refuse(queue::Endpoint& endpoint, const SendEntry& entry, const wire::PacketView& packet) {
  queue::blame(endpoint,
               "the peer 0x%06x answered %s with wr_id %llu by %s with %zu bytes, PSN 0x%06x, "
               "which cannot be its answer",
               endpoint.peer.value(), to_string(entry.opcode).data(),
               static_cast<unsigned long long>(entry.id), packet.row->name.data(),
               packet.payload.size(), packet.bth.psn.value());
  return Status::kBadResponse;
}

Status take_read_data(queue::Endpoint& endpoint, const SendQueue& queue, std::uint32_t position,
                      const wire::PacketView& packet) {
  const SendEntry& entry = queue.at(position);
  const std::uint64_t index = static_cast<std::uint32_t>(packet.bth.psn.distance_from(entry.first));
  if (index + packet.psns > entry.packets) return refuse(endpoint, entry, packet);
  const std::uint64_t offset = index * endpoint.mtu;
  const std::uint64_t expected =
      std::min<std::uint64_t>(entry.length - offset, std::uint64_t{packet.psns} * endpoint.mtu);
  const queue::Payload data(packet);
  if (data.size() != expected) {
    queue::blame(endpoint,
                 "a READ response of %zu bytes where %llu were due: do both ends have "
                 "the same path MTU?",
                 data.size(), static_cast<unsigned long long>(expected));
    return Status::kBadResponse;
  }
  const Status status = scatter(endpoint, queue, position, offset, data);
  if (status == Status::kSuccess) endpoint.counters.bytes_received.add(expected);
  return status;
}

}  // namespace

Status take_answer(queue::Endpoint& endpoint, const SendQueue& queue, std::uint32_t position,
                   const wire::PacketView& packet) {
  const SendEntry& entry = queue.at(position);
  const Operation operation = packet.row->operation;
  if (entry.is_atomic()) {
    if (operation != Operation::kAtomicAcknowledge || !packet.payload.empty()) {
      return refuse(endpoint, entry, packet);
    }
    // The value stays in host order, because the requester's buffer holds a native 64-bit value.
    const std::uint64_t original = packet.atomic_ack_eth().original;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&original);
    return scatter(endpoint, queue, position, 0, queue::Payload({bytes, sizeof original}));
  }
  if (operation != Operation::kReadResponse) return refuse(endpoint, entry, packet);
  if (entry.opcode == WorkOpcode::kRead) return take_read_data(endpoint, queue, position, packet);
  const bool is_bare = packet.payload.empty() && packet.psns == 1;
  return is_bare ? Status::kSuccess : refuse(endpoint, entry, packet);
}

}  // namespace verbena::requester
