// SPDX-License-Identifier: BSD-2-Clause
// Messages to a tag-matching SRQ: which buffer they are for, and what their completion says.
//
//   +--------+------------------------+-------------------------------+
//   | opcode |    reserved (zero)     |      application context      |   TMH
//   +--------+------------------------+-------------------------------+
//   |                              tag                                |
//   +-----------------------------------------------------------------+
//   |             address of the data at the sender                   |   RVH, of a rendezvous
//   +---------------------------------+-------------------------------+
//   |             R_Key               |            length             |
//   +---------------------------------+-------------------------------+
#include "verbena/responder/responder.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::responder {

using queue::CompletionOpcode;

// Reads the header. True when a tagged buffer took the message; otherwise it goes to the plain
// queue, and `tagged_` says as what.
bool Responder::take_tagged(std::span<const std::uint8_t> payload) {
  tagged_ = Tagged::kNoTag;
  tag_ = tag_private_ = 0;
  if (payload.size() < kTagHeaderSize) return false;
  const auto opcode = static_cast<TagHeaderOpcode>(payload[0]);
  tag_private_ = wire::load_be32(payload.data() + 4);
  tag_ = wire::load_be64(payload.data() + 8);
  const bool rendezvous = opcode == TagHeaderOpcode::kRendezvous;
  if (opcode != TagHeaderOpcode::kEager && !rendezvous) return false;
  if (rendezvous) {
    if (payload.size() < kTagHeaderSize + kRendezvousHeaderSize) return false;
    const std::uint8_t* at = payload.data() + kTagHeaderSize;
    announced_ = {wire::load_be64(at), wire::load_be32(at + 8), wire::load_be32(at + 12)};
  }
  tagged_ = Tagged::kUnexpected;
  if (!endpoint_.srq->tags->match(tag_, *receive_)) return false;
  tagged_ = rendezvous ? Tagged::kRendezvous : Tagged::kEager;
  receive_active_ = true;
  arrived_ = 0;
  return true;
}

// The tag is told where a tagged buffer matched it; otherwise it is in the message, whose header
// stands in the plain buffer.
void Responder::finish_tagged(queue::Completion& c) {
  if (tagged_ == Tagged::kEager || tagged_ == Tagged::kRendezvous) {
    c.tag = tag_;
    c.tag_private = tag_private_;
  }
  switch (tagged_) {
    case Tagged::kNo:
      return;
    case Tagged::kNoTag:
      c.opcode = CompletionOpcode::kTagNoTag;
      return;
    case Tagged::kUnexpected:
      c.opcode = CompletionOpcode::kTagReceive;
      if (endpoint_.srq->tags->is_far_behind()) c.flags |= queue::kTagSyncRequest;
      return;
    case Tagged::kEager:
      c.opcode = CompletionOpcode::kTagReceive;
      c.flags |= queue::kTagMatched | queue::kTagDataValid;
      return;
    case Tagged::kRendezvous:
      c.opcode = CompletionOpcode::kTagReceive;
      c.flags |= queue::kTagMatched;
      c.byte_length = announced_.length;
      endpoint_.rendezvous.push_back(
          {*receive_, announced_.va, announced_.rkey, announced_.length, tag_, tag_private_});
      return;
  }
}

}  // namespace verbena::responder
