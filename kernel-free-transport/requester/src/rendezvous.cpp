// SPDX-License-Identifier: BSD-2-Clause
// What the device sends on its own for a tag-matching SRQ: the READ of announced data, and FIN.
#include <cstring>

#include "verbena/requester/requester.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;

namespace {

constexpr std::uint32_t kFinSize = 16;
constexpr std::uint8_t kFinOpcode = 2;

}  // namespace

bool Requester::post_rendezvous(const queue::Rendezvous& r) {
  if (r.length > r.receive.capacity) {
    // A program's own affair: the queue pair goes on, and the peer gets no FIN.
    SendEntry refused;
    refused.id = r.receive.id;
    refused.opcode = WorkOpcode::kRead;
    refused.length = r.length;
    complete_rendezvous(refused, {.compare = r.tag, .swap_or_add = r.tag_private},
                        Status::kTagRendezvousIncomplete);
    return true;
  }
  if (!queue_.has_room_for_own(2)) return false;
  std::uint32_t position = queue_.tail();
  SendEntry& read = queue_.push(true);
  read.id = r.receive.id;
  read.opcode = WorkOpcode::kRead;
  read.remote_address = r.remote_address;
  read.remote_key = r.remote_key;
  read.length = r.length;
  Rare& rare = queue_.make_rare(position);
  rare.compare = r.tag;
  rare.swap_or_add = r.tag_private;
  read.sge_count = static_cast<std::uint8_t>(r.receive.sge_count);
  std::memcpy(queue_.sges(position), r.receive.sges.data(),
              r.receive.sge_count * sizeof(queue::Sge));
  // The peer may reuse its memory when it hears FIN: not before the data is here.
  position = queue_.tail();
  SendEntry& fin = queue_.push(true);
  fin.opcode = WorkOpcode::kSend;
  fin.flags = queue::kInline | queue::kFence;
  fin.length = kFinSize;
  std::uint8_t* header = queue_.inline_bytes(position);
  std::memset(header, 0, kFinSize);
  header[0] = kFinOpcode;
  wire::store_be32(header + 4, r.tag_private);
  wire::store_be64(header + 8, r.tag);
  return true;
}

void Requester::complete_rendezvous(const SendEntry& entry, const Rare& rare, Status status) {
  if (entry.opcode != WorkOpcode::kRead || endpoint_.srq == nullptr) return;
  queue::Completion c;
  c.id = entry.id;
  c.status = status == Status::kSuccess ? status : Status::kTagRendezvousIncomplete;
  c.opcode = queue::CompletionOpcode::kTagReceive;
  if (status == Status::kSuccess) c.flags = queue::kTagDataValid;
  c.byte_length = entry.length;
  c.qpn = endpoint_.number.value();
  c.source_qpn = endpoint_.peer.value();
  // The tag was told when the announcement matched; again only to say what failed.
  if (status != Status::kSuccess) {
    c.tag = rare.compare;
    c.tag_private = static_cast<std::uint32_t>(rare.swap_or_add);
  }
  if (status != Status::kSuccess) c.vendor_error = static_cast<std::uint32_t>(status);
  if (status != Status::kSuccess && status != Status::kFlushed) {
    endpoint_.port->responder_errors.add();
  }
  if (!endpoint_.srq->cq->push(c, false)) endpoint_.fail_for_want_of_room();
}

}  // namespace verbena::requester
