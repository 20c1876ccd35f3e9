// SPDX-License-Identifier: BSD-2-Clause
// How much of one thing, of which there is only so much, a client may have: no more than is left
// for all others. Alone it gets half, a second one a quarter, and however many take what they can,
// something is left for who comes next and wants little. So nobody needs to know beforehand how
// many there will be, and no number is too small for one honest client or too large for a flood.
//
// A client is a process, whatever connections it has. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace verbena::limits {

// A process as the kernel names it to us; 0: one that is outside of our sight.
using Holder = std::uint32_t;

class FairShare {
 public:
  explicit FairShare(std::size_t total) : total_(total) {}

  // Whether so many more would be no more than its share.
  bool may_take(Holder holder, std::size_t count = 1) const;
  // Takes them, whether it may or not.
  void take(Holder holder, std::size_t count = 1);
  // False, and nothing is taken, if it may not.
  bool try_take(Holder holder, std::size_t count = 1);
  void give_back(Holder holder, std::size_t count = 1);
  // What is used up by no client.
  void take_for_nobody(std::size_t count = 1) { used_ += count; }

  std::size_t held_by(Holder holder) const;
  std::size_t left() const { return used_ < total_ ? total_ - used_ : 0; }

 private:
  std::size_t total_;
  std::size_t used_ = 0;
  std::unordered_map<Holder, std::size_t> held_;
};

}  // namespace verbena::limits
