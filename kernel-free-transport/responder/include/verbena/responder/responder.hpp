// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a queue pair (IBTA Vol 1, 9.7.4 and 9.8): checks requests in the
// specification's order, carries them out, and answers. Owned by the queue pair and called
// under its lock. `handle_request` never sends; what is pending leaves by `poll_transmit`, so that
// several packets that arrive together are acknowledged once.
//
// Answers leave in the order of their PSNs. READs wait in a line with the atomics behind them; an
// acknowledgement never passes one of them, and a NAK comes last:
//
//    line of responses (READ data, atomic results)  →  ACK of everything before ePSN  →  NAK
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/queue/endpoint.hpp"
#include "verbena/queue/payload.hpp"
#include "verbena/wire/early_packets.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::responder {

struct ResponderAttributes {
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint32_t xrc_domain = 0;
};

// The header that opens every message to a tag-matching SRQ, and that of a rendezvous behind it
// (infiniband/tm_types.h).
inline constexpr std::size_t kTagHeaderSize = 16;
inline constexpr std::size_t kRendezvousHeaderSize = 16;
enum class TagHeaderOpcode : std::uint8_t {
  kNoTag = 0,
  kRendezvous = 1,
  kFinished = 2,
  kEager = 3
};

// The longest message (max_msg_sz).
inline constexpr std::uint32_t kMessageMax = 1u << 30;

class Responder {
 public:
  explicit Responder(queue::Endpoint& endpoint);

  void start(Psn expected);  // RTR
  // Goes on behind requests that others have carried out.
  void resume_at(Psn expected, std::uint32_t message_count);
  bool is_in_message() const { return message_ != Message::kNone; }
  // Before the queue pair goes: the receive in use will not complete.
  void give_up_receive();
  // `resize`: max_dest_rd_atomic changed; what was saved for repetition is forgotten.
  void set_attributes(const ResponderAttributes& attributes, bool resize = true);
  void reset();
  // The receive in use and, unless they are shared, the posted ones complete as flushed.
  void flush();

  // An XRC SRQ is about to be destroyed.
  void forget(const queue::SharedReceive* shared);

  // Requests only. Reports failures through the endpoint.
  void handle_request(const wire::PacketView& packet, const wire::RxDatagram& datagram);
  // True: there is more than the batch could take.
  bool poll_transmit(wire::TxBatch& out);
  // Whether an acknowledgement may go before a request: who answers a message acknowledges it then,
  // also if its sender did not request it, as an adapter has by that time.
  bool may_acknowledge() const { return responses_.empty() && !nak_pending_ && has_news(); }
  // It goes now, if there is room.
  void acknowledge(wire::TxBatch& out);
  bool has_pending_answers() const { return !responses_.empty() || ack_pending_ || nak_pending_; }
  // More than an acknowledgement that may wait for company.
  bool has_urgent_answers() const { return !responses_.empty() || nak_pending_ || ack_urgent_; }

  Psn expected_psn() const { return expected_; }
  std::uint32_t message_count() const { return message_count_; }
  const ResponderAttributes& attributes() const { return attributes_; }

 private:
  // A READ under way, or an atomic (or flush) answered by one packet.
  struct Response {
    Psn first;
    std::uint32_t packets = 1;
    std::uint32_t sent = 0;  // packets already gone
    wire::Operation operation = wire::Operation::kReadRequest;
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint64_t original = 0;  // atomics
    std::uint32_t message = 0;
    memory::DomainId domain = 0;
    bool repeated = false;  // asked for again: does not count against the limit
  };
  struct SavedAtomic {
    Psn psn;
    std::uint64_t original = 0;
    wire::Operation operation = wire::Operation::kFetchAdd;
    bool valid = false;
  };
  // A small line with a fixed bound, allocated at RTR.
  class ResponseLine {
   public:
    void reserve(std::size_t bound) { items_.reserve(bound); }
    bool empty() const { return items_.empty(); }  // whoever takes the last one clears
    std::size_t size() const { return items_.size() - begin_; }
    std::size_t count_new() const;
    Response& front() { return items_[begin_]; }
    // One more, to be filled where it stays.
    Response& push() {
      if (begin_ != 0 && items_.size() == items_.capacity()) compact();
      return items_.emplace_back();
    }
    void pop() {
      if (++begin_ == items_.size()) clear();
    }
    // The peer asks again from `psn` on: forgets what answers that or later. True if the answer to
    // `psn` is still on its way out and need not be queued again.
    bool truncate(Psn psn);
    void clear() {
      items_.clear();
      begin_ = 0;
    }

