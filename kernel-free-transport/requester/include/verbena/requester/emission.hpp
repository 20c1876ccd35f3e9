// SPDX-License-Identifier: BSD-2-Clause
// Makes the packets of a batch from a request: what each looks like, where its payload comes from,
// and how many packets it stands for (wire/datagram.hpp says in which forms packets travel).
//
// Part of a requester.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbena/memory/registry.hpp"
#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_psns.hpp"
#include "verbena/requester/send_queue.hpp"
#include "verbena/requester/window.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::requester {

class Emission {
 public:
  enum class Result : std::uint8_t { kSent, kBatchFull, kRefused };
  // A request as its packets need it, worked out once for those that go together.
  struct Message {
    std::uint32_t position = 0;
    bool wants_response = false;
    std::uint32_t merged_most = 0;        // the most bytes of a merged packet; 0: none is merged
    bool sums = false;                    // the copy computes the packets' checksums
    bool is_bundled = false;              // packets of any lengths go as one bundle
    const std::uint8_t* bytes = nullptr;  // all data, if it is one piece of plain memory
    bool is_borrowed = false;             // packets borrow these bytes until they are sent
    const wire::Destination* to = nullptr;
    std::optional<std::uint32_t> destination;  // the address's place in the batch
    std::size_t word_bytes = 0;                // UD: the size of a GRH's first word, if one is sent
  };

  // All arguments belong to the requester.
  Emission(queue::Endpoint& endpoint, const SendQueue& queue, const SendPsns& psns,
           const Window& window)
      : endpoint_(endpoint), queue_(queue), psns_(psns), window_(window) {}

  // Describes the request at `position`. `is_followed`: other requests wait behind it.
  Message message_at(std::uint32_t position, bool is_followed, wire::TxBatch& out);
  // Returns for how many PSNs the packet stands that begins with `psn`.
  std::uint32_t psns_at(const Message& message, Psn psn) const;
  // Adds the packet of a message that begins with `psn` and takes `psns` PSNs. If it is refused,
  // the reason has been recorded.
  Result emit(Message& message, Psn psn, std::uint32_t psns, wire::TxBatch& out, bool ack_request);
  // Ends the batch: memory that its packets borrow stays pinned as long as the batch has it.
  void release(wire::TxBatch& out);

 private:
  // The memory that is sent from, pinned while a batch is filled.
  struct Source {
    queue::Sge sge;
    memory::Pin pin;
    bool is_borrowed = false;  // packets of the batch borrow from it
  };
  // The part of a message that one packet carries, in bytes, and the packet's opcode for it.
  struct Extent {
    std::uint64_t offset;
    std::uint32_t length;
    bool is_last;  // the packet carries the end of the message's data
    std::uint8_t opcode;
  };
  // What is known about a packet's payload.
  struct Carried {
    std::optional<std::uint32_t> sum;
    const std::uint8_t* borrowed = nullptr;
  };

  const std::uint8_t* bytes_of(const SendEntry& entry, std::uint32_t position, wire::TxBatch& out);
  bool may_borrow(const SendEntry& entry);
  std::uint32_t merged_most_of(const SendEntry& entry, bool is_followed);
  Extent extent_of(const Message& message, const SendEntry& entry, Psn psn,
                   std::uint32_t psns) const;
  std::optional<memory::Refusal> gather(const SendEntry& entry, std::uint32_t position,
                                        std::uint64_t offset, std::uint32_t length,
                                        std::uint8_t* to) const;
  std::optional<memory::Refusal> put_payload(const Message& message, const SendEntry& entry,
                                             const Extent& extent, Psn psn, std::uint32_t merged,
                                             std::uint8_t* to, Carried& carried) const;
  void write_headers(const Message& message, const SendEntry& entry, const Extent& extent, Psn psn,
                     bool ack_request, std::uint8_t* at) const;
  void write_deth(const Message& message, const SendEntry& entry, const wire::OpcodeRow& row,
                  std::uint8_t* at) const;
  bool is_reliable() const { return verbena::is_reliable(endpoint_.transport); }

  queue::Endpoint& endpoint_;
  const SendQueue& queue_;
  const SendPsns& psns_;
  const Window& window_;
  Source source_;
};

}  // namespace verbena::requester
