// SPDX-License-Identifier: BSD-2-Clause
// Carries out requests: on receives, on remote memory, atomics.
#include "verbena/queue/payload.hpp"
#include "verbena/responder/responder.hpp"

namespace verbena::responder {

using queue::AsyncEvent;
using queue::CompletionOpcode;
using queue::Payload;
using wire::NakCode;
using wire::Operation;

bool Responder::execute(const wire::PacketView& packet) {
  switch (packet.row->operation) {
    case Operation::kSend:
      return execute_send(packet);
    case Operation::kWrite:
      return execute_write(packet);
    case Operation::kReadRequest:
      return execute_read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return execute_atomic(packet);
    case Operation::kAtomicWrite:
      return execute_atomic_write(packet);
    case Operation::kFlush:
      return execute_flush(packet);
    default:
      break;
  }
  return refuse_request("not a request");
}

bool Responder::complete_receive(const wire::PacketView& packet, CompletionOpcode opcode,
                                 std::uint64_t length) {
  if (receive_.complete(packet, opcode, static_cast<std::uint32_t>(length),
                        {endpoint_.shown_peer, endpoint_.peer_lid, endpoint_.service_level}))
      [[likely]]
    return true;
  if (is_reliable(endpoint_.transport)) {
    --position_.messages;
    return refuse(NakCode::kRemoteOperational, AsyncEvent::kQpFatal, queue::kFullOfCompletions);
  }
  endpoint_.fail_for_want_of_room();
  return false;
}

// --- SEND --------------------------------------------------------------------------------------

bool Responder::execute_send(const wire::PacketView& packet) {
  const wire::OpcodeRow& row = *packet.row;
  if (row.starts_message && !receive_.take(packet, packet.payload)) [[unlikely]]
    return refuse_not_ready();
  std::optional<ReceiveInUse::Failed> failed;
  if (!receive_.fill(packet, failed)) [[unlikely]]
    return refuse(failed->code, std::nullopt, failed->why.c_str());
  if (!row.ends_message) {
    message_ = Message::kSend;
    return true;
  }
  if (row.ieth && !invalidate(packet.ieth().rkey)) return false;
  message_ = Message::kNone;
  ++position_.messages;
  endpoint_.port->received.sends.add();
  return complete_receive(packet, CompletionOpcode::kReceive, receive_.filled());
}

bool Responder::invalidate(std::uint32_t key) {
  const auto done =
      endpoint_.memory->invalidate(key, receive_.remote_domain(), endpoint_.number.value());
  if (done.ok()) return true;
  const bool is_region = done.error() == memory::Refusal::kNoPermission;
  const ShortText why(
      "SEND_WITH_INV of key 0x%x: %s", key,
      is_region ? "only windows of type 2 can be invalidated" : to_string(done.error()));
  return refuse(NakCode::kRemoteAccess, AsyncEvent::kQpAccessError, why.c_str());
}

bool Responder::execute_uc_send(const wire::PacketView& packet) {
  if (packet.row->starts_message) {
    if (receive_.is_active()) {
      receive_.begin_anew();
    } else if (!receive_.take(packet, {})) {
      return drop_unreceived();
    }
  }
  std::optional<ReceiveInUse::Failed> failed;
  return receive_.append(Payload(packet.payload), failed) ||
         refuse(failed->code, std::nullopt, failed->why.c_str());
}

// --- RDMA WRITE --------------------------------------------------------------------------------

// An operation that the queue pair is not set up for is an invalid request, like an unknown opcode.
// An access error is about a key.
bool Responder::may_access(std::uint32_t flags, const char* what) {
  if ((endpoint_.access_flags & flags) == flags) return true;
  const ShortText why("%s, but the qp_access_flags of this queue pair lack %s (they are %s)", what,
                      memory::access_names(flags & ~endpoint_.access_flags).c_str(),
                      memory::access_names(endpoint_.access_flags).c_str());
  return refuse_request(why.c_str());
}

bool Responder::execute_write(const wire::PacketView& packet) {
  const wire::OpcodeRow& row = *packet.row;
  const auto range = [this](std::uint64_t offset, std::uint64_t length) {
    return request_for(write_.rkey, write_.va + offset, length, memory::kRemoteWrite);
  };
  memory::Pin target;
  if (row.starts_message) {
    if (!may_access(memory::kRemoteWrite, "RDMA WRITE")) return false;
    write_ = packet.reth();
    written_ = 0;
    if (write_.length != 0) {
      auto whole = endpoint_.memory->pin(range(0, write_.length));
      if (!whole.ok()) return refuse_access("RDMA WRITE", range(0, write_.length), whole.error());
      // The only packet writes all of it, and needs no receive.
      if (row.ends_message && !row.immediate) target = std::move(*whole);
    }
  }
  const Payload payload(packet);
  const std::uint64_t end = written_ + payload.size();
  if (end > write_.length || (row.ends_message && end != write_.length)) {
    return refuse_request("the packets of an RDMA WRITE do not add up to its length");
  }
  if (row.immediate && !receive_.take(packet, {})) return refuse_not_ready();
  if (payload.size() != 0) {
    if (!target) {
      auto part = endpoint_.memory->pin(range(written_, payload.size()));
      if (!part.ok()) [[unlikely]] {
        return refuse_access("an RDMA WRITE that is arriving", range(written_, payload.size()),
                             part.error());
      }
      target = std::move(*part);
    }
    if (!payload.place(0, payload.size(), target)) [[unlikely]] {
      return refuse_access("an RDMA WRITE that is arriving", range(written_, payload.size()),
                           memory::Refusal::kNotMapped);
    }
    written_ = end;
  }
  if (!row.ends_message) {
    message_ = Message::kWrite;
    return true;
  }
  message_ = Message::kNone;
  ++position_.messages;
  endpoint_.port->received.writes.add();
  return !row.immediate ||
         complete_receive(packet, CompletionOpcode::kReceiveWriteImmediate, write_.length);
}

bool Responder::execute_uc_write(const wire::PacketView& packet) {
  const wire::OpcodeRow& row = *packet.row;
  if (row.immediate && !receive_.is_active() && !receive_.take(packet, {})) {
    return drop_unreceived();
  }
  if (row.starts_message) {
    write_ = packet.reth();
    written_ = 0;
  }
  const std::size_t size = packet.payload.size();
  const std::uint64_t end = written_ + size;
  const auto request = request_for(write_.rkey, write_.va + written_, size, memory::kRemoteWrite);
  const auto pin = endpoint_.memory->pin(request);
  if ((endpoint_.access_flags & memory::kRemoteWrite) == 0 || end > write_.length ||
      (row.ends_message && end != write_.length) || (size != 0 && !pin.ok())) {
    return drop_write(request, pin.ok() ? std::nullopt : std::optional(pin.error()));
  }
  if (size != 0 && !pin->write(0, packet.payload.data(), size)) [[unlikely]]
    return drop_write(request, memory::Refusal::kNotMapped);
  written_ = end;
  return true;
}

bool Responder::drop_unreceived() {
  drop_message(DropReason::kNoReceive);
  queue::explain(endpoint_,
                 "a message of the peer 0x%06x was dropped: no receive is posted (ibv_post_recv)",
                 endpoint_.peer.value());
  return false;
}

bool Responder::drop_write(const memory::AccessRequest& request,
                           std::optional<memory::Refusal> refusal) {
  drop_message(DropReason::kMalformed);
  if ((endpoint_.access_flags & memory::kRemoteWrite) == 0) {
    queue::explain(endpoint_,
                   "an RDMA WRITE of the peer was dropped: the qp_access_flags lack "
                   "IBV_ACCESS_REMOTE_WRITE");
  } else if (refusal) {
    queue::explain(endpoint_, "an RDMA WRITE of the peer was dropped: %s",
                   endpoint_.memory->explain(request, *refusal).c_str());
  } else {
    queue::explain(endpoint_,
                   "an RDMA WRITE of the peer was dropped: its packets do not add up to "
                   "the %u bytes that it announced",
                   write_.length);
  }
  return false;
}

// --- RDMA READ, atomics, FLUSH -----------------------------------------------------------------

bool Responder::execute_read(const wire::PacketView& packet) {
  if (!may_access(memory::kRemoteRead, "RDMA READ")) return false;
  const wire::Reth reth = packet.reth();
  if (reth.length > kMessageMax) {
    const ShortText why("an RDMA READ of %u bytes is longer than max_msg_sz", reth.length);
    return refuse_request(why.c_str());
  }
  if (!may_add_answer()) return refuse_one_more();
  const auto request = request_for(reth.rkey, reth.va, reth.length, memory::kRemoteRead);
  if (reth.length != 0) {
    const auto pin = endpoint_.memory->pin(request);
    if (!pin.ok()) return refuse_access("RDMA READ", request, pin.error());
  }
  endpoint_.port->received.reads.add();
  Response& r = answers_.add(packet, ++position_.messages, request.domain);
  r.packets = packets_of(reth.length);
  r.key = reth.rkey;
  r.address = reth.va;
  r.length = reth.length;
  return true;
}

bool Responder::execute_atomic(const wire::PacketView& packet) {
  if (!may_access(memory::kRemoteAtomic, "an atomic operation")) return false;
  const wire::AtomicEth atomic = packet.atomic_eth();
  if (!may_add_answer()) return refuse_one_more();
  if ((atomic.va & 7) != 0) {
    const ShortText why("the address 0x%llx of an atomic operation is not a multiple of 8",
                        static_cast<unsigned long long>(atomic.va));
    return refuse_request(why.c_str());
  }
  const auto request = request_for(atomic.rkey, atomic.va, 8, memory::kRemoteAtomic);
  auto pin = endpoint_.memory->pin(request);
  std::uint64_t original = 0;
  const bool done =
      pin.ok() && (packet.row->operation == Operation::kCompareSwap
                       ? pin->compare_swap(atomic.compare, atomic.swap_or_add, &original)
                       : pin->fetch_add(atomic.swap_or_add, &original));
  if (!done) {
    return refuse_access("an atomic operation", request,
                         pin.ok() ? memory::Refusal::kNotMapped : pin.error());
  }
  endpoint_.port->received.atomics.add();
  answers_.add_saved(packet, ++position_.messages, original);
  return true;
}

// Writes eight bytes that become visible as one (annex A19).
bool Responder::execute_atomic_write(const wire::PacketView& packet) {
  if (!may_access(memory::kRemoteWrite, "ATOMIC WRITE")) return false;
  const wire::Reth reth = packet.reth();
  if (!may_add_answer()) return refuse_one_more();
  if (packet.payload.size() != 8 || reth.length != 8 || (reth.va & 7) != 0) {
    return refuse_request("an ATOMIC WRITE has 8 aligned bytes");
  }
  const auto request = request_for(reth.rkey, reth.va, 8, memory::kRemoteWrite);
  auto pin = endpoint_.memory->pin(request);
  if (!pin.ok() || !pin->write(0, packet.payload.data(), 8)) {
    return refuse_access("ATOMIC WRITE", request,
                         pin.ok() ? memory::Refusal::kNotMapped : pin.error());
  }
  endpoint_.port->received.writes.add();
  answers_.add_saved(packet, ++position_.messages, 0);
  return true;
}

// All earlier writes are in memory already, so this checks the range and answers.
bool Responder::execute_flush(const wire::PacketView& packet) {
  const wire::Feth feth = packet.feth();
  const wire::Reth reth = packet.reth();
  const std::uint32_t need =
      (feth.placement_type & wire::kFlushPersistence ? memory::kFlushPersistent : 0u) |
      (feth.placement_type & wire::kFlushGlobalVisibility ? memory::kFlushGlobal : 0u);
  if (!may_add_answer()) return refuse_one_more();
  if (need == 0 || feth.selectivity > 1) {
    return refuse_request("FLUSH with a placement or selectivity that does not exist");
  }
  if (!may_access(need, "FLUSH")) return false;
  auto request = request_for(reth.rkey, reth.va, reth.length, need);
  request.at_any_address = feth.selectivity == 1;  // the whole region
  const auto pin = endpoint_.memory->pin(request);
  if (!pin.ok()) return refuse_access("FLUSH", request, pin.error());
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  answers_.add_saved(packet, ++position_.messages, 0);
  return true;
}

}  // namespace verbena::responder
