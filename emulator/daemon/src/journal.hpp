// SPDX-License-Identifier: BSD-2-Clause
// What has happened, for `verbena events`: the last kKept events, each as a line of JSON, numbered
// from 1 on in the order in which the emulator heard of them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace verbena::daemon {

class Journal {
 public:
  static constexpr std::size_t kKept = 4096;

  // `object`: JSON in one line, which gets its number in front of what it has.
  void add(const std::string& object);
  // The number of the last one; 0: there was none.
  std::uint64_t newest() const { return first_ + lines_.size() - 1; }
  // Those behind number `after`, as far as about `most` bytes take them; `after` is the number of
  // the last of them then. Of those that are kept no more the first line says how many they are.
  std::string read(std::uint64_t& after, std::size_t most) const;

 private:
  std::deque<std::string> lines_;
  std::uint64_t first_ = 1;
};

}  // namespace verbena::daemon
