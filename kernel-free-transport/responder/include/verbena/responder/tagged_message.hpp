// SPDX-License-Identifier: BSD-2-Clause
// A message to a tag-matching SRQ: which buffer it is for, and what its completion says.
//
//   +--------+------------------------+-------------------------------+
//   | opcode |    reserved (zero)     |      application context      |   TMH
//   +--------+------------------------+-------------------------------+
//   |                              tag                                |
//   +-----------------------------------------------------------------+
//   |             address of the data at the sender                   |   RVH, in a rendezvous
//   +---------------------------------+-------------------------------+
//   |             R_Key               |            length             |
//   +---------------------------------+-------------------------------+
//
// Part of a responder.
#pragma once

#include <cstdint>
#include <span>

#include "verbena/queue/endpoint.hpp"
#include "verbena/queue/payload.hpp"
#include "verbena/wire/reth.hpp"

namespace verbena::responder {

// The header that opens every message to a tag-matching SRQ, and the rendezvous header behind it
// (infiniband/tm_types.h).
inline constexpr std::size_t kTagHeaderSize = 16;
inline constexpr std::size_t kRendezvousHeaderSize = 16;
enum class TagHeaderOpcode : std::uint8_t {
  kNoTag = 0,
  kRendezvous = 1,
  kFinished = 2,
  kEager = 3
};

class TaggedMessage {
 public:
  // Makes this a plain message, which is not for a tag-matching SRQ.
  void clear() { kind_ = Kind::kPlain; }
  bool is_plain() const { return kind_ == Kind::kPlain; }
  // Returns whether a tagged buffer took the message.
  bool is_matched() const { return kind_ == Kind::kEager || kind_ == Kind::kRendezvous; }

  // Reads the header. Returns true if a tagged buffer takes the message: the buffer moves into
  // `receive`. Otherwise the message goes to the plain queue.
  bool match(std::span<const std::uint8_t> start, queue::TagMatching& tags,
             queue::ActiveReceive& receive);
  // Undoes the count of an unexpected message, because there is no plain receive either.
  void take_back(queue::TagMatching& tags) const;
  // Removes from a packet's payload what the buffer does not get.
  void strip(queue::Payload& payload, bool is_first) const;
  // Says in the completion what became of the message. Hands a rendezvous on: its data is fetched
  // from the peer.
  void finish(queue::Completion& completion, const queue::ActiveReceive& receive,
              queue::Endpoint& endpoint) const;

 private:
  enum class Kind : std::uint8_t { kPlain, kNoTag, kUnexpected, kEager, kRendezvous };

  Kind kind_ = Kind::kPlain;
  std::uint64_t tag_ = 0;
  std::uint32_t context_ = 0;
  wire::Reth announced_;  // what a rendezvous message announced
};

}  // namespace verbena::responder
