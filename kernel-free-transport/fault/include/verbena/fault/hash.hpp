// SPDX-License-Identifier: BSD-2-Clause
// Hashes of numbers and of text, the same on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "verbena/base/random.hpp"

namespace verbena::fault {

inline std::uint64_t hash_of(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = 0;
  for (const std::uint64_t number : numbers) hash = Random(hash ^ number).next();
  return hash;
}

inline std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = Random(hash ^ static_cast<unsigned char>(c)).next();
  return hash;
}

}  // namespace verbena::fault
