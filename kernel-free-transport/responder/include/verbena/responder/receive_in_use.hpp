// SPDX-License-Identifier: BSD-2-Clause
// The receive that a message fills: taken from a queue of receives, filled packet by packet,
// completed once.
//
//   take -> fill ... -> complete
//             |            (or flush, or given up)
//             +-> failed: completed with an error
//
// Part of a responder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "verbena/base/short_text.hpp"
#include "verbena/queue/endpoint.hpp"
#include "verbena/queue/payload.hpp"
#include "verbena/responder/tagged_message.hpp"
#include "verbena/wire/aeth.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::responder {

// The sender that a receive's completion names.
struct Sender {
  Qpn qpn;
  std::uint16_t lid = 0;
  std::uint8_t service_level = 0;
  bool has_grh = false;  // the receive begins with a GRH
};

class ReceiveInUse {
 public:
  // Why a receive has failed, and the NAK for a peer that waits for an answer.
  struct Failed {
    wire::NakCode code;
    ShortText why;
  };

  explicit ReceiveInUse(queue::Endpoint& endpoint) : endpoint_(endpoint) {}

  // XRC: sets the SRQ that the messages from now on are for; null: the queue pair's own queue.
  void lead_to(queue::SharedReceive* shared) { shared_ = shared; }
  // The SRQ is about to be destroyed. Returns false if the messages are for another one.
  bool forget(const queue::SharedReceive* shared);

  bool is_active() const { return is_active_; }
  std::uint64_t filled() const { return filled_; }
  std::uint64_t capacity() const { return receive_->capacity; }
  std::uint64_t id() const { return receive_->id; }
  // The domain of the memory that a request names (XRC: the SRQ's).
  memory::DomainId remote_domain() const {
    return shared_ != nullptr ? shared_->domain : endpoint_.domain;
  }

  // Takes a receive for a message that begins (or, for a WRITE, ends) with this packet, and whose
  // data begins with `start`. Returns false if there is no receive.
  bool take(const wire::PacketView& packet, std::span<const std::uint8_t> start);
  // Another message takes the place of one that was not completed.
  void begin_anew() { filled_ = 0; }
  // Appends the packet's data, less the headers of a tagged message. Returns false if the receive
  // has failed, and was completed with that error. (`failed` is a reference because it is large,
  // and each packet comes this way.)
  bool fill(const wire::PacketView& packet, std::optional<Failed>& failed);
  bool append(const queue::Payload& payload, std::optional<Failed>& failed);
  // Returns false if the completion queue was full.
  bool complete(const wire::PacketView& packet, queue::CompletionOpcode opcode,
                std::uint32_t length, const Sender& sender);
  [[gnu::cold]] void fail(queue::Status status, const char* why);

  // Completes the receive in use as flushed, and the posted receives as well if their queue is not
  // shared.
  void flush();
  // Gives the receive up: it will not complete.
  void give_up();

 private:
  bool append_to_list(const queue::Payload& payload, std::optional<Failed>& failed);
  bool put(const queue::Sge& sge, std::uint64_t offset, const queue::Payload& payload,
           std::size_t from, std::size_t length, std::optional<Failed>& failed);
  // Both return false.
  [[gnu::cold]] bool outgrow(std::size_t more, std::optional<Failed>& failed);
  [[gnu::cold]] bool spoil(const memory::AccessRequest& request, memory::Refusal refusal,
                           std::optional<Failed>& failed);
  // The SRQ that the receive is from; null if it is from the queue pair's own queue.
  const queue::SharedReceive* srq() const { return shared_ != nullptr ? shared_ : endpoint_.srq; }
  queue::ReceiveQueue* receives() const {
    return shared_ != nullptr ? &shared_->queue : endpoint_.receives;
  }
  queue::CompletionQueue* completion_queue() const;
  void flush_one(std::uint64_t id);
  // Makes the completion free the receive's slot.
  void note_slot(queue::Completion& completion) const;

  queue::Endpoint& endpoint_;
  queue::SharedReceive* shared_ = nullptr;
  std::unique_ptr<queue::ActiveReceive> receive_;  // made when the first message arrives
  std::uint64_t filled_ = 0;                       // bytes
  bool is_active_ = false;
  TaggedMessage tagged_;
};

}  // namespace verbena::responder
