// SPDX-License-Identifier: BSD-2-Clause
// How much of a limited resource a client may have: no more than is left for all others. A single
// client gets half, a second one a quarter; however many take as much as they can, something is
// left for a new client that wants little. So the number of clients need not be known in advance,
// and no fixed limit is too small for one honest client or too large for a flood.
//
// A client is a process, however many connections it has. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace verbena::limits {

// A process ID as the kernel reports it; 0: a process outside our PID namespace.
using Holder = std::uint32_t;

class FairShare {
 public:
  explicit FairShare(std::size_t total) : total_(total) {}

  // Says whether the client may take `count` more within its share.
  bool may_take(Holder holder, std::size_t count = 1) const;
  // Takes them without a check.
  void take(Holder holder, std::size_t count = 1);
  // Takes them if the client may; else returns false and takes nothing.
  bool try_take(Holder holder, std::size_t count = 1);
  void give_back(Holder holder, std::size_t count = 1);
  // Takes what no client uses.
  void take_for_nobody(std::size_t count = 1) { used_ += count; }

  std::size_t held_by(Holder holder) const;
  std::size_t left() const { return used_ < total_ ? total_ - used_ : 0; }

 private:
  std::size_t total_;
  std::size_t used_ = 0;
  std::unordered_map<Holder, std::size_t> held_;
};

}  // namespace verbena::limits
