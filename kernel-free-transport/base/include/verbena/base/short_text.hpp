// SPDX-License-Identifier: BSD-2-Clause
// A message for people, built without allocation. A text that is too long is cut.
#pragma once

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace verbena {

class ShortText {
 public:
  [[gnu::cold]] ShortText() = default;
  [[gnu::cold]] explicit ShortText(const char* format, ...) noexcept
      __attribute__((format(printf, 2, 3))) {
    std::va_list arguments;
    va_start(arguments, format);
    add_list(format, arguments);
    va_end(arguments);
  }
  [[gnu::cold]] void add(const char* format, ...) noexcept __attribute__((format(printf, 2, 3))) {
    std::va_list arguments;
    va_start(arguments, format);
    add_list(format, arguments);
    va_end(arguments);
  }
  [[gnu::cold]] void add_list(const char* format, std::va_list arguments) noexcept {
    const int wanted =
        std::vsnprintf(text_.data() + length_, text_.size() - length_, format, arguments);
    if (wanted > 0) length_ += static_cast<std::size_t>(wanted);
    if (length_ > text_.size() - 1) length_ = text_.size() - 1;
  }
  const char* c_str() const noexcept { return text_.data(); }
  bool is_empty() const noexcept { return length_ == 0; }

 private:
  std::array<char, 512> text_{};
  std::size_t length_ = 0;
};

}  // namespace verbena
