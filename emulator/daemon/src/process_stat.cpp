// SPDX-License-Identifier: BSD-2-Clause
#include "process_stat.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>

#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

namespace {

// Does not use a file stream, which would throw if the process ends between open and read.
std::vector<std::string> fields_in(const std::string& path) {
  const control::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::array<char, 2048> bytes;
  const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
  if (got <= 0) return {};
  const std::string text(bytes.data(), static_cast<std::size_t>(got));
  // The text is "PID (NAME) STATE ...", where the name may hold anything.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream words(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(words), {}};
}

std::string path_of(std::uint32_t pid) { return "/proc/" + std::to_string(pid); }

}  // namespace

std::vector<std::string> fields_of_process(std::uint32_t pid) {
  return fields_in(path_of(pid) + "/stat");
}

std::string state_of_process(std::uint32_t pid) {
  const std::vector<std::string> fields = fields_of_process(pid);
  if (fields.empty()) return {};
  if (fields[0] != "Z") return fields[0];
  // The other threads live on after the first, whose state is that of the process.
  std::error_code error;
  std::filesystem::directory_iterator thread(path_of(pid) + "/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const std::vector<std::string> own = fields_in(thread->path().string() + "/stat");
    if (!own.empty() && own[0] != "Z" && own[0] != "X") return own[0];
  }
  return fields[0];
}

std::string image_of(const std::vector<std::string>& fields) {
  constexpr std::size_t kStartOfCode = 23;  // counted from the state
  constexpr std::size_t kStartOfStack = 25;
  if (fields.size() <= kStartOfStack) return {};
  // Who may not trace the process is told 0, or 1 since Linux 4.12.
  if (fields[kStartOfCode].size() == 1) return {};
  return fields[kStartOfCode] + " " + fields[kStartOfStack];
}

}  // namespace verbena::daemon
