// SPDX-License-Identifier: BSD-2-Clause
// What the peer has not been told yet, and its packets. They leave in the order of their PSNs:
// READs wait in a line with the atomics behind them; an acknowledgement never passes one of them,
// and a NAK comes last:
//
//    line of responses (READ data, atomic results)  →  ACK of everything before ePSN  →  NAK
//
// Part of a responder.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/result.hpp"
#include "verbena/memory/registry.hpp"
#include "verbena/queue/endpoint.hpp"
#include "verbena/responder/response_line.hpp"
#include "verbena/responder/saved_results.hpp"
#include "verbena/wire/aeth.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::responder {

// How far the peer's requests have been carried out.
struct Position {
  Psn expected;                // ePSN
  std::uint32_t messages = 0;  // MSN
};

class Answers {
 public:
  // Memory that a READ's answer is made of has gone meanwhile.
  struct Gone {
    Psn psn;  // of the packet that would have had it
    memory::AccessRequest request;
    memory::Refusal refusal;
  };

  explicit Answers(queue::Endpoint& endpoint) : endpoint_(endpoint) {}

  // So many READs and atomics of the peer may be outstanding (at least one). Forgets what was
  // saved.
  void allow(std::uint8_t max_dest_rd_atomic);
  // The peer has been told of so many messages.
  void note_told(std::uint32_t messages) { told_ = messages; }
  void reset();
  // The queue pair goes to its error state: a pending NAK goes out, and what is before it.
  void flush();

  // --- what is pending ---
  // For a new request: what the peer was allowed to have outstanding.
  bool has_room_for_new() const { return line_.count_new() < saved_.most(); }
  // What answers a new request, to be filled; and one that is not carried out twice.
  Response& add(const wire::PacketView& packet, std::uint32_t message, memory::DomainId domain);
  void add_saved(const wire::PacketView& packet, std::uint32_t message, std::uint64_t original);
  // The answer to a READ that came again, to be filled; null: it is under way, or there is no room.
  Response* repeat(Psn psn, std::uint32_t message);
  // The same of a request whose result was saved, if it was.
  void repeat_saved(const wire::PacketView& packet, std::uint32_t message);
  void set_ack_pending(bool urgent) {
    ack_pending_ = true;
    ack_urgent_ = ack_urgent_ || urgent;
  }
  [[gnu::cold]] void set_nak_pending(wire::Aeth aeth);

  bool are_pending() const { return !line_.empty() || ack_pending_ || nak_pending_; }
  // More than an acknowledgement that may wait for company.
  bool are_urgent() const { return !line_.empty() || nak_pending_ || ack_urgent_; }
  // Whether an acknowledgement may go by itself, and tells the peer something.
  bool may_acknowledge(const Position& position) const {
    return line_.empty() && !nak_pending_ && (ack_pending_ || told_ != position.messages);
  }

  // --- their packets ---
  // It goes now, if there is room.
  void acknowledge(const Position& position, wire::TxBatch& out);
  // True: the batch is full, or something is `gone`, and this is to be called again.
  bool send(const Position& position, wire::TxBatch& out, std::optional<Gone>& gone);

 private:
  enum class Emit : std::uint8_t { kSent, kBatchFull, kDropped };
  // What one packet brings of an answer.
  struct Piece {
    std::uint32_t psns;
    std::uint64_t offset;
    std::uint32_t length;
    std::uint8_t opcode;
  };
  // What is known of a packet's payload.
  struct Carried {
    memory::Pin pin;
    std::optional<std::uint32_t> sum;
    const std::uint8_t* borrowed = nullptr;
  };

  Emit emit(Response& response, wire::TxBatch& out, std::optional<Gone>& gone);
  Piece piece_of(const Response& response, std::uint64_t bytes) const;
  std::optional<memory::Refusal> put_payload(const Response& response, const Piece& piece,
                                             const memory::AccessRequest& request, std::uint8_t* to,
                                             Carried& carried);
  void write_headers(const Response& response, const Piece& piece, std::uint8_t pad,
                     std::uint8_t* at) const;
  // False: the batch is full.
  bool emit_aeth(wire::Aeth aeth, Psn psn, std::uint32_t messages, wire::TxBatch& out);
  bool emit_ack(const Position& position, wire::TxBatch& out);
  std::uint8_t credits() const;
  std::uint8_t opcode_of(wire::Operation operation, wire::Place place) const;

  queue::Endpoint& endpoint_;
  ResponseLine line_;
  SavedResults saved_;
  std::uint32_t told_ = 0;  // messages, by the last acknowledgement
  wire::Aeth nak_;
  // Bits of one word, so that several are asked for at once.
  bool nak_pending_ : 1 = false;
  bool ack_pending_ : 1 = false;
  bool ack_urgent_ : 1 = false;
};

}  // namespace verbena::responder
