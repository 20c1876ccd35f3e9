// SPDX-License-Identifier: BSD-2-Clause
// Names in lines for people. A program chooses its name, and may put a newline or an escape
// sequence of the terminal into it. JSON has the exact names.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

namespace verbena::control {

// Puts a question mark in place of a control character.
constexpr char printable(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  constexpr unsigned char kDelete = 0x7f;
  return byte < ' ' || byte == kDelete ? '?' : c;
}

inline std::string printable(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return printable(c); });
  return text;
}

}  // namespace verbena::control
