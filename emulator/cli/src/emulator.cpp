// SPDX-License-Identifier: BSD-2-Clause
#include "emulator.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "private_dirs.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/fabric/plan.hpp"

namespace verbena::cli {
namespace {

using control::fail;
using control::Outcome;
using control::UniqueFd;

constexpr int kAttempts = 50;
constexpr int kReadyFd = 3;
constexpr int kFailedToExec = 127;

// Becomes the daemon, in a child of a threadless parent, between fork and exec. Keeps none of the
// caller's descriptors open: a pipe to `| less` that the daemon held would keep the pipeline from
// ending.
[[noreturn]] void become_daemon(const std::vector<std::string>& arguments, int ready_fd) {
  ::setsid();
  // The caller may have blocked signals that are meant for its program.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::chdir("/") != 0) ::_exit(kFailedToExec);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  // What the loader says of a missing library, or the system of anything else, comes to the caller.
  // The daemon gives this pipe up once it is ready.
  ::dup2(ready_fd, STDERR_FILENO);
  if (ready_fd == kReadyFd) {
    ::fcntl(kReadyFd, F_SETFD, 0);
  } else {
    ::dup2(ready_fd, kReadyFd);
  }
  if (::syscall(__NR_close_range, kReadyFd + 1, ~0u, 0) != 0) {
    const long most = ::sysconf(_SC_OPEN_MAX);
    for (int fd = kReadyFd + 1; fd < most; ++fd) ::close(fd);
  }
  unset_preload();
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  const std::string text =
      "error cannot start " + arguments[0] + ": " + std::strerror(errno) + "\n";
  (void)!::write(kReadyFd, text.data(), text.size());
  ::_exit(kFailedToExec);
}

// Makes the daemon a grandchild: the program that `verbena run` becomes must not find it among its
// own children when it waits.
Outcome<UniqueFd> spawn(const std::vector<std::string>& arguments) {
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) {
    const int code = errno;
    return fail(code, std::string("cannot make a pipe: ") + std::strerror(code));
  }
  UniqueFd reading(pipe_fds[0]);
  UniqueFd writing(pipe_fds[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    const int code = errno;
    return fail(code, std::string("cannot start the emulator: ") + std::strerror(code));
  }
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) become_daemon(arguments, writing.get());
    ::_exit(grandchild < 0 ? kFailedToExec : 0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return reading;
}

// Returns the next line without its end; nothing at the end of the pipe.
std::optional<std::string> read_line(int fd) {
  std::string line;
  char c = 0;
  for (;;) {
    const ssize_t n = ::read(fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0 && c != '\n') {
      line += c;
      continue;
    }
    if (n <= 0 && line.empty()) return std::nullopt;
    return line;
  }
}

// Returns how a start went, from what comes through the pipe: the daemon's word, or what others say
// of its end.
Outcome<DaemonStart> await_word(int fd) {
  constexpr std::string_view kError = "error ";
  constexpr std::size_t kSaidMost = 2000;
  std::string said;
  while (const auto line = read_line(fd)) {
    if (*line == "ready") return DaemonStart::kStarted;
    if (*line == "running") return DaemonStart::kRunsAlready;
    if (line->starts_with(kError)) return fail(EIO, line->substr(kError.size()));
    if (said.size() < kSaidMost) said += (said.empty() ? "" : "\n") + *line;
  }
  return fail(
      EIO, said.empty()
               ? "the emulator ended while it started, without a word; try: verbena up --foreground"
               : "the emulator cannot be started: " + said);
}

// Adds the limit of descriptors to an error that says that there are too few.
control::Error naming_limit(control::Error error) {
  if (error.text.find(std::strerror(EMFILE)) == std::string::npos) return error;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  error.text += "; raise `ulimit -n`, which is " + std::to_string(limit.rlim_cur);
  return error;
}

bool is_same(const control::DeviceInfo& a, const control::DeviceInfo& b) {
  return a.name == b.name && a.address == b.address && a.persona == b.persona &&
         a.prefix_length == b.prefix_length && a.has_foreign_peers == b.has_foreign_peers;
}

std::string words_of(const control::DeviceInfo& device) {
  const bool is_roce = device.persona == control::Persona::kRoce;
  const bool may_have_others = !is_roce && device.has_foreign_peers;
  return device.name + " (" + (is_roce ? "RoCE, " : "InfiniBand, ") + device.address.to_string() +
         "/" + std::to_string(device.prefix_length) +
         (may_have_others ? ", beside other emulators)" : ")");
}

// Says what is different: the fabric alone, or the devices, with the first that differs.
std::string difference(const std::vector<control::DeviceInfo>& wanted,
                       const control::Welcome& welcome) {
  const std::vector<control::DeviceInfo>& running = welcome.devices;
  const auto differs_in_fabric = [](const control::DeviceInfo& a, const control::DeviceInfo& b) {
    const bool is_ib = a.persona == control::Persona::kInfiniBand && a.persona == b.persona;
    return is_same(a, b) || (is_ib && a.name == b.name);
  };
  const bool is_fabric_alone = std::ranges::equal(wanted, running, differs_in_fabric);
  const std::ptrdiff_t first = std::ranges::mismatch(wanted, running, is_same).in1 - wanted.begin();
  const auto at = [first](const std::vector<control::DeviceInfo>& devices) {
    const bool is_there = first < std::ssize(devices);
    return is_there ? words_of(devices[static_cast<std::size_t>(first)]) : "no further device";
  };
  return std::string("an emulator with ") + (is_fabric_alone ? "another fabric" : "other devices") +
         " is running (pid " + std::to_string(welcome.daemon_pid) + "): it has " + at(running) +
         ", and " + at(wanted) + " is asked for";
}

// Ends the emulator, which has ended when the connection ends. Of its answers only a Refused
// matters: the others may be in the form of another version.
Outcome<control::Done> end_emulator(control::Channel& channel, const std::string& which,
                                    int patience_ms = control::kDefaultTimeoutMs) {
  auto heard = channel.send(control::Down{}, 1);
  while (heard) {
    const auto more = channel.receive(patience_ms);
    if (!more) {
      heard = Failure<control::Error>{more.error()};
    } else if (more->type() == control::MessageType::kRefused) {
      return Failure<control::Error>{control::refusal(*more)};
    }
  }
  if (heard.error().code == ECONNRESET) return control::Done{};
  return fail(heard.error().code,
              "the emulator (" + which + ") does not end: " + heard.error().text);
}

}  // namespace

void unset_preload() {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload != nullptr && std::strstr(preload, "libverbena-preload") != nullptr) {
    ::unsetenv("LD_PRELOAD");
  }
}

