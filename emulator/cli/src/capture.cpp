// verbena capture: packets into a pcapng file, without root.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include "command.hpp"
#include "emulator.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/link/capture_link.hpp"

namespace verbena::cli {
namespace {

struct CaptureOptions {
  std::string file;
  std::string device;
};

// Every context of the emulator then appends its own packets.
void write_file_header(int fd) {
  link::CaptureLink writer(nullptr, IpAddress{});
  writer.start(::dup(fd));
  writer.stop();
}

// From here on Ctrl-C ends the capture and not the program.
control::UniqueFd signals_that_end() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  return control::UniqueFd(::signalfd(-1, &ends, SFD_CLOEXEC));
}

// Until a signal asks for the end, or the emulator ends.
void wait_for_end(int signals, int channel) {
  pollfd waiting[] = {{signals, POLLIN, 0}, {channel, POLLIN, 0}};
  while (::poll(waiting, 2, -1) < 0 && errno == EINTR) {
  }
}

int capture(const CaptureOptions& options) {
  auto emulator = reach_emulator(control::runtime_dir_path());
  if (!emulator) return complain(emulator.error().text);
  const bool to_stdout = options.file == "-";
  const control::UniqueFd file(
      to_stdout ? ::dup(STDOUT_FILENO)
                : ::open(options.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
                         0600));
  if (!file) return complain("cannot write " + options.file + ": " + std::strerror(errno));
  write_file_header(file.get());
  const int fds[] = {file.get()};
  const auto sent = emulator->channel.send(control::Capture{options.device}, 1, fds);
  if (!sent) return complain(sent.error().text);
  const auto reply = emulator->channel.receive(control::kDefaultTimeoutMs);
  if (!reply) return complain(reply.error().text);
  if (reply->type() == control::MessageType::kRefused) {
    return complain(control::refusal(*reply).text);
  }
  const control::UniqueFd signals = signals_that_end();
  std::fprintf(stderr, "capturing to %s; end it with Ctrl-C\n", options.file.c_str());
  wait_for_end(signals.get(), emulator->channel.fd());
  return kOk;
}

}  // namespace

void add_capture(CLI::App& app, Context& context) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* command = app.add_subcommand(
      "capture", "Write what the devices send and receive into a pcapng file for Wireshark.");
  command->add_option("file", options->file, "The file, or - for the standard output")->required();
  command->add_option("--device", options->device, "Only this device");
  command->callback([options, &context] { context.exit_code = capture(*options); });
}

}  // namespace verbena::cli
