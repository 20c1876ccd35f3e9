// SPDX-License-Identifier: BSD-2-Clause
// Why requests fail, in words: which one, with what values, and what to look at.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/peer_report.hpp"
#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_queue.hpp"
#include "verbena/wire/aeth.hpp"

namespace verbena::requester {

// Says why the buffers of the request at `position` cannot be read.
[[gnu::cold]] void explain_buffers(queue::Endpoint& endpoint, const SendQueue& queue,
                                   std::uint32_t position, memory::Refusal refusal);
[[gnu::cold]] void explain_bind(queue::Endpoint& endpoint, const SendEntry& entry, const Rare& rare,
                                memory::Refusal refusal);
[[gnu::cold]] void explain_invalidate(queue::Endpoint& endpoint, const SendEntry& entry,
                                      memory::Refusal refusal);
// The next three are about the oldest request.
[[gnu::cold]] void explain_nak(queue::Endpoint& endpoint, const SendQueue& queue,
                               wire::NakCode code);
[[gnu::cold]] void explain_rnr(queue::Endpoint& endpoint, const SendQueue& queue,
                               std::uint8_t retries);
[[gnu::cold]] void explain_endless_rnr(const queue::Endpoint& endpoint, const SendQueue& queue);
// Returns whether it is known why the peer does not answer.
[[gnu::cold]] bool has_cause(const queue::Endpoint& endpoint, const PeerReport& peer);
[[gnu::cold]] void explain_endless_silence(const queue::Endpoint& endpoint, Psn missing,
                                           const PeerReport& peer);
[[gnu::cold]] void explain_gap(queue::Endpoint& endpoint, Psn missing, std::uint8_t retries);
[[gnu::cold]] void explain_stop(const queue::Endpoint& endpoint, const PeerReport& peer);

// What is known when the last retry has brought no answer.
struct Silence {
  Psn missing;
  std::uint8_t retries = 0;
  TimeNs interval = 0;       // the interval of a retry
  TimeNs taken_nothing = 0;  // how long the peer has taken nothing; 0: it has taken all
  // The PSN of an answer to what was never sent, if nothing was acknowledged at all.
  std::optional<Psn> answered;
  std::uint64_t refused =
      0;  // packets of the process that the system has refused since the first retry
};
[[gnu::cold]] void explain_silence(queue::Endpoint& endpoint, const Silence& silence,
                                   const PeerReport& peer);

}  // namespace verbena::requester
