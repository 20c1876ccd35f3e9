// SPDX-License-Identifier: BSD-2-Clause
// verbena capture writes packets into a pcapng file, without root. The programs record into rings
// of shared memory, which the emulator passes on to this process (capture/recorder.hpp). Only this
// process writes the file, so that a slow reader or a full disk harms no other.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "private_emulator.hpp"
#include "verbena/capture/output.hpp"
#include "verbena/capture/recorder.hpp"
#include "verbena/control/capture_messages.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {
namespace {

// How often the rings are read while they are empty.
constexpr int kLookEveryMs = 20;
// How long a pipe that takes nothing is waited for, after the end was asked for.
constexpr int kPatienceMs = 5000;
// How often the reader of a named pipe is looked for.
constexpr int kReaderEveryMs = 50;

struct CaptureOptions {
  std::string file;
  std::string device;
  bool both_ends = false;
  PrivateOption chosen;
};

// Returns true if our caller has us ignore the signal, as nohup does with SIGHUP.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Makes Ctrl-C and the end of the terminal end the capture and not the process, and a write that
// fails say why.
control::UniqueFd signals_that_end() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  for (const int signal : {SIGHUP, SIGQUIT}) {
    if (!is_ignored(signal)) sigaddset(&ends, signal);
  }
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  return control::UniqueFd(::signalfd(-1, &ends, SFD_CLOEXEC));
}

bool is_named_pipe(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

struct OpenedFile {
  control::UniqueFd fd;
  bool is_new = false;
};

// Opens the file, and waits for the reader of a named pipe. Returns none, with errno, if the file
// cannot be opened, or a signal has asked for the end.
OpenedFile open_file(const std::string& path, int signals) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  for (bool has_told = false;;) {
    OpenedFile file{control::UniqueFd(::open(path.c_str(), kFlags | O_EXCL, 0600)), true};
    if (!file.fd) file = {control::UniqueFd(::open(path.c_str(), kFlags, 0600)), false};
    if (file.fd) (void)::fcntl(file.fd.get(), F_SETFL, 0);
    if (file.fd || errno != ENXIO || !is_named_pipe(path)) return file;
    if (!std::exchange(has_told, true)) {
      (void)complain("nobody reads " + path + " yet; the capture begins when somebody does");
    }
    pollfd end{signals, POLLIN, 0};
    if (::poll(&end, 1, kReaderEveryMs) <= 0) continue;
    errno = EPIPE;
    return file;
  }
}

class CaptureRun {
 public:
  CaptureRun(control::Channel& channel, control::UniqueFd signals, int file, std::string file_name)
      : channel_(channel),
        signals_(std::move(signals)),
        output_(file),
        file_name_(std::move(file_name)),
        recorder_("verbena " VERBENA_VERSION) {}

  // Asks for the capture, and takes in what the emulator says before its answer.
  control::Outcome<control::Ack> begin(const CaptureOptions& options) {
    return channel_.call<control::Ack>(control::Capture{options.device, options.both_ends},
                                       control::kDefaultTimeoutMs, nullptr,
                                       [this](control::Incoming&& in) { follow(std::move(in)); });
  }
  // Runs until a signal asks for the end, the emulator ends, or no reader takes the packets any
  // more. Returns the exit code.
  int run(Context& context);

 private:
  void follow(control::Incoming&& in);
  bool hear();
  // Waits until there may be something to do, or, with kWriting, only until something can be
  // written. Returns false if the end was asked for.
  enum class For : std::uint8_t { kAnything, kWriting };
  bool wait(int timeout_ms, For what = For::kAnything);
  void write();
  void write_the_rest();
  void end_full_file(std::size_t taken);

  control::Channel& channel_;
  control::UniqueFd signals_;
  capture::Output output_;
  std::string file_name_;
  capture::Recorder recorder_;
  bool takes_some_ = true;  // poll said that the output can be written
  bool is_ended_ = false;   // nothing more can be written
  std::string failure_;
};

void CaptureRun::follow(control::Incoming&& in) {
  using control::MessageType;
  if (in.type() == MessageType::kCaptureSource) {
    auto source = control::decode<control::CaptureSource>(in.payload);
    if (!source || !in.fds[0]) return;
    auto ring = link::CaptureRing::map(in.fds[0].get());
    if (!ring) return (void)complain(ring.error().text);
    recorder_.add({source->number, source->pid, source->program, source->device, source->address,
                   source->slot},
                  std::move(*ring));
  } else if (in.type() == MessageType::kCaptureSlot) {
    if (const auto slot = control::decode<control::CaptureSlot>(in.payload)) {
      recorder_.add_slot(slot->number, slot->slot);
    }
  } else if (in.type() == MessageType::kCaptureSourceEnded) {
    if (const auto ended = control::decode<control::CaptureSourceEnded>(in.payload)) {
      recorder_.end(ended->number);
    }
  }
}

// Takes in all that the emulator has said up to now. Returns false if the emulator has gone.
bool CaptureRun::hear() {
  for (;;) {
    auto in = control::receive_packet(channel_.fd(), MSG_DONTWAIT);
    if (!in) return in.error().code == EAGAIN;
    follow(std::move(*in));
  }
}

