// SPDX-License-Identifier: BSD-2-Clause
#include "run_capture.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
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
constexpr int kLookMs = 100;
constexpr std::string_view kBegun = "capturing to ";
constexpr std::string_view kEnded = " packets captured, ";
constexpr std::string_view kOurName = "verbena: ";

// Returns true if a signal to end has come that is held back for the program.
bool is_end_asked_for() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return false;
  return std::ranges::any_of(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGQUIT},
                             [&](int signal) { return ::sigismember(&pending, signal) == 1; });
}

// Waits for words as long as patience lasts, and, if `heeds_signals`, no signal asks for the end.
bool await_words(int fd, bool heeds_signals) {
  pollfd waiting{fd, POLLIN, 0};
  for (int waited = 0; waited < kSourcePatienceMs; waited += kLookMs) {
    if (heeds_signals && is_end_asked_for()) return false;
    if (::poll(&waiting, 1, kLookMs) > 0) return true;
  }
  return false;
}

// Reads until a line with `until` has come or a signal asks for the end; if `until` is empty, to
// the end of the words. Returns all that was said.
std::string read_words(int fd, std::string_view until) {
  std::string said;
  while (await_words(fd, !until.empty())) {
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
  // Before this line, the capture may have said that it waits for a reader.
  if (const std::size_t begun = said.find(kBegun); begun != std::string::npos) {
    // A capture that could not write has said more by now.
    said_ = said.substr(said.find('\n', begun) + 1);
    return Done{};
  }
  ::kill(pid_, SIGTERM);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (said.starts_with(kOurName)) said.erase(0, kOurName.size());
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return fail(EIO, said.empty() ? "the capture does not begin" : said);
}

int RunCapture::end(RunScene&, int exit_code) {
  ::kill(pid_, SIGINT);
  said_ += read_words(words_.get(), "");
  if (said_.find(kEnded) == std::string::npos) {
    complain(file_ + " is not whole: its capture has ended early");
  }
  if (!longest_) std::fputs(said_.c_str(), stderr);
  return exit_code;
}

}  // namespace verbena::cli
