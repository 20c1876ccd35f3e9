#include "explain.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbena/link/system_calls.hpp"

namespace verbena::provider {
namespace {

constexpr char kPrefix[] = "verbena: ";
constexpr std::size_t kLine = 512;

bool asked_for() {
  const char* log = std::getenv("VERBENA_LOG");
  return log != nullptr && std::strstr(log, "explain") != nullptr;
}

// One write, so that lines of several threads do not mix.
void write_line(const char* format, std::va_list arguments) noexcept {
  const int saved = errno;
  char line[kLine];
  constexpr std::size_t kPrefixLength = sizeof kPrefix - 1;
  std::memcpy(line, kPrefix, kPrefixLength);
  const int wanted =
      std::vsnprintf(line + kPrefixLength, kLine - kPrefixLength - 1, format, arguments);
  std::size_t length =
      kPrefixLength + std::min<std::size_t>(wanted < 0 ? 0 : static_cast<std::size_t>(wanted),
                                            kLine - kPrefixLength - 2);
  line[length++] = '\n';
  [[maybe_unused]] const ssize_t written = link::write_bytes(STDERR_FILENO, line, length);
  errno = saved;
}

}  // namespace

bool explains() noexcept {
  static const bool wanted = asked_for();
  return wanted;
}

void explain(const char* format, ...) noexcept {
  if (!explains()) return;
  std::va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

int refusal(int error, const char* format, ...) noexcept {
  if (!explains()) return error;
  std::va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
  return error;
}

void refuse(int error, const char* format, ...) {
  if (explains()) {
    std::va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
  }
  throw VerbRefused{error};
}

}  // namespace verbena::provider