bool CaptureRun::wait(int timeout_ms, For what) {
  const bool has_some = !recorder_.blocks().empty();
  pollfd waiting[] = {{signals_.get(), POLLIN, 0},
                      {what == For::kAnything ? channel_.fd() : -1, POLLIN, 0},
                      {output_.fd(), static_cast<short>(has_some ? POLLOUT : 0), 0}};
  (void)::poll(waiting, 3, timeout_ms);
  takes_some_ = output_.is_file() || (waiting[2].revents & POLLOUT) != 0;
  // POLLERR of a pipe says that its reader has gone.
  if ((waiting[2].revents & POLLERR) != 0 && !output_.is_file()) is_ended_ = true;
  if (waiting[0].revents == 0) return true;
  signalfd_siginfo signal;
  (void)!::read(signals_.get(), &signal, sizeof signal);
  return false;
}

int CaptureRun::run(Context& context) {
  int timeout_ms = 0;
  while (!is_ended_ && wait(timeout_ms) && hear()) {
    const auto found = recorder_.read();
    if (takes_some_ && !recorder_.blocks().empty()) write();
    timeout_ms = found == capture::Recorder::Found::kSome ? 0 : kLookEveryMs;
  }
  if (!is_ended_) write_the_rest();
  const auto packets = static_cast<unsigned long long>(recorder_.packets());
  nlohmann::ordered_json left_out;  // null after a failure: nobody counts what comes then
  if (failure_.empty()) left_out = recorder_.dropped();
  std::fprintf(stderr, "%llu packets captured, %s left out\n", packets,
               left_out.is_null() ? "an unknown number" : left_out.dump().c_str());
  const nlohmann::ordered_json members{
      {"file", file_name_}, {"packets", packets}, {"left_out", left_out}};
  if (failure_.empty()) {
    if (context.as_json) print_answer(context, members);
    return kOk;
  }
  context.exit_code = complain("cannot write " + file_name_ + ": " + failure_);
  if (context.as_json) print_failure(context, members);
  return context.exit_code;
}

void CaptureRun::write() {
  const auto written = output_.write(recorder_.blocks());
  if (written.error == 0) return recorder_.written(written.bytes);
  is_ended_ = true;
  if (written.error != EPIPE) failure_ = std::strerror(written.error);
  if (output_.is_file()) end_full_file(written.bytes);
}

// Writes what was recorded until now, and the statistics.
void CaptureRun::write_the_rest() {
  (void)hear();
  const TimeNs end = recorder_.now();
  bool is_all = false;
  while (!is_ended_) {
    if (!is_all && recorder_.read(end) == capture::Recorder::Found::kAll) {
      is_all = true;
      recorder_.finish();
    }
    if (recorder_.blocks().empty()) {
      if (is_all) return;
      ::usleep(1000);  // a program is writing a record
      continue;
    }
    const bool is_patient = wait(kPatienceMs, For::kWriting);
    if (!is_patient || !takes_some_) {
      failure_ = "nobody reads it";
      return;
    }
    write();
  }
}

// Ends the file with whole blocks. The last ones make way for the statistics.
void CaptureRun::end_full_file(std::size_t taken) {
  const std::size_t room = std::min(taken, recorder_.bytes_to_finish());
  const std::size_t kept = capture::whole_blocks(recorder_.blocks(), taken - room);
  output_.take_back(taken - kept);
  recorder_.written(kept);
  recorder_.give_up_blocks();
  recorder_.finish();
  const auto last = output_.write(recorder_.blocks());
  if (last.error != 0) output_.take_back(last.bytes);
}

int capture(const CaptureOptions& options, Context& context) {
  const bool to_stdout = options.file == "-";
  if (to_stdout && context.as_json) {
    return complain("the packets and JSON would be mixed: name a file, or leave out --json",
                    kUsage);
  }
  auto emulator = options.chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  if (to_stdout && ::isatty(STDOUT_FILENO) == 1) {
    return complain("a capture is nothing for a terminal: name a file, or a program that reads it");
  }
  control::UniqueFd signals = signals_that_end();
  const OpenedFile file = to_stdout ? OpenedFile{control::UniqueFd(::dup(STDOUT_FILENO))}
                                    : open_file(options.file, signals.get());
  if (!file.fd) return complain("cannot write " + options.file + ": " + std::strerror(errno));
  CaptureRun run(emulator->channel, std::move(signals), file.fd.get(),
                 to_stdout ? "the standard output" : options.file);
  const auto begun = run.begin(options);
  if (!begun) {
    if (file.is_new) ::unlink(options.file.c_str());
    return complain(begun.error().text);
  }
  // Truncates the file only now: if the capture fails to start, the file keeps its content. A pipe
  // has no length.
  if (!to_stdout) (void)!::ftruncate(file.fd.get(), 0);
  std::fprintf(stderr, "capturing to %s; end it with Ctrl-C\n", options.file.c_str());
  return run.run(context);
}

}  // namespace

void add_capture(CLI::App& app, Context& context) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* command = app.add_subcommand(
      "capture", "Write the packets that devices send and receive to a pcapng file for Wireshark.");
  command->add_option("file", options->file, "The file, or - for the standard output")->required();
  command->add_option("--device", options->device, "Only this device");
  command->add_flag("--both-ends", options->both_ends,
                    "Record a packet from one program to another twice: as sent and as received");
  options->chosen.add_to(*command);
  add_json_option(*command, context);
  command->callback([options, &context] { context.exit_code = capture(*options, context); });
}

}  // namespace verbena::cli
