// SPDX-License-Identifier: BSD-2-Clause
// verbenad is the daemon. `verbena up` and `verbena run` start it, or a user does by hand.
#include <fcntl.h>
#include <malloc.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "address_watch.hpp"
#include "directory_watch.hpp"
#include "event_loop.hpp"
#include "instance.hpp"
#include "server.hpp"
#include "shares.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/cm_service/cm_service.hpp"
#include "verbena/control/address_plan.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/fabric/plan.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/seed.hpp"
#include "version.hpp"

namespace verbena::daemon {
namespace {

struct Options {
  std::string runtime_dir;
  std::string config;
  std::string fabric;
  std::vector<std::string> roce;
  std::vector<std::string> devices;
  std::string log_level;
  bool foreground = false;
  bool exit_when_idle = false;
  bool is_private = false;
  int ready_fd = -1;
};

// Tells the starter in one line how the start went: "ready", "running" or "error ...". The standard
// error output is the same pipe, for what libraries say when a start fails. After the start there
// is no reader, so it goes to /dev/null.
class ReadyPipe {
 public:
  explicit ReadyPipe(int fd) : fd_(fd) {
    if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  void say(const std::string& line) {
    if (!fd_) return;
    (void)!::write(fd_.get(), (line + "\n").data(), line.size() + 1);
    fd_.reset();
    const control::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null) ::dup2(null.get(), STDERR_FILENO);
  }

