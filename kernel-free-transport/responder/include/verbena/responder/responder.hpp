// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a queue pair (IBTA Vol 1, 9.7.4 and 9.8): checks requests in the
// specification's order, carries them out, and answers. Owned by the queue pair and called
// under its lock. `handle_request` never sends; what is pending leaves by `poll_transmit`, so that
// several packets that arrive together are acknowledged once (answers.hpp).
//
// responder.cpp says which request is carried out now, requests.cpp what that does.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/queue/endpoint.hpp"
#include "verbena/responder/answers.hpp"
#include "verbena/responder/psn_mismatch.hpp"
#include "verbena/responder/receive_in_use.hpp"
#include "verbena/wire/early_packets.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::responder {

struct ResponderAttributes {
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint32_t xrc_domain = 0;
};

// The longest message (max_msg_sz).
inline constexpr std::uint32_t kMessageMax = 1u << 30;

class Responder {
 public:
  explicit Responder(queue::Endpoint& endpoint);

  void start(Psn expected);  // RTR
  // Continues behind requests that other processes have carried out.
  void resume_at(Psn expected, std::uint32_t message_count);
  bool is_in_message() const { return message_ != Message::kNone; }
  // Called before the queue pair goes: the receive in use will not complete.
  void give_up_receive() { receive_.give_up(); }
  // `resize`: max_dest_rd_atomic has changed, so what was saved for repetition is forgotten.
  void set_attributes(const ResponderAttributes& attributes, bool resize = true);
  void reset();
  // Completes the receive in use as flushed, and the posted receives as well if their queue is not
  // shared.
  void flush();

  // An XRC SRQ is about to be destroyed.
  void forget(const queue::SharedReceive* shared);

  // Handles a request. Reports failures through the endpoint.
  void handle_request(const wire::PacketView& packet, const wire::RxDatagram& datagram);
  // Returns true if there is more than the batch could take.
  bool poll_transmit(wire::TxBatch& out);
  // A packet of the answer to a READ did not leave, because its payload of this length was gone
  // when it was to be copied.
  [[gnu::cold]] void note_gone(Psn psn, std::uint32_t length);
  // Returns whether an acknowledgement may go in front of a request. A program that answers a
  // message acknowledges it then, even if its sender did not request that: an adapter has done so
  // by that time.
  bool may_acknowledge() const { return answers_.may_acknowledge(position_); }
  // Adds the acknowledgement to the batch if there is room.
  void acknowledge(wire::TxBatch& out) { answers_.acknowledge(position_, out); }
  bool has_pending_answers() const { return answers_.are_pending(); }
  // Returns whether more is pending than an acknowledgement that may be held back.
  bool has_urgent_answers() const { return answers_.are_urgent(); }

  Psn expected_psn() const { return position_.expected; }
  std::uint32_t message_count() const { return position_.messages; }
  const ResponderAttributes& attributes() const { return attributes_; }

 private:
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  // responder.cpp: RC and XRC
  void handle_reliable(const wire::PacketView& packet);
  void handle_in_sequence(const wire::PacketView& packet);
  void handle_early(const wire::PacketView& packet);
  void catch_up_with_early();
  // `is_all`: every packet behind the gap is kept.
  void report_gap(bool is_all);
  void forget_early();
  void handle_duplicate(const wire::PacketView& packet);
  void repeat_read(const wire::PacketView& packet);
  // UC
  void handle_uc(const wire::PacketView& packet);
  [[gnu::cold]] void drop_message(DropReason reason);

  [[gnu::cold]] void note_foreign_psn(Psn psn);
  [[gnu::cold]] void refuse_as_marked(std::uint8_t mark);
  // Checks that return true if the packet is in order, has a right length, is for an SRQ that
  // exists.
  bool continues_message(const wire::OpcodeRow& row) const;
  bool has_right_length(const wire::PacketView& packet) const;
  [[gnu::cold]] ShortText words_on_length(const wire::PacketView& packet) const;
  bool is_well_formed(const wire::PacketView& packet);
  bool find_shared(const wire::PacketView& packet);

  // requests.cpp: each returns true when the packet was carried out; otherwise a NAK is pending.
  bool execute(const wire::PacketView& packet);
  bool execute_send(const wire::PacketView& packet);
  bool execute_write(const wire::PacketView& packet);
  bool execute_read(const wire::PacketView& packet);
  bool execute_atomic(const wire::PacketView& packet);
  bool execute_atomic_write(const wire::PacketView& packet);
  bool execute_flush(const wire::PacketView& packet);
  // UC: both return false if the packet was dropped, or the receive has failed.
  bool execute_uc_send(const wire::PacketView& packet);
  bool execute_uc_write(const wire::PacketView& packet);
  [[gnu::cold]] bool drop_unreceived();
  [[gnu::cold]] bool drop_write(const memory::AccessRequest& request,
                                std::optional<memory::Refusal> refusal);
  // Returns false if the completion queue was full. The request is refused then.
  bool complete_receive(const wire::PacketView& packet, queue::CompletionOpcode opcode,
                        std::uint64_t length);
  bool invalidate(std::uint32_t key);
  // Returns whether the queue pair allows all of these.
  bool may_access(std::uint32_t flags, const char* what);
  bool may_add_answer() const {
    return attributes_.max_dest_rd_atomic != 0 && answers_.has_room_for_new();
  }
  memory::AccessRequest request_for(std::uint32_t key, std::uint64_t address, std::uint64_t length,
                                    std::uint32_t access) const {
    return {key, receive_.remote_domain(), address, length, access, endpoint_.number.value()};
  }
  std::uint32_t packets_of(std::uint32_t length) const {
    return length <= endpoint_.mtu ? 1 : (length + endpoint_.mtu - 1) / endpoint_.mtu;
  }

  // Always returns false, so that a check may end with it.
  [[gnu::cold]] bool refuse(wire::NakCode code, std::optional<queue::AsyncEvent> event,
                            const char* why);
  [[gnu::cold]] bool refuse_request(const char* why) {
    return refuse(wire::NakCode::kInvalidRequest, queue::AsyncEvent::kQpRequestError, why);
  }
  // Refuses access to memory that the peer may not reach in this way.
  [[gnu::cold]] bool refuse_access(const char* what, const memory::AccessRequest& request,
                                   memory::Refusal refusal);
  [[gnu::cold]] void refuse_gone(const Answers::Gone& gone);
  [[gnu::cold]] bool refuse_one_more();
  [[gnu::cold]] bool refuse_not_ready();

  queue::Endpoint& endpoint_;
  ResponderAttributes attributes_;
  Position position_;
  Psn first_;  // the first PSN of this life

  Message message_ = Message::kNone;  // the kind of message that is arriving
  wire::Reth write_;                  // where a WRITE goes
  std::uint64_t written_ = 0;         // bytes of a WRITE so far
  ReceiveInUse receive_;
  Answers answers_;

  wire::EarlyPackets early_;  // packets behind a gap at the expected PSN
  PsnMismatch mismatch_;
  bool gap_reported_ : 1 = false;       // a sequence NAK went out for the expected PSN
  bool is_gap_all_ : 1 = false;         // all packets behind that gap are kept
  bool early_ack_request_ : 1 = false;  // an early packet requests an acknowledgement
  bool not_ready_ : 1 = false;          // an RNR NAK went out for the expected PSN
  bool dead_ : 1 = false;               // a fatal NAK went out: nothing is answered any more
};

}  // namespace verbena::responder
