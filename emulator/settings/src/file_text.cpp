// SPDX-License-Identifier: BSD-2-Clause
#include "file_text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "verbena/control/unique_fd.hpp"

namespace verbena::settings {

// A limit, because some files have no end. A text written by hand is shorter.
constexpr std::size_t kTextMost = 1 << 20;

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

}  // namespace verbena::settings