 private:
  control::UniqueFd fd_;
};

control::Outcome<settings::Settings> settings_from(const Options& options) {
  settings::Settings all;
  if (!options.config.empty()) {
    auto file = settings::load_toml(options.config);
    if (!file) return Failure<control::Error>{file.error()};
    all = *file;
  }
  settings::Settings line;
  if (!options.fabric.empty()) {
    const auto fabric = settings::parse_fabric(options.fabric);
    if (!fabric) return Failure<control::Error>{fabric.error()};
    line.fabric = *fabric;
  }
  for (const std::string& text : options.roce) {
    const auto address = settings::parse_roce_address(text);
    if (!address) return Failure<control::Error>{address.error()};
    line.roce.push_back(*address);
  }
  for (const std::string& text : options.devices) {
    const auto name = settings::parse_device_name(text);
    if (!name) return Failure<control::Error>{name.error()};
    line.devices.push_back(*name);
  }
  if (!options.log_level.empty()) {
    const auto level = settings::parse_log_level(options.log_level);
    if (!level) return Failure<control::Error>{level.error()};
    line.log_level = *level;
  }
  all.override_with(line);
  return all;
}

// A burst of connections needs memory that is free again half a second later, and the next burst
// needs it as well. Keeps some of it instead of returning it to the kernel, which would hand it out
// page by page.
void keep_some_memory() {
  constexpr int kKept = 4 << 20;
  ::mallopt(M_TRIM_THRESHOLD, kKept);
}

void raise_limits() {
  for (const auto resource : {RLIMIT_NOFILE, RLIMIT_FSIZE}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(resource, &limit);
  }
}

// Returns how many descriptors clients may have. The emulator needs the others itself, whatever its
// clients do: for its own files and sockets, and for clients that are told that none is left.
std::size_t descriptors_for_clients() {
  constexpr std::size_t kOwn = 64;
  constexpr std::size_t kMost = 1u << 16;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMost;
  const auto all = std::min<std::size_t>(limit.rlim_cur, kMost);
  return all - std::min(kOwn, all / 4);
}

void open_log(const Options& options, const std::string& dir, const settings::Settings& settings) {
  std::shared_ptr<spdlog::logger> logger;
  try {
    // Bounds the log, whatever clients do that is worth a line: the older half is dropped.
    constexpr std::size_t kLongest = 4u << 20;
    const std::string path = control::daemon_log_path(dir);
    if (!options.foreground) {
      ::unlink(path.c_str());
      ::unlink(spdlog::sinks::rotating_file_sink_st::calc_filename(path, 1).c_str());
    }
    logger = options.foreground ? spdlog::stderr_logger_st("verbenad")
                                : spdlog::rotating_logger_st("verbenad", path, kLongest, 1);
  } catch (const spdlog::spdlog_ex&) {
    // The disk may be full. An emulator without a log is better than none.
    logger = std::make_shared<spdlog::logger>("verbenad");
  }
  spdlog::set_default_logger(logger);
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  spdlog::set_level(spdlog::level::from_str(settings.log_level.value_or("info")));
  spdlog::flush_on(spdlog::level::info);
}

control::Outcome<fabric::Host> this_host() {
  auto interfaces = fabric::list_interfaces();
  if (!interfaces) return Failure<control::Error>{interfaces.error()};
  utsname names{};
  ::uname(&names);
  const auto start = static_cast<std::uint32_t>(link::realtime_now_ns() / 1'000'000);
  return fabric::Host{::geteuid(), names.nodename, kVersion, std::move(*interfaces), start};
}

// Runs the loop. A request that fails for lack of something (memory, a place in epoll) must not end
// the other clients.
void run_until_stopped(EventLoop& loop) {
  for (;;) {
    try {
      return loop.run();
    } catch (const std::exception& e) {
      spdlog::error("a request failed: {}", e.what());
    }
  }
}

// Opens the devices that the settings ask for. A private emulator takes any free subnet if they
// name none.
control::Outcome<std::unique_ptr<fabric::Fabric>> open_fabric(const Options& options,
                                                              settings::Settings settings,
                                                              const std::string& dir,
                                                              EventLoop& loop, Shares& shares) {
  constexpr int kAttempts = 32;
  const auto host = this_host();
  if (!host) return Failure<control::Error>{host.error()};
  const bool chooses = options.is_private && !settings.fabric;
  for (int attempt = 1;; ++attempt) {
    if (chooses) {
      const auto subnet = control::private_subnet(host->uid, link::random_seed());
      settings.fabric = settings::FabricRange{subnet.base, subnet.prefix_length};
    }
    const auto devices = fabric::plan_devices(settings, *host);
    if (!devices) return Failure<control::Error>{devices.error()};
    auto fabric =
        fabric::Fabric::open(*devices, control::shadow_path(dir), loop, shares.descriptors);
    const bool is_taken = !fabric && fabric.error().code == EADDRINUSE;
    if (!is_taken || !chooses || attempt == kAttempts) return fabric;
  }
}

// Runs until the end is asked for. The order of the end matters: the sockets go before the lock,
// and the lock before the clients, so that a program that waits for the end can start a new
// emulator.
control::Outcome<control::Done> run(const Options& options, Instance& instance,
                                    const settings::Settings& settings, ReadyPipe& ready) {
  EventLoop loop;
  Shares shares(descriptors_for_clients());
  auto fabric = open_fabric(options, settings, instance.dir(), loop, shares);
  if (!fabric) return Failure<control::Error>{fabric.error()};
  auto server = std::make_unique<Server>(loop, instance, **fabric, shares, options.exit_when_idle);
  auto cm = std::make_unique<cm_service::CmService>(**fabric, server->clients(), loop,
                                                    link::monotonic_now_ns, link::random_seed());
  server->set_extension(cm.get());
  auto listening = instance.listen();
  if (!listening) return Failure<control::Error>{listening.error()};
  server->start(std::move(*listening));
  DirectoryWatch watch(loop, instance, [&] {
    server->restore_runtime_dir();
    watch.start();
  });
  watch.start();
  AddressWatch addresses(loop, [&] { server->follow_interfaces(); });
  addresses.start();
  // Takes in what has changed since the devices were planned.
  server->follow_interfaces();

  loop.on_signal({SIGTERM, SIGINT}, [&](int number) {
    server->shut_down(std::string("signal ") + ::strsignal(number));
  });
  for (const control::DeviceInfo& d : (*fabric)->devices()) {
    spdlog::info("{} at {} ({})", d.name, d.address.to_string(),
                 d.persona == control::Persona::kRoce ? "RoCE" : "LID " + std::to_string(d.lid));
  }
  ready.say("ready");
  run_until_stopped(loop);
  watch.stop();
  addresses.stop();
  server->set_extension(nullptr);
  cm.reset();
  if (!instance.has_directory()) (*fabric)->give_shadow_up();
  fabric->reset();
  instance.release();
  server.reset();
  return control::Done{};
}

int start(const Options& options) {
  ::umask(077);
  std::signal(SIGPIPE, SIG_IGN);
  // A ring or a file that `ulimit -f` forbids is an error for its user, not the end of the daemon.
  std::signal(SIGXFSZ, SIG_IGN);
  ReadyPipe ready(options.ready_fd);
  const auto give_up = [&ready](const control::Error& error) {
    ready.say("error " + error.text);
    std::fprintf(stderr, "verbenad: %s\n", error.text.c_str());
    return 1;
  };
  const auto settings = settings_from(options);
  if (!settings) return give_up(settings.error());
  const std::string dir =
      options.runtime_dir.empty() ? control::runtime_dir_path() : options.runtime_dir;
  auto instance = Instance::claim(dir);
  if (!instance && instance.error().code == EALREADY) {
    ready.say("running");
    std::fprintf(stderr, "verbenad: %s\n", instance.error().text.c_str());
    return 0;
  }
  if (!instance) return give_up(instance.error());
  if (options.is_private) instance->remove_files_at_end();
  raise_limits();
  keep_some_memory();
  open_log(options, dir, *settings);
  const auto ended = run(options, *instance, *settings, ready);
  if (ended) return 0;
  instance->release();
  return give_up(ended.error());
}

}  // namespace
}  // namespace verbena::daemon

// An exception could only come of a lack of memory, of which there is nobody to tell.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  using verbena::daemon::Options;
  verbena::fill_closed_streams();
  Options options;
  CLI::App app("The Verbena emulator. `verbena up` and `verbena run` start it for you.",
               "verbenad");
  app.set_version_flag("--version", verbena::daemon::kVersion);
  app.add_option("--runtime-dir", options.runtime_dir, "Where its socket and files live");
  app.add_option("--config", options.config, "A TOML file with settings");
  app.add_option("--fabric", options.fabric, "Subnet of the InfiniBand ports, as 10.1.0.0/24");
  app.add_option("--roce", options.roce,
                 "A RoCEv2 device at this address of the host (repeatable)");
  app.add_option("--device", options.devices, "Name of a device (repeatable)");
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn, error or off");
  app.add_flag("--foreground", options.foreground, "Log to the standard error output");
  app.add_flag("--exit-when-idle", options.exit_when_idle, "End after the last client has gone");
  app.add_flag(
      "--private", options.is_private,
      "Take a subnet that is free, and remove the files in the runtime directory at the end");
  app.add_option("--ready-fd", options.ready_fd, "Descriptor that learns when clients may come");
  CLI11_PARSE(app, argc, argv);
  try {
    return verbena::daemon::start(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "verbenad: %s\n", e.what());
    return 1;
  }
}
