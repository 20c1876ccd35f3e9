// SPDX-License-Identifier: BSD-2-Clause
// The bytes that a fuzzer gave. Missing bytes are zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  std::uint8_t byte() { return at_ == end_ ? 0 : *at_++; }
  std::uint32_t word() {
    std::uint32_t v = 0;
    for (int i = 0; i < 4; ++i) v = v << 8 | byte();
    return v;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace verbena::fuzz