   private:
    void compact();
    std::vector<Response> items_;
    std::size_t begin_ = 0;
  };
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  // reliable.cpp
  void handle_reliable(const wire::PacketView& packet);
  void handle_in_sequence(const wire::PacketView& packet);
  void handle_early(const wire::PacketView& packet);
  void catch_up_with_early();
  void report_gap();
  void forget_early();
  void handle_duplicate(const wire::PacketView& packet);
  // What came is not what is expected, as nothing so far was.
  [[gnu::cold]] void note_foreign_psn(Psn psn);
  [[gnu::cold]] void refuse_as_marked(std::uint8_t mark);
  void repeat_read(const wire::PacketView& packet);
  void repeat_atomic(const wire::PacketView& packet);
  std::optional<wire::NakCode> check_order(const wire::PacketView& packet) const;
  std::optional<wire::NakCode> check_length(const wire::PacketView& packet) const;

  // execute.cpp: each returns true when the packet was carried out; otherwise a NAK is pending.
  bool execute(const wire::PacketView& packet);
  bool execute_send(const wire::PacketView& packet);
  bool execute_write(const wire::PacketView& packet);
  Response& answer(const wire::PacketView& packet);
  void answer_and_save(const wire::PacketView& packet, std::uint64_t original);
  bool execute_read(const wire::PacketView& packet);
  bool execute_atomic(const wire::PacketView& packet);
  bool execute_atomic_write(const wire::PacketView& packet);
  bool execute_flush(const wire::PacketView& packet);
  bool take_receive(const wire::PacketView& packet, std::span<const std::uint8_t> start);
  // Of an RDMA WRITE with immediate data.
  bool take_receive_of_write(const wire::PacketView& packet);
  void complete_receive_of_write(const wire::PacketView& packet);
  bool take_tagged(std::span<const std::uint8_t> payload);
  void finish_tagged(queue::Completion& completion);
  // False: the receive has failed, and the queue pair with it.
  bool fill_receive(const queue::Payload& payload);
  // Into one of none or several buffers.
  bool fill_list(const queue::Payload& payload);
  bool fill_part(const queue::Sge& sge, std::uint64_t offset, const queue::Payload& payload,
                 std::size_t from, std::size_t length);
  [[gnu::cold]] bool outgrow_receive(std::size_t more);
  [[gnu::cold]] bool spoil_receive(const memory::AccessRequest& request, memory::Refusal refusal);
  bool invalidate(std::uint32_t key);
  void complete_receive(const wire::PacketView& packet, queue::CompletionOpcode opcode,
                        std::uint32_t length);
  [[gnu::cold]] void fail_receive(queue::Status status, const char* why);
  bool may_access(std::uint32_t flag, const char* what);
  // For a new request: what the peer was allowed to have outstanding. A repeated one may find its
  // first answer, or answers to what came after, still in line: twice as many in all.
  bool room_for_new() const;
  [[gnu::cold]] bool refuse_one_more();
  bool room_for_repeated() const;
  memory::DomainId receive_domain() const;
  memory::DomainId remote_domain() const;
  queue::CompletionQueue* receive_cq() const;
  // Of the receive in use: its completion frees its slot.
  void note_slot(queue::Completion& completion) const;

