// SPDX-License-Identifier: BSD-2-Clause
#include "side_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "command.hpp"

namespace verbena::cli {
namespace {

// A pipe that poll() calls writable takes so much without a wait.
constexpr std::size_t kWriteMost = 4096;
constexpr int kReaderPatienceMs = 5000;

// Returns true for an explanation, as the driver writes it: "verbena: PROGRAM[PID]: ...".
bool explains(std::string_view line) {
  constexpr std::string_view kBegin = "verbena: ";
  const std::size_t pid = line.find('[');
  return line.starts_with(kBegin) && pid != std::string_view::npos &&
         line.find("]: ", pid) != std::string_view::npos;
}

}  // namespace

SideOutput::SideOutput(std::FILE* explanations)
    : explanations_(explanations), sinks_{Sink{STDOUT_FILENO, {}}, Sink{STDERR_FILENO, {}}} {}

int SideOutput::add_plain_errors() {
  const int end = add_stream("", 1);
  if (end >= 0) streams_.back().is_plain = true;
  return end;
}

SideOutput::Ends SideOutput::add_side(const std::string& name) {
  const int out = add_stream(name, 0);
  return {out, add_stream(name, 1)};
}

int SideOutput::add_stream(const std::string& name, std::size_t sink) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return -1;  // the side then prints as if it were alone
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  streams_.push_back({control::UniqueFd(fds[0]), name + "| ", sink});
  ends_.emplace_back(fds[1]);
  return fds[1];
}

bool SideOutput::has_room(const Stream& stream) const {
  return sinks_[stream.sink].queued.size() < kQueueMost;
}

std::vector<pollfd> SideOutput::waiting() const {
  std::vector<pollfd> list;
  for (const Sink& sink : sinks_) list.push_back({sink.queued.empty() ? -1 : sink.fd, POLLOUT, 0});
  for (const Stream& stream : streams_) {
    list.push_back({has_room(stream) ? stream.fd.get() : -1, POLLIN, 0});
  }
  return list;
}

void SideOutput::step(const std::vector<pollfd>& ready) {
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    if (ready[i].revents != 0) write(sinks_[i]);
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (ready[sinks_.size() + i].revents != 0) read(streams_[i]);
  }
}

void SideOutput::read(Stream& stream) {
  char bytes[kLongestLine];
  const ssize_t n = ::read(stream.fd.get(), bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    if (!stream.line.empty()) add_line(stream);
    stream.fd.reset();
    return;
  }
  if (stream.is_plain) sinks_[stream.sink].queued.append(bytes, static_cast<std::size_t>(n));
  for (const char c : std::string_view(bytes, static_cast<std::size_t>(n))) {
    if (c != '\n') stream.line += c;
    if (c == '\n' || stream.line.size() == kLongestLine) add_line(stream);
  }
}

void SideOutput::add_line(Stream& stream) {
  const std::string line = std::exchange(stream.line, {}) + "\n";
  if (explanations_ != nullptr && stream.sink == 1 && explains(line)) keep_explanation(line);
  if (!stream.is_plain) sinks_[stream.sink].queued += stream.prefix + line;
}

// If explanations are left out, the last line says so.
void SideOutput::keep_explanation(const std::string& line) {
  if (explained_ > kExplanationsMost) return;
  explained_ += line.size();
  const bool has_room = explained_ <= kExplanationsMost;
  std::fputs(has_room ? line.c_str() : "verbena: further explanations are left out\n",
             explanations_);
  std::fflush(explanations_);
}

void SideOutput::write(Sink& sink) {
  const ssize_t n = ::write(sink.fd, sink.queued.data(), std::min(sink.queued.size(), kWriteMost));
  if (n >= 0) {
    sink.queued.erase(0, static_cast<std::size_t>(n));
    return;
  }
  if (errno == EAGAIN || errno == EINTR) return;
  // The run was started with this stream closed: the programs print to nobody, and go on.
  if (errno == EBADF) return sink.queued.clear();
  if (errno != EPIPE) complain(std::string("cannot write the output: ") + std::strerror(errno));
  sink.is_gone = true;
  sink.queued.clear();
  for (Stream& stream : streams_) {
    if (&sinks_[stream.sink] == &sink) stream.fd.reset();
  }
}

void SideOutput::finish() {
  for (;;) {
    std::vector<pollfd> list = waiting();
    const bool is_done =
        std::all_of(list.begin(), list.end(), [](const pollfd& p) { return p.fd < 0; });
    if (is_done) return;
    // All output of the sides is in the pipes by now. A process that still holds an end of a pipe
    // belongs to no side.
    const bool writes = list[0].fd >= 0 || list[1].fd >= 0;
    if (::poll(list.data(), list.size(), writes ? kReaderPatienceMs : 0) <= 0) return;
    step(list);
  }
}

}  // namespace verbena::cli