Outcome<DaemonStart> start_daemon(const std::string& runtime_dir, const Parts& parts,
                                  const settings::Settings& settings,
                                  const DaemonOptions& options) {
  std::vector<std::string> arguments = daemon_arguments(parts, runtime_dir, settings, options);
  arguments.insert(arguments.end(), {"--ready-fd", std::to_string(kReadyFd)});
  const auto ready = spawn(arguments);
  if (!ready) return Failure<control::Error>{naming_limit(ready.error())};
  auto begun = await_word(ready->get());
  if (!begun) return Failure<control::Error>{naming_limit(begun.error())};
  return begun;
}

Outcome<control::Done> check_devices(const std::string& runtime_dir,
                                     const settings::Settings& settings,
                                     const control::Welcome& welcome) {
  if (!settings.chooses_devices()) return control::Done{};
  const auto wanted = planned_devices(settings);
  if (!wanted) return Failure<control::Error>{wanted.error()};
  if (std::ranges::equal(*wanted, welcome.devices, is_same)) return control::Done{};
  return fail(EEXIST,
              difference(*wanted, welcome) + "; end it first: " + command_that_ends(runtime_dir));
}

Outcome<std::vector<control::DeviceInfo>> planned_devices(const settings::Settings& settings) {
  auto interfaces = fabric::list_interfaces();
  if (!interfaces) return Failure<control::Error>{interfaces.error()};
  return fabric::plan_devices(settings, {::geteuid(), "", "", std::move(*interfaces)});
}

