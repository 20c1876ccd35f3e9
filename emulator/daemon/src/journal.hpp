// SPDX-License-Identifier: BSD-2-Clause
// The last kKept events, for `verbena events`. Each is a line of JSON; they are numbered from 1 in
// the order in which the daemon heard of them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace verbena::daemon {

class Journal {
 public:
  static constexpr std::size_t kKept = 4096;

  // Adds an event. `object` is JSON in one line; its number is put in front of its members.
  void add(const std::string& object);
  // Returns the number of the newest event; 0: there was none.
  std::uint64_t newest() const { return first_ + lines_.size() - 1; }
  // Returns the events behind number `after`, up to about `most` bytes, and sets `after` to the
  // number of the last one. If some of them are no longer kept, the first line says how many.
  std::string read(std::uint64_t& after, std::size_t most) const;

 private:
  std::deque<std::string> lines_;
  std::uint64_t first_ = 1;
};

}  // namespace verbena::daemon