  // answer.cpp
  bool has_news() const { return ack_pending_ || told_count_ != message_count_; }
  void set_ack_pending(bool urgent);
  [[gnu::cold]] void set_nak_pending(wire::Aeth aeth);
  [[gnu::cold]] bool refuse(wire::NakCode code, std::optional<queue::AsyncEvent> event,
                            const char* why);
  // Memory that the peer may not reach so.
  [[gnu::cold]] bool refuse_access(const char* what, const memory::AccessRequest& request,
                                   memory::Refusal refusal);
  enum class Emit : std::uint8_t { kSent, kBatchFull, kDropped };
  Emit emit(Response& response, wire::TxBatch& out);
  // What one packet brings of an answer.
  struct Piece {
    std::uint32_t psns;
    std::uint64_t offset;
    std::uint32_t length;
    std::uint8_t opcode;
  };
  Piece piece_of(const Response& response, std::uint64_t bytes) const;
  memory::AccessRequest request_of(const Response& response, const Piece& piece) const;
  Result<memory::Pin, memory::Refusal> pin(const Response& response, const Piece& piece) const;
  [[gnu::cold]] Emit drop_read(const Response& response, const Piece& piece,
                               memory::Refusal refusal);
  void write_headers(const Response& response, const Piece& piece, std::uint8_t pad,
                     std::uint8_t* at) const;
  void sent(Response& response, const Piece& piece);
  // False: the batch is full.
  bool emit_aeth_packet(wire::Aeth aeth, Psn psn, wire::TxBatch& out);
  bool emit_ack(wire::TxBatch& out);
  std::uint8_t credits() const;
  std::uint8_t response_opcode(wire::Operation operation, wire::Place place) const;

  // unreliable.cpp
  void handle_unconnected(const wire::PacketView& packet, const wire::RxDatagram& datagram);
  void handle_uc(const wire::PacketView& packet);
  [[gnu::cold]] void drop_write(const memory::AccessRequest& request,
                                std::optional<memory::Refusal> refusal);
  void handle_ud(const wire::PacketView& packet, const wire::RxDatagram& datagram);

  queue::Endpoint& endpoint_;
  ResponderAttributes attributes_;
  Psn expected_;
  std::uint32_t message_count_ = 0;  // MSN
  std::uint32_t told_count_ = 0;     // in the last acknowledgement

  Message message_ = Message::kNone;        // the one that is arriving
  std::uint64_t arrived_ = 0;               // its bytes so far
  wire::Reth write_;                        // where it goes, for a WRITE
  queue::SharedReceive* shared_ = nullptr;  // XRC: the queue it is for

  // What a message to a tag-matching SRQ turned out to be.
  enum class Tagged : std::uint8_t { kNo, kNoTag, kUnexpected, kEager, kRendezvous };
  Tagged tagged_ = Tagged::kNo;
  std::uint64_t tag_ = 0;
  std::uint32_t tag_private_ = 0;
  wire::Reth announced_;  // by a rendezvous message
  bool receive_active_ = false;
  std::unique_ptr<queue::ActiveReceive> receive_;  // made when the first message arrives

  wire::EarlyPackets early_;  // behind a gap at expected_

  ResponseLine responses_;
  std::vector<SavedAtomic> saved_;  // a ring of max_dest_rd_atomic
  std::size_t saved_next_ = 0;

  Psn foreign_psn_;                // the last one that was not expected, before any that was
  std::uint8_t foreign_psns_ = 0;  // how often it came

  wire::Aeth nak_;
  // Bits of one word, so that several are asked for and changed at once.
  bool nak_pending_ : 1 = false;
  bool ack_pending_ : 1 = false;
  bool ack_urgent_ : 1 = false;
  bool gap_reported_ : 1 = false;       // a sequence NAK went out for expected_
  bool early_ack_request_ : 1 = false;  // of one of the early packets
  bool not_ready_ : 1 = false;          // an RNR NAK went out for expected_
  bool dead_ : 1 = false;               // a fatal NAK went out: silence
  bool is_in_step_ : 1 = false;         // something expected has come since RTR
};

}  // namespace verbena::responder
