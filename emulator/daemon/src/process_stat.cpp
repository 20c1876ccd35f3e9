// SPDX-License-Identifier: BSD-2-Clause
#include "process_stat.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <iterator>
#include <sstream>

#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

// Does not use a file stream, which would throw if the process ends between open and read.
std::vector<std::string> fields_of_process(std::uint32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
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

}  // namespace verbena::daemon
