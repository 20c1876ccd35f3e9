// SPDX-License-Identifier: BSD-2-Clause
// Results of the last atomics (and FLUSHes, ATOMIC WRITEs), as many as a peer may have outstanding.
// A request that comes again is answered from here and not carried out again (IBTA Vol 1, 9.4.5).
//
// Part of a responder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::responder {

class SavedResults {
 public:
  // Keeps the newest results. `most` is at least one.
  void resize(std::size_t most) {
    std::rotate(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(next_),
                results_.end());
    if (results_.size() > most) {
      results_.erase(results_.begin(), results_.end() - static_cast<std::ptrdiff_t>(most));
    }
    next_ = results_.size() % most;
    results_.resize(most);
  }
  std::size_t most() const { return results_.size(); }
  void clear() { std::fill(results_.begin(), results_.end(), Result{}); }

  // Takes the place of the oldest result.
  void save(Psn psn, wire::Operation operation, std::uint64_t original) {
    results_[next_] = {psn, original, operation, true};
    next_ = (next_ + 1) % results_.size();
  }
  // Returns what was in memory before that operation; null if it is not known.
  const std::uint64_t* find(Psn psn, wire::Operation operation) const {
    for (std::size_t i = results_.size(); i-- > 0;) {
      const Result& r = results_[(next_ + i) % results_.size()];  // the newest first
      if (r.valid && r.psn == psn && r.operation == operation) return &r.original;
    }
    return nullptr;
  }

 private:
  struct Result {
    Psn psn;
    std::uint64_t original = 0;
    wire::Operation operation = wire::Operation::kFetchAdd;
    bool valid = false;
  };
  std::vector<Result> results_;
  std::size_t next_ = 0;
};

}  // namespace verbena::responder
