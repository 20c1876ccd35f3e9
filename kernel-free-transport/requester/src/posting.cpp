// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/posting.hpp"

#include <algorithm>
#include <cstring>

#include "verbena/base/guarded_copy.hpp"
#include "verbena/base/short_copy.hpp"

namespace verbena::requester {

using queue::Endpoint;
using queue::SendRequest;
using queue::WorkOpcode;

namespace {

constexpr std::uint64_t kMessageMax = std::uint64_t{1} << 30;

bool suits(Transport transport, WorkOpcode opcode) {
  switch (transport) {
    case Transport::kUd:
      return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImmediate;
    case Transport::kUc:
      return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImmediate ||
             opcode == WorkOpcode::kWrite || opcode == WorkOpcode::kWriteImmediate ||
             opcode == WorkOpcode::kLocalInvalidate || opcode == WorkOpcode::kBindWindow;
    case Transport::kRc:
    case Transport::kXrcSend:
      return true;
    case Transport::kXrcReceive:
      return false;
  }
  return false;
}

bool carries_payload(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kSend:
    case WorkOpcode::kSendImmediate:
    case WorkOpcode::kSendInvalidate:
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteImmediate:
    case WorkOpcode::kRead:
      return true;
    default:
      return false;
  }
}

Posted check(const Endpoint& endpoint, const SendQueue& queue, const SendRequest& request,
             std::uint64_t& length) {
  if (!suits(endpoint.transport, request.opcode)) [[unlikely]]
    return Posted::kWrongOpcode;
  if (!queue.has_room_for(1)) [[unlikely]]
    return Posted::kQueueFull;
  length = 0;
  for (const queue::Sge& sge : request.sges) length += sge.length;
  const bool is_inline = (request.flags & queue::kInline) != 0;
  if (carries_payload(request.opcode)) [[likely]] {
    if (is_inline) {
      if (request.opcode == WorkOpcode::kRead) return Posted::kInlineForbidden;
      if (length > queue.max_inline()) [[unlikely]]
        return Posted::kInlineTooLong;
    } else if (request.sges.size() > queue.max_sges()) [[unlikely]] {
      return Posted::kTooManySges;
    }
    if (length > kMessageMax) [[unlikely]]
      return Posted::kMessageTooLong;
  }
  if (request.opcode == WorkOpcode::kCompareSwap || request.opcode == WorkOpcode::kFetchAdd) {
    if (is_inline) return Posted::kInlineForbidden;
    if (request.sges.size() > queue.max_sges()) return Posted::kTooManySges;
    if (length != 8) return Posted::kBadLength;
  }
  if (endpoint.transport == Transport::kUd) {
    if (request.address == nullptr) return Posted::kNoAddress;
    if (length > endpoint.mtu) return Posted::kMessageTooLong;
  }
  return Posted::kOk;
}

// Copies the data of a request that has inline data. Returns false if some of it cannot be read.
bool copy_inline(SendQueue& queue, std::uint32_t position, const SendRequest& request) {
  if (request.opcode >= WorkOpcode::kAtomicWrite) return true;
  std::uint8_t* to = queue.inline_bytes(position);
  for (const queue::Sge& sge : request.sges) {
    if (!guarded_copy(to, reinterpret_cast<const void*>(sge.address), sge.length)) return false;
    to += sge.length;
  }
  return true;
}

bool has_rare(WorkOpcode opcode) {
  return opcode >= WorkOpcode::kCompareSwap && opcode != WorkOpcode::kLocalInvalidate;
}

void fill_rare(SendQueue& queue, std::uint32_t position, const SendRequest& request) {
  Rare& rare = queue.make_rare(position);
  if (request.opcode == WorkOpcode::kBindWindow) {
    rare.window_key = request.window_key;
    rare.new_key = request.window_new_key;
    rare.region_key = request.window_region_key;
    rare.access = request.window_access;
    rare.address = request.window_address;
    rare.length = request.window_length;
    return;
  }
  rare.compare = request.compare;
  rare.swap_or_add = request.swap_or_add;
  rare.flush_placement = request.flush_placement;
  rare.flush_selectivity = request.flush_selectivity;
}

// Fills in the rest of a request that has no buffers. Its list, which check() did not bound, is
// ignored.
void fill_without_buffers(SendEntry& entry, const SendRequest& request) {
  if (request.opcode == WorkOpcode::kBindWindow) return;
  if (request.opcode == WorkOpcode::kFlush) {
    entry.length = request.flush_length;
    return;
  }
  if (request.opcode == WorkOpcode::kAtomicWrite) {
    entry.length = 8;
    return;
  }
  // The request is a LOCAL_INV.
  entry.length = 0;
  entry.flags &= static_cast<std::uint8_t>(~queue::kInline);
}

void fill(const Endpoint& endpoint, SendQueue& queue, SendEntry& entry, std::uint32_t position,
          const SendRequest& request, std::uint32_t length) {
  entry.id = request.id;
  entry.opcode = request.opcode;
  entry.flags = request.flags;
  entry.remote_address = request.remote_address;
  entry.remote_key = request.remote_key;
  entry.immediate = request.immediate;
  entry.length = length;
  entry.remote_qpn =
      endpoint.transport == Transport::kXrcSend ? request.remote_srqn : request.remote_qpn;
  if (endpoint.transport == Transport::kUd) {
    entry.remote_key = request.remote_qkey;
    queue.address(position) = *request.address;
  }
  if (has_rare(request.opcode)) [[unlikely]]
    fill_rare(queue, position, request);
  if (request.opcode >= WorkOpcode::kAtomicWrite) [[unlikely]] {
    return fill_without_buffers(entry, request);
  }
  if ((request.flags & queue::kInline) != 0) return;
  entry.sge_count = static_cast<std::uint8_t>(request.sges.size());
  short_copy(queue.sges(position), request.sges.data(), request.sges.size_bytes());
}

}  // namespace

