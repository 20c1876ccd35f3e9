// SPDX-License-Identifier: BSD-2-Clause
// The answers that the peer has not got yet, and their packets. They leave in the order of their
// PSNs: answers to READs wait in a line with those to atomics behind them; an acknowledgement never
// passes one of them, and a NAK comes last:
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
  // Memory that the answer to a READ needs has gone since the request was accepted.
  struct Gone {
    Psn psn;  // the packet that would have carried it
    memory::AccessRequest request;
    memory::Refusal refusal;
  };

  explicit Answers(queue::Endpoint& endpoint) : endpoint_(endpoint) {}

  // Sets how many READs and atomics of the peer may be outstanding (at least one).
  void allow(std::uint8_t max_dest_rd_atomic);
  // The peer has been told of `messages` messages.
  void note_told(std::uint32_t messages) { told_ = messages; }
  void reset();
  // For a queue pair that goes to its error state: only a pending NAK still goes out, and the
  // answers before it; or the acknowledgement of messages that were taken in, because their
  // sender must not be told that they failed.
  void flush(const Position& position);

  // --- what is pending ---
  // Returns whether a new request stays within what the peer was allowed to have outstanding.
  bool has_room_for_new() const { return line_.count_new() < saved_.most(); }
  // add() returns the answer to a new request, to be filled. add_saved() adds the answer to a
  // request that must not be carried out twice.
  Response& add(const wire::PacketView& packet, std::uint32_t message, memory::DomainId domain);
  void add_saved(const wire::PacketView& packet, std::uint32_t message, std::uint64_t original);
  // Returns the answer to a READ that came again, to be filled; null if it is under way, or if
  // there is no room.
  Response* repeat(Psn psn, std::uint32_t message);
  // Adds the answer to a request that came again, if its result was saved.
  void repeat_saved(const wire::PacketView& packet, std::uint32_t message);
  void set_ack_pending(bool urgent) {
    ack_pending_ = true;
    ack_urgent_ = ack_urgent_ || urgent;
  }
  [[gnu::cold]] void set_nak_pending(wire::Aeth aeth);
  // What the NAK asked for has come before it went out.
  void withdraw_nak() { nak_pending_ = false; }

  bool are_pending() const { return !line_.empty() || ack_pending_ || nak_pending_; }
  // Returns whether more is pending than an acknowledgement that may be held back.
  bool are_urgent() const { return !line_.empty() || nak_pending_ || ack_urgent_; }
  // Returns whether an acknowledgement may go by itself, and tells the peer something new.
  bool may_acknowledge(const Position& position) const {
    return line_.empty() && !nak_pending_ && (ack_pending_ || told_ != position.messages);
  }

  // --- their packets ---
  // Adds the acknowledgement to the batch if there is room.
  void acknowledge(const Position& position, wire::TxBatch& out);
  // Adds what is pending. Returns true if it has to be called again: the batch is full, or
  // something is `gone`.
  bool send(const Position& position, wire::TxBatch& out, std::optional<Gone>& gone);
  // The packet with this PSN did not leave, because the `length` bytes that it borrowed were gone.
  // Ends the line and returns what the packet needed; nothing if it is no answer of the last batch.
  [[gnu::cold]] std::optional<Gone> take_back(Psn psn, std::uint32_t length);

 private:
  enum class Emit : std::uint8_t { kSent, kBatchFull, kDropped };
  // The part of an answer that one packet carries.
  struct Piece {
    std::uint32_t psns;
    std::uint64_t offset;
    std::uint32_t length;
    std::uint8_t opcode;
  };
  // What is known about a packet's payload.
  struct Carried {
    memory::Pin pin;
    std::optional<std::uint32_t> sum;
    const std::uint8_t* borrowed = nullptr;
  };

  Emit emit(Response& response, wire::TxBatch& out, std::optional<Gone>& gone);
  Piece piece_of(const Response& response, std::uint64_t bytes) const;
  memory::AccessRequest request_for(const Response& response, std::uint64_t offset,
                                    std::uint32_t length) const {
    return {response.key, response.domain,     response.address + offset,
            length,       memory::kRemoteRead, endpoint_.number.value()};
  }
  std::optional<memory::Refusal> put_payload(const Response& response, const Piece& piece,
                                             const memory::AccessRequest& request, std::uint8_t* to,
                                             Carried& carried);
  void write_headers(const Response& response, const Piece& piece, std::uint8_t pad,
                     std::uint8_t* at) const;
  // Returns false if the batch is full.
  bool emit_aeth(wire::Aeth aeth, Psn psn, std::uint32_t messages, wire::TxBatch& out);
  bool emit_ack(const Position& position, wire::TxBatch& out);
  std::uint8_t credits() const;
  std::uint8_t opcode_of(wire::Operation operation, wire::Place place) const;

  queue::Endpoint& endpoint_;
  ResponseLine line_;
  SavedResults saved_;
  std::uint32_t told_ = 0;  // messages that the last acknowledgement reported
  wire::Aeth nak_;
  // These are bits of one word, so that one test reads several of them.
  bool nak_pending_ : 1 = false;
  bool ack_pending_ : 1 = false;
  bool ack_urgent_ : 1 = false;
};

}  // namespace verbena::responder
