// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/report/repeats.hpp"

#include <algorithm>
#include <cstring>

namespace verbena::provider {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// FNV-1a. It is never 0, because 0 means no hash.
class Hash {
 public:
  void add(char c) noexcept { value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u; }
  std::uint64_t value() const noexcept { return value_ | 1; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

std::uint64_t hash_of(std::string_view line) noexcept {
  Hash hash;
  for (const char c : line) hash.add(c);
  return hash.value();
}

// Hashes the line with one character in place of each number.
std::uint64_t hash_without_numbers(std::string_view line) noexcept {
  Hash hash;
  for (std::size_t i = 0; i < line.size();) {
    if (!is_digit(line[i])) {
      hash.add(line[i++]);
      continue;
    }
    const bool hex = line[i] == '0' && i + 1 < line.size() && line[i + 1] == 'x';
    if (hex) i += 2;
    while (i < line.size() && (hex ? is_hex(line[i]) : is_digit(line[i]))) ++i;
    hash.add('#');
  }
  return hash.value();
}

bool is_power_of_ten(std::uint64_t n) {
  while (n > 1 && n % 10 == 0) n /= 10;
  return n == 1;
}

}  // namespace

Repeats::Kind& Repeats::kind_of(std::uint64_t hash) noexcept {
  const auto end = kinds_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto known =
      std::find_if(kinds_.begin(), end, [&](const Kind& k) { return k.hash == hash; });
  if (known != end) return *known;
  if (used_ == kKinds) return kinds_.back();
  Kind& fresh = kinds_[used_++];
  fresh = {};
  if (used_ < kKinds) fresh.hash = hash;
  return fresh;
}

Repeats::Verdict Repeats::note(std::string_view line) noexcept {
  Kind& kind = kind_of(hash_without_numbers(line));
  const std::uint64_t count = ++kind.count;
  const std::uint64_t whole = hash_of(line);
  const bool is_known = std::find(kind.said.begin(), kind.said.end(), whole) != kind.said.end();
  const auto free = std::find(kind.said.begin(), kind.said.end(), 0u);
  const bool is_new = !is_known && free != kind.said.end();
  if (is_new) *free = whole;
  if (is_new || is_power_of_ten(count)) {
    kind.left_out = 0;
    return {true, count, kind.is_mixed()};
  }
  ++kind.left_out;
  kind.length = std::min(line.size(), kind.line.size());
  std::memcpy(kind.line.data(), line.data(), kind.length);
  return {false, count, kind.is_mixed()};
}

}  // namespace verbena::provider
