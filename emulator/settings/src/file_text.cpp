// SPDX-License-Identifier: BSD-2-Clause
#include "file_text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbena/control/unique_fd.hpp"

namespace verbena::settings {

// A limit, because some files have no end. A text written by hand is shorter.
constexpr std::size_t kTextMost = 1 << 20;
constexpr std::size_t kMostParts = 256;

control::Outcome<std::string> text_of_file(const std::string& path) {
  const auto failed = [&path](int code) {
    return control::fail(code, "cannot read " + path + ": " + std::strerror(code));
  };
  const control::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failed(errno);
  std::string text;
  char bytes[4096];
  for (;;) {
    const ssize_t n = ::read(file.get(), bytes, sizeof bytes);
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) return failed(errno);
    if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    if (text.size() > kTextMost) return failed(EFBIG);
  }
}

control::Outcome<control::Done> check_keys(std::string_view text, const std::string& origin) {
  constexpr std::string_view kEndsKey = "=,[]{}";
  std::size_t line = 1;
  std::size_t parts = 1;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      parts = 1;
      quote = 0;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
      if (c == '\\' && quote == '"') ++i;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (kEndsKey.find(c) != kEndsKey.npos) {
      parts = 1;
    } else if (c == '.' && ++parts > kMostParts) {
      return control::fail(EINVAL, origin + ":" + std::to_string(line) + ": a key of more than " +
                                       std::to_string(kMostParts) + " parts");
    }
  }
  return control::Done{};
}

}  // namespace verbena::settings