const char* to_string(Posted posted) {
  switch (posted) {
    case Posted::kOk:
      return "posted";
    case Posted::kQueueFull:
      return "the send queue is full: max_send_wr requests have their slots (one is free when its "
             "completion was polled; of an unsignaled request, that of a later one)";
    case Posted::kNoMemory:
      return "no memory for the send queue";
    case Posted::kTooManySges:
      return "num_sge is greater than the queue pair's max_send_sge";
    case Posted::kInlineTooLong:
      return "IBV_SEND_INLINE with more bytes than the queue pair's max_inline_data";
    case Posted::kMessageTooLong:
      return "the message is longer than the port's max_msg_sz (UD: than the path MTU)";
    case Posted::kWrongOpcode:
      return "the opcode is not one of this transport";
    case Posted::kNoAddress:
      return "a UD send needs an address handle (wr.ud.ah)";
    case Posted::kBadLength:
      return "an atomic operation needs one 8-byte buffer";
    case Posted::kInlineForbidden:
      return "IBV_SEND_INLINE makes no sense with READ or atomics";
    case Posted::kInlineGone:
      return "a buffer of inline data is not mapped";
  }
  return "?";
}

Posted would_post(const Endpoint& endpoint, const SendQueue& queue, const SendRequest& request) {
  std::uint64_t length = 0;
  return check(endpoint, queue, request, length);
}

Posted post(const Endpoint& endpoint, SendQueue& queue, const SendRequest& request) {
  std::uint64_t length = 0;
  const Posted verdict = check(endpoint, queue, request, length);
  if (verdict != Posted::kOk) [[unlikely]]
    return verdict;
  if (!queue.has_memory(has_rare(request.opcode))) [[unlikely]]
    return Posted::kNoMemory;
  const std::uint32_t position = queue.tail();
  SendEntry& entry = queue.push();
  if ((request.flags & queue::kInline) != 0 && !copy_inline(queue, position, request))
      [[unlikely]] {
    queue.take_back();
    return Posted::kInlineGone;
  }
  fill(endpoint, queue, entry, position, request, static_cast<std::uint32_t>(length));
  return Posted::kOk;
}

}  // namespace verbena::requester
