// SPDX-License-Identifier: BSD-2-Clause
// verbena events shows what has happened, and what happens.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "event_text.hpp"
#include "private_emulator.hpp"
#include "verbena/control/journal_messages.hpp"

namespace verbena::cli {
namespace {

using control::Error;
using control::JournalText;
using control::Outcome;

struct EventsOptions {
  std::uint64_t after = 0;
  bool follows = false;
  PrivateOption chosen;
};

class EventsRun {
 public:
  EventsRun(Emulator& emulator, const EventsOptions& options, bool as_json)
      : channel_(emulator.channel), options_(options), as_json_(as_json) {}

  // Runs until all is printed, or the emulator or the reader of our output has gone. Returns the
  // exit code.
  int run();

 private:
  enum class Heard : std::uint8_t { kText, kReaderGone };
  Outcome<Heard> wait();
  // Returns false if the output cannot be written.
  bool print(const std::string& text);
  int end_of_emulator(const Error& error) const;

  control::Channel& channel_;
  const EventsOptions& options_;
  bool as_json_;
  bool is_down_ = false;  // the emulator has said that it goes down
};

int EventsRun::run() {
  // A reader that has gone is no failure.
  std::signal(SIGPIPE, SIG_IGN);
  auto page = channel_.call<JournalText>(control::JournalQuery{options_.after, options_.follows});
  for (;;) {
    if (!page) return end_of_emulator(page.error());
    if (!print(page->text)) {
      return errno == EPIPE ? kOk
                            : complain(std::string("cannot write events: ") + std::strerror(errno));
    }
    if (page->last) return kOk;
    const auto heard = wait();
    if (!heard) return end_of_emulator(heard.error());
    if (*heard == Heard::kReaderGone) return kOk;
    const auto in = channel_.receive(control::kDefaultTimeoutMs);
    page = in ? control::decode<JournalText>(in->payload)
              : Outcome<JournalText>(Failure<Error>{in.error()});
  }
}

Outcome<EventsRun::Heard> EventsRun::wait() {
  pollfd waiting[] = {{channel_.fd(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
  for (;;) {
    if (::poll(waiting, 2, options_.follows ? -1 : control::kDefaultTimeoutMs) < 0) {
      if (errno == EINTR) continue;
      return control::fail(errno, std::string("poll: ") + std::strerror(errno));
    }
    if (waiting[0].revents != 0) return Heard::kText;
    if ((waiting[1].revents & (POLLERR | POLLHUP)) != 0) return Heard::kReaderGone;
    if (!options_.follows) return control::fail(ETIMEDOUT, "the emulator does not answer");
  }
}

bool EventsRun::print(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    is_down_ = is_down_ || is_end_of_emulator(line);
    std::puts(as_json_ ? line.c_str() : text_of_event(line).c_str());
  }
  return std::fflush(stdout) == 0;
}

int EventsRun::end_of_emulator(const Error& error) const {
  if (error.code != ECONNRESET) return complain(error.text);
  return is_down_ ? kOk : complain("the emulator has ended without a word");
}

int events(const EventsOptions& options, bool as_json) {
  auto emulator = options.chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  return EventsRun(*emulator, options, as_json).run();
}

}  // namespace

void add_events(CLI::App& app, Context& context) {
  auto options = std::make_shared<EventsOptions>();
  CLI::App* command = app.add_subcommand(
      "events", "Show what has happened: programs, connections, errors, time-outs, faults, ports.");
  command->add_flag("--follow", options->follows,
                    "Continue with new events until the emulator or the reader ends");
  add_json_option(*command, context)->description("Print one JSON object a line, for programs");
  command->add_option("--after", options->after, "Only events with a greater number (seq)")
      ->type_name("NUMBER")
      ->check([](const std::string& word) {
        constexpr std::size_t kDigitsMost = 19;  // the digits that 64 bits always hold
        const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
        return is_number && word.size() <= kDigitsMost ? "" : "a number is wanted, not " + word;
      });
  options->chosen.add_to(*command);
  command->callback([options, &context] { context.exit_code = events(*options, context.as_json); });
}

}  // namespace verbena::cli
