// SPDX-License-Identifier: BSD-2-Clause
// Prints the output of the sides of a pair, line by line with the side's name before it:
//
//   server| listening
//   client| connected
//
// Memory holds at most one line of each stream, and what our own output does not take yet. A side
// that prints more waits, as it would for a pipe. Lines are cut at kLongestLine. When the reader of
// our output has gone, the sides see that as a pipe whose reader has gone.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {

class SideOutput {
 public:
  static constexpr std::size_t kLongestLine = 8192;
  static constexpr std::size_t kQueueMost = 64 * 1024;
  static constexpr std::size_t kExplanationsMost = 4u << 20;

  // `explanations` gets a copy of each line on error outputs that explains something, up to
  // kExplanationsMost. It may be null.
  explicit SideOutput(std::FILE* explanations = nullptr);

  // Descriptors for the standard output and error output of a side, valid until forget_ends().
  struct Ends {
    int out;
    int err;
  };
  Ends add_side(const std::string& name);
  // Returns the error output for a program whose lines go through unchanged.
  int add_plain_errors();
  // Must be called once the side has been started, so that its end is the end of its output.
  void forget_ends() { ends_.clear(); }

  // waiting() returns what to wait for, and step() handles what has come of it.
  std::vector<pollfd> waiting() const;
  void step(const std::vector<pollfd>& ready);
  // Must be called when all sides have ended. Waits for the reader of our output, but not forever.
  void finish();

 private:
  struct Sink {
    int fd;
    std::string queued;
    bool is_gone = false;
  };
  struct Stream {
    control::UniqueFd fd;
    std::string prefix;
    std::size_t sink;
    std::string line = {};
    bool is_plain = false;
  };

  int add_stream(const std::string& name, std::size_t sink);
  void read(Stream& stream);
  void add_line(Stream& stream);
  void keep_explanation(const std::string& line);
  void write(Sink& sink);
  bool has_room(const Stream& stream) const;

  std::FILE* explanations_;
  std::size_t explained_ = 0;  // bytes
  std::array<Sink, 2> sinks_;
  std::vector<Stream> streams_;
  std::vector<control::UniqueFd> ends_;
};

}  // namespace verbena::cli
