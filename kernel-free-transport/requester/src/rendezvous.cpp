// SPDX-License-Identifier: BSD-2-Clause
#include "rendezvous.hpp"

#include <cstring>

#include "verbena/wire/bytes.hpp"

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;

namespace {

constexpr std::uint32_t kFinSize = 16;
constexpr std::uint8_t kFinOpcode = 2;

}  // namespace

bool post_rendezvous(queue::Endpoint& endpoint, SendQueue& queue, const queue::Rendezvous& r) {
  if (r.length > r.receive.capacity) {
    // The program's buffer is too short: the queue pair goes on, and the peer gets no FIN.
    SendEntry refused;
    refused.id = r.receive.id;
    refused.opcode = WorkOpcode::kRead;
    refused.length = r.length;
    complete_rendezvous(endpoint, refused, {.compare = r.tag, .swap_or_add = r.tag_private},
                        Status::kTagRendezvousIncomplete);
    return true;
  }
  if (!queue.has_room_for_own(2) || !queue.has_memory(true)) return false;
  std::uint32_t position = queue.tail();
  SendEntry& read = queue.push(true);
  read.id = r.receive.id;
  read.opcode = WorkOpcode::kRead;
  read.remote_address = r.remote_address;
  read.remote_key = r.remote_key;
  read.length = r.length;
  Rare& rare = queue.make_rare(position);
  rare.compare = r.tag;
  rare.swap_or_add = r.tag_private;
  read.sge_count = static_cast<std::uint8_t>(r.receive.sge_count);
  std::memcpy(queue.sges(position), r.receive.sges.data(),
              r.receive.sge_count * sizeof(queue::Sge));
  // The peer may reuse its memory when it gets FIN: the fence holds FIN back until the data is
  // here.
  position = queue.tail();
  SendEntry& fin = queue.push(true);
  fin.opcode = WorkOpcode::kSend;
  fin.flags = queue::kInline | queue::kFence;
  fin.length = kFinSize;
  std::uint8_t* header = queue.inline_bytes(position);
  std::memset(header, 0, kFinSize);
  header[0] = kFinOpcode;
  wire::store_be32(header + 4, r.tag_private);
  wire::store_be64(header + 8, r.tag);
  return true;
}

void complete_rendezvous(queue::Endpoint& endpoint, const SendEntry& entry, const Rare& rare,
                         Status status) {
  if (entry.opcode != WorkOpcode::kRead || endpoint.srq == nullptr) return;
  queue::Completion c;
  c.id = entry.id;
  c.status = status == Status::kSuccess ? status : Status::kTagRendezvousIncomplete;
  c.opcode = queue::CompletionOpcode::kTagReceive;
  if (status == Status::kSuccess) c.flags = queue::kTagDataValid;
  c.byte_length = entry.length;
  c.qpn = endpoint.number.value();
  c.source_qpn = endpoint.peer.value();
  // The tag was told when the announcement matched; it is told again only to say what failed.
  if (status != Status::kSuccess) {
    c.tag = rare.compare;
    c.tag_private = static_cast<std::uint32_t>(rare.swap_or_add);
  }
  if (status != Status::kSuccess) c.vendor_error = static_cast<std::uint32_t>(status);
  if (status != Status::kSuccess && status != Status::kFlushed) {
    endpoint.port->responder_errors.add();
  }
  if (!endpoint.srq->cq->push(c, false)) endpoint.fail_for_want_of_room();
}

}  // namespace verbena::requester
