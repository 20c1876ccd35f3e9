// SPDX-License-Identifier: BSD-2-Clause
// Answers that came behind a missing one. Responses with data are kept as they are; of
// acknowledgements only the PSN of the furthest one is kept.
//
// Part of a requester.
#pragma once

#include <optional>

#include "verbena/wire/early_packets.hpp"

namespace verbena::requester {

class EarlyAnswers {
 public:
  bool is_empty() const { return !ack_ && data_.is_empty(); }
  wire::EarlyPackets& data() { return data_; }

  const std::optional<Psn>& ack() const { return ack_; }
  void note_ack(Psn psn) {
    if (!ack_ || psn.is_after(*ack_)) ack_ = psn;
  }
  void forget_ack() { ack_.reset(); }

  void clear() {
    ack_.reset();
    data_.clear();
  }

 private:
  wire::EarlyPackets data_;
  std::optional<Psn> ack_;
};

}  // namespace verbena::requester
