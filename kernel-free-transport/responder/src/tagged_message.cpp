// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/responder/tagged_message.hpp"

#include "verbena/wire/bytes.hpp"

namespace verbena::responder {

using queue::CompletionOpcode;

bool TaggedMessage::match(std::span<const std::uint8_t> start, queue::TagMatching& tags,
                          queue::ActiveReceive& receive) {
  kind_ = Kind::kNoTag;
  if (start.size() < kTagHeaderSize) return false;
  const auto opcode = static_cast<TagHeaderOpcode>(start[0]);
  context_ = wire::load_be32(start.data() + 4);
  tag_ = wire::load_be64(start.data() + 8);
  const bool rendezvous = opcode == TagHeaderOpcode::kRendezvous;
  if (opcode != TagHeaderOpcode::kEager && !rendezvous) return false;
  if (rendezvous) {
    if (start.size() < kTagHeaderSize + kRendezvousHeaderSize) return false;
    const std::uint8_t* at = start.data() + kTagHeaderSize;
    announced_ = {wire::load_be64(at), wire::load_be32(at + 8), wire::load_be32(at + 12)};
  }
  kind_ = Kind::kUnexpected;
  if (!tags.match(tag_, receive)) return false;
  kind_ = rendezvous ? Kind::kRendezvous : Kind::kEager;
  return true;
}

void TaggedMessage::take_back(queue::TagMatching& tags) const {
  if (kind_ == Kind::kUnexpected) tags.take_back_unexpected();
}

void TaggedMessage::strip(queue::Payload& payload, bool is_first) const {
  if (kind_ == Kind::kRendezvous) payload = queue::Payload(std::span<const std::uint8_t>());
  if (kind_ == Kind::kEager && is_first) payload.skip(kTagHeaderSize);
}

// The completion tells the tag if a tagged buffer matched it. Otherwise the program finds the tag
// in the message, whose header stands in the plain buffer.
void TaggedMessage::finish(queue::Completion& c, const queue::ActiveReceive& receive,
                           queue::Endpoint& endpoint) const {
  if (is_matched()) {
    c.tag = tag_;
    c.tag_private = context_;
  }
  switch (kind_) {
    case Kind::kPlain:
      return;
    case Kind::kNoTag:
      c.opcode = CompletionOpcode::kTagNoTag;
      return;
    case Kind::kUnexpected:
      c.opcode = CompletionOpcode::kTagReceive;
      if (endpoint.srq->tags->is_far_behind()) c.flags |= queue::kTagSyncRequest;
      return;
    case Kind::kEager:
      c.opcode = CompletionOpcode::kTagReceive;
      c.flags |= queue::kTagMatched | queue::kTagDataValid;
      return;
    case Kind::kRendezvous:
      c.opcode = CompletionOpcode::kTagReceive;
      c.flags |= queue::kTagMatched;
      c.byte_length = announced_.length;
      endpoint.rendezvous.push_back(
          {receive, announced_.va, announced_.rkey, announced_.length, tag_, context_});
      return;
  }
}

}  // namespace verbena::responder