std::vector<std::string> daemon_arguments(const Parts& parts, const std::string& runtime_dir,
                                          const settings::Settings& settings,
                                          const DaemonOptions& options) {
  std::vector<std::string> list{parts.daemon(), "--runtime-dir", runtime_dir};
  const auto add = [&list](const char* option, const std::string& value) {
    list.insert(list.end(), {option, value});
  };
  if (settings.fabric) add("--fabric", settings.fabric->to_string());
  for (const IpAddress& address : settings.roce) add("--roce", address.to_string());
  for (const std::string& name : settings.devices) add("--device", name);
  if (settings.log_level) add("--log-level", *settings.log_level);
  if (options.ends_when_idle) list.emplace_back("--exit-when-idle");
  if (options.is_private) list.emplace_back("--private");
  return list;
}

Outcome<Emulator> reach_emulator(const std::string& runtime_dir) {
  auto channel = control::connect_to_daemon(runtime_dir);
  if (!channel) return Failure<control::Error>{channel.error()};
  auto welcome = control::say_hello(*channel, control::ClientKind::kCommand);
  if (!welcome) return Failure<control::Error>{welcome.error()};
  return Emulator{std::move(*channel), std::move(*welcome), false};
}

bool shares_numbers(const Emulator& emulator) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(emulator.channel.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return true;
  return static_cast<std::uint32_t>(peer.pid) == emulator.welcome.daemon_pid;
}

Outcome<control::Done> end_emulator(Emulator& emulator, int patience_ms) {
  return end_emulator(emulator.channel, "pid " + std::to_string(emulator.welcome.daemon_pid),
                      patience_ms);
}

Outcome<control::Done> end_emulator_of_any_version(const std::string& runtime_dir) {
  auto channel = control::connect_to_daemon(runtime_dir);
  if (!channel) return Failure<control::Error>{channel.error()};
  return end_emulator(*channel, "of another version");
}

Outcome<control::Done> try_emulator(const Parts& parts, const settings::Settings& settings) {
  const auto made = make_private_dir("");
  if (!made) return Failure<control::Error>{made.error()};
  const std::string& dir = made->path;
  const auto begun = start_daemon(dir, parts, settings, {.ends_when_idle = true});
  Outcome<control::Done> done = control::Done{};
  if (!begun) {
    done = Failure<control::Error>{begun.error()};
  } else {
    auto emulator = reach_emulator(dir);
    done = emulator ? end_emulator(*emulator) : Failure<control::Error>{emulator.error()};
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  return done;
}

Outcome<Emulator> ensure_emulator(const std::string& runtime_dir, const Parts& parts,
                                  const settings::Settings& settings, bool ends_when_idle) {
  bool started = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto emulator = reach_emulator(runtime_dir);
    if (emulator) {
      const auto fits = check_devices(runtime_dir, settings, emulator->welcome);
      if (!fits) return Failure<control::Error>{fits.error()};
      emulator->started_here = started;
      return emulator;
    }
    // The emulator was about to end at that moment.
    if (emulator.error().code == ECONNRESET) continue;
    if (!is_absent(emulator.error())) return emulator;
    const auto begun =
        start_daemon(runtime_dir, parts, settings, {.ends_when_idle = ends_when_idle});
    if (!begun) return Failure<control::Error>{begun.error()};
    started = true;
  }
  return fail(EBUSY, "an emulator holds " + control::daemon_lock_path(runtime_dir) +
                         " (its process id is in there) but does not listen; end that process");
}

}  // namespace verbena::cli
