// SPDX-License-Identifier: BSD-2-Clause
// What an application asks for and what it is told afterwards: requests, receives, completions.
// They are plain values without libibverbs types; the provider translates them one to one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::queue {

// Has the layout of ibv_sge: the application's lists are read in place as this type.
struct [[gnu::may_alias]] Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;
  bool operator==(const Sge&) const = default;
};

enum class WorkOpcode : std::uint8_t {
  kSend,
  kSendImmediate,
  kSendInvalidate,
  kWrite,
  kWriteImmediate,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,
  kFlush,
  kLocalInvalidate,
  kBindWindow,
};
std::string_view to_string(WorkOpcode opcode);

enum WorkFlag : std::uint8_t {
  kFence = 1,
  kSignaled = 2,
  kSolicited = 4,
  kInline = 8,
};

// Where a UD datagram goes. Code that knows the fabric's address plan resolves it.
struct AddressVector {
  wire::Destination destination;
  Gid remote_gid;  // for the GRH; zero without one
  std::uint8_t service_level = 0;
  bool is_infiniband = false;  // the packet carries the service level

  // Says whether a word of the GRH travels in the packet (wire/deth.hpp).
  bool sends_grh_word() const {
    return is_infiniband && destination.has_grh &&
           (destination.flow_label | destination.traffic_class) != 0;
  }
};

struct SendRequest {
  std::uint64_t id = 0;
  WorkOpcode opcode = WorkOpcode::kSend;
  std::uint8_t flags = 0;
  std::uint32_t immediate =
      0;  // in network order, as given (also the key to invalidate, host order)
  std::uint32_t remote_key = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare = 0;  // COMPARE_SWAP: expected value
  std::uint64_t swap_or_add =
      0;                      // new value, or the addend; ATOMIC_WRITE: its 8 bytes as in memory
  std::span<const Sge> sges;  // with kInline: addresses of plain memory, copied at once
  // UD
  const AddressVector* address = nullptr;
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  // XRC
  std::uint32_t remote_srqn = 0;
  // BIND_WINDOW
  std::uint32_t window_key = 0;      // the current key
  std::uint32_t window_new_key = 0;  // type 2: chosen by the consumer; type 1: 0
  std::uint32_t window_region_key = 0;
  std::uint64_t window_address = 0;
  std::uint64_t window_length = 0;
  std::uint32_t window_access = 0;
  // FLUSH
  std::uint32_t flush_length = 0;
  std::uint8_t flush_placement = 0;    // bits: 1 global visibility, 2 persistence
  std::uint8_t flush_selectivity = 0;  // 0 range, 1 whole region
};

struct RecvRequest {
  std::uint64_t id = 0;
  std::span<const Sge> sges;
};

// The statuses in the order of ibv_wc_status.
enum class Status : std::uint8_t {
  kSuccess,
  kLocalLength,
  kLocalQpOperation,
  kLocalEec,
  kLocalProtection,
  kFlushed,
  kWindowBind,
  kBadResponse,
  kLocalAccess,
  kRemoteInvalidRequest,
  kRemoteAccess,
  kRemoteOperation,
  kRetryExceeded,
  kRnrRetryExceeded,
  kLocalRdd,
  kRemoteInvalidRd,
  kRemoteAborted,
  kInvalidEecn,
  kInvalidEecState,
  kFatal,
  kResponseTimeout,
  kGeneral,
  kTagMatching,
  kTagRendezvousIncomplete,
};
std::string_view to_string(Status status);

enum class CompletionOpcode : std::uint8_t {
  kSend,
  kWrite,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kBindWindow,
  kLocalInvalidate,
  kFlush,
  kAtomicWrite,
  kReceive,
  kReceiveWriteImmediate,
  kTagAdd,
  kTagDelete,
  kTagSync,
  kTagReceive,
  kTagNoTag,
};

enum CompletionFlag : std::uint16_t {
  kHasGrh = 1,
  kHasImmediate = 2,
  kHasInvalidated = 4,
  kTagSyncRequest = 8,
  kTagMatched = 16,
  kTagDataValid = 32,
};

// One cache line. Fields that ibv_wc shows unchanged are laid out as there, so that several are
// copied at once.
struct Completion {
  std::uint64_t id = 0;
  Status status = Status::kSuccess;
  CompletionOpcode opcode = CompletionOpcode::kSend;
  std::uint16_t flags = 0;
  std::uint32_t tag_private = 0;   // tag matching: the sender's application context
  std::uint32_t vendor_error = 0;  // the Status of a failure, else 0
  std::uint32_t byte_length = 0;
  std::uint32_t immediate = 0;  // network order as received; or the invalidated key, host order
  std::uint32_t qpn = 0;
  std::uint32_t source_qpn = 0;
  std::uint32_t account = 0;  // in the completion queue, whose slots it frees (freed_slots.hpp)
  std::uint16_t pkey_index = 0;
  std::uint16_t source_lid = 0;
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;
  std::uint16_t slots = 0;      // how many slots it frees
  std::uint64_t timestamp = 0;  // device clock in ns, if the CQ wants it
  std::uint64_t tag = 0;        // tag matching: the sender's tag

  // Resets all fields, one by one: for an assignment gcc sometimes emits string instructions, whose
  // start alone takes longer.
  void clear() noexcept {
    id = timestamp = tag = 0;
    status = Status::kSuccess;
    opcode = CompletionOpcode::kSend;
    flags = pkey_index = source_lid = slots = 0;
    tag_private = vendor_error = byte_length = immediate = qpn = source_qpn = account = 0;
    service_level = path_bits = 0;
  }
};
static_assert(sizeof(Completion) == 64);

}  // namespace verbena::queue
