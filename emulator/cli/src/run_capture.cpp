// SPDX-License-Identifier: BSD-2-Clause
#include "run_capture.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "command.hpp"
#include "own_command.hpp"

namespace verbena::cli {
namespace {

using control::Done;
using control::fail;
using control::Outcome;

constexpr int kSourcePatienceMs = 20'000;
constexpr std::string_view kBegun = "capturing to ";
constexpr std::string_view kOurName = "verbena: ";

// Reads until a line with `until` has come, or to the end. Returns all that was said.
std::string read_words(int fd, std::string_view until) {
  std::string said;
  pollfd waiting{fd, POLLIN, 0};
  while (::poll(&waiting, 1, kSourcePatienceMs) > 0) {
    char bytes[512];
    const ssize_t n = ::read(fd, bytes, sizeof bytes);
    if (n <= 0) break;
    said.append(bytes, static_cast<std::size_t>(n));
    if (!until.empty() && said.find(until) != std::string::npos && said.back() == '\n') break;
  }
  return said;
}

}  // namespace

RunCapture::RunCapture(std::string file, std::optional<std::uint64_t> longest)
    : file_(std::move(file)), longest_(longest) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(file_, error);
  if (!error) file_ = absolute.string();
}

Outcome<Done> RunCapture::begin(RunScene& scene) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return fail(errno, "no descriptor left for the capture");
  words_.reset(fds[0]);
  control::UniqueFd writing(fds[1]);
  pid_ = start_own_command({{"capture", file_}, scene.dir, -1, writing.get(), longest_});
  if (pid_ < 0) return fail(errno, std::string("cannot capture: ") + std::strerror(errno));
  writing.reset();
  std::string said = read_words(words_.get(), kBegun);
  if (said.starts_with(kBegun)) {
    // A capture that could not write has said more by now.
    said_ = said.substr(said.find('\n') + 1);
    return Done{};
  }
  if (said.starts_with(kOurName)) said.erase(0, kOurName.size());
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return fail(EIO, said.empty() ? "the capture does not begin" : said);
}

int RunCapture::end(RunScene&, int exit_code) {
  ::kill(pid_, SIGINT);
  said_ += read_words(words_.get(), "");
  if (!longest_) std::fputs(said_.c_str(), stderr);
  return exit_code;
}

}  // namespace verbena::cli
