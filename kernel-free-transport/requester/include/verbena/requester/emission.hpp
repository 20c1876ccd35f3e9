// SPDX-License-Identifier: BSD-2-Clause
// From a request to the packets of a batch: what each looks like, where its payload comes from, and
// for how many it stands (wire/datagram.hpp says in which forms packets travel).
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
  // A request as its packets see it, worked out once for those that go together.
  struct Message {
    std::uint32_t position = 0;
    const std::uint8_t* opcodes = nullptr;  // by place
    bool wants_response = false;
    std::uint32_t merged_most = 0;        // bytes of one packet, if it may stand for several; or 0
    bool sums = false;                    // packets get their checksum with the copy
    bool is_bundled = false;              // and go at once, whatever their lengths
    const std::uint8_t* bytes = nullptr;  // all data, if it is one piece of plain memory
    bool is_borrowed = false;             // these, by packets until they are sent
    const wire::Destination* to = nullptr;
    std::optional<std::uint32_t> destination;  // its place in the batch
    std::size_t word_bytes = 0;                // UD: of a GRH's first word, which a datagram brings
  };

  // What it looks at is its requester's, too.
  Emission(queue::Endpoint& endpoint, const SendQueue& queue, const SendPsns& psns,
           const Window& window)
      : endpoint_(endpoint), queue_(queue), psns_(psns), window_(window) {}

  // Of the request in that place. `is_followed`: others wait behind it.
  Message message_at(std::uint32_t position, bool is_followed, wire::TxBatch& out);
  // For how many PSNs one packet stands from this one on.
  std::uint32_t psns_at(const Message& message, Psn psn) const;
  // Adds the packet of a message that begins with this PSN and takes so many. Why it is refused has
  // been told.
  Result emit(Message& message, Psn psn, std::uint32_t psns, wire::TxBatch& out, bool ack_request);
  // The batch is complete: what is borrowed stays pinned as long as the batch has it.
  void release(wire::TxBatch& out);

 private:
  // Memory that is sent from, while it is polled.
  struct Source {
    queue::Sge sge;
    memory::Pin pin;
    bool is_borrowed = false;  // by packets of the batch
  };
  // What one packet brings of a message, in bytes, and what the packet is called for it.
  struct Extent {
    std::uint64_t offset;
    std::uint32_t length;
    bool is_last;  // of a message's data
    std::uint8_t opcode;
  };
  // What is known of a packet's payload.
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
