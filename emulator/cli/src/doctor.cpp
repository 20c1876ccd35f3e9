// SPDX-License-Identifier: BSD-2-Clause
// verbena doctor checks that everything is in place, and says what to do if it is not.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "answer.hpp"
#include "command.hpp"
#include "container_check.hpp"
#include "emulator.hpp"
#include "findings.hpp"
#include "kernel_features.hpp"
#include "parts.hpp"
#include "shell_check.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/fabric/plan.hpp"
#include "verbena/link/slot_group.hpp"
#include "verbs_library.hpp"

namespace verbena::cli {
namespace {

constexpr std::uint64_t kGoodReceiveBuffer = 4u << 20;
constexpr rlim_t kGoodDescriptors = 4096;

void check_file(Findings& findings, const std::string& file, int wanted,
                const std::string& remedy) {
  if (::access(file.c_str(), wanted) == 0) return findings.ok(file);
  if (errno == ENOENT) return findings.fault(file + " is missing", remedy);
  findings.fault("you may not " + std::string((wanted & X_OK) != 0 ? "run " : "read ") + file,
                 "as its owner: chmod a+rX on it and on the directories above it");
}

void check_parts(Findings& findings, const Parts& parts) {
  const std::string again = "install Verbena again: cmake --install <build> --prefix <prefix>";
  check_file(findings, parts.daemon(), R_OK | X_OK, again);
  check_file(findings, parts.preload(), R_OK, again);
  const auto named = nameable(parts);
  if (!named) findings.fault(named.error().text, "install Verbena elsewhere");
  const auto library = find_verbs_library();
  if (!library) {
    return findings.fault(library.error().text,
                          "install it, on Debian: apt install libibverbs1 ibverbs-utils");
  }
  if (library->private_abi == 0) {
    return findings.fault(
        library->path + " has a provider interface that this version does not know",
        "use a newer Verbena, or an rdma-core from 28 to 65");
  }
  findings.ok(library->path + ", provider interface " + std::to_string(library->private_abi));
  const std::string plugin =
      parts.driver() + "-rdmav" + std::to_string(library->private_abi) + ".so";
  check_file(findings, plugin, R_OK, again);
  check_shell(findings, named ? *named : parts, library->private_abi);
}

// Checks that a running emulator has the devices that the command line or the file asks for.
void check_running_devices(Findings& findings, const std::string& dir,
                           const settings::Settings& settings, const control::Welcome& welcome) {
  if (!settings.chooses_devices()) return;
  const auto checked = check_devices(dir, settings, welcome);
  if (checked) return findings.ok("it has the devices that are asked for");
  const bool has_others = checked.error().code == EEXIST;
  findings.fault(checked.error().text, has_others
                                           ? "or ask for no devices, to use those that it has"
                                           : "correct the settings");
}

// Returns true if an emulator runs. `settings` may be null.
bool check_emulator(Findings& findings, const std::string& dir,
                    const settings::Settings* settings) {
  const auto emulator = reach_emulator(dir);
  if (emulator) {
    findings.ok("runtime directory " + dir);
    if (emulator->welcome.version != VERBENA_VERSION) {
      findings.hint("the emulator is of version " + emulator->welcome.version + ", this is " +
                        VERBENA_VERSION,
                    "end it when nobody needs it: verbena down");
    }
    findings.ok("emulator " + emulator->welcome.version + " runs, pid " +
                std::to_string(emulator->welcome.daemon_pid) + ", " +
                std::to_string(emulator->welcome.devices.size()) + " device(s)");
    if (settings != nullptr) check_running_devices(findings, dir, *settings, emulator->welcome);
    return true;
  }
  if (!is_absent(emulator.error())) {
    findings.fault(emulator.error().text, runtime_dir_remedy(dir));
    return false;
  }
  const auto made = control::make_runtime_dir(dir);
  if (made) {
    findings.ok("runtime directory " + dir);
    findings.ok("no emulator runs; `verbena run` or `verbena up` starts one");
  } else {
    findings.fault(made.error().text, runtime_dir_remedy(dir));
  }
  return false;
}

void check_addresses(Findings& findings, const settings::Settings& settings) {
  const auto devices = planned_devices(settings);
  if (!devices) {
    return findings.fault(devices.error().text, "correct the settings");
  }
  for (const control::DeviceInfo& device : *devices) {
    const auto free = link::SlotGroup::open(device.address);
    if (free) {
      findings.ok("UDP port 4791 of " + device.address.to_string() + " is free");
    } else {
      findings.fault(free.error().text, "see `verbena up --help` for --fabric and --roce");
    }
  }
}

// Starts an emulator, because complete parts may still not work: a library that the daemon needs
// may be missing.
void check_start(Findings& findings, const Parts& parts, const settings::Settings& settings) {
  const auto started = try_emulator(parts, settings);
  if (started) return findings.ok("an emulator with these settings starts and ends");
  findings.fault(started.error().text, "then try again: verbena doctor");
}

void check_kernel(Findings& findings) {
  const std::string newer = "use a kernel from 4.18 on (5.3 for all features)";
  findings.feature(can_steer_by_filter(), "filters on shared UDP ports (SO_ATTACH_REUSEPORT_CBPF)",
                   newer);
  if (can_segment_udp() && can_coalesce_udp()) {
    findings.ok("the kernel has UDP segmentation and coalescing (UDP_SEGMENT, UDP_GRO)");
  } else {
    findings.hint("the kernel lacks UDP_SEGMENT or UDP_GRO: large messages are slow", newer);
  }
  if (!can_watch_processes()) {
    findings.hint("pidfd_open is not to be had: an emulator may end a little late",
                  newer + "; in a container, an engine whose seccomp filter knows the call");
  }
  const std::uint64_t buffer = receive_buffer_max();
  if (buffer >= kGoodReceiveBuffer) {
    findings.ok("receive buffers up to " + std::to_string(buffer) + " bytes");
  } else {
    findings.hint("receive buffers only up to " + std::to_string(buffer) +
                      " bytes: windows are small, transfers slower",
                  "as root: sysctl -w net.core.rmem_max=" + std::to_string(kGoodReceiveBuffer));
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= kGoodDescriptors) {
    findings.ok("up to " + std::to_string(limit.rlim_max) + " descriptors");
  } else {
    findings.hint("only " + std::to_string(limit.rlim_max) +
                      " descriptors: each process with a device takes three of the emulator's",
                  "raise it before `verbena up`: ulimit -n " + std::to_string(kGoodDescriptors));
  }
}

void print_as_json(const Findings& findings, Context& context) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Finding& finding : findings.all()) {
    all.push_back({{"verdict", finding.verdict}, {"text", finding.text}, {"remedy", nullptr}});
    if (!finding.remedy.empty()) all.back()["remedy"] = finding.remedy;
  }
  print_answer(context, {{"faults", findings.faults()}, {"findings", all}});
}

int doctor(const DeviceOptions& options, Context& context) {
  Findings findings(!context.as_json);
  check_container(findings);
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text);
  check_parts(findings, *parts);
  const auto settings = options.read();
  if (!settings) findings.fault(settings.error().text, "correct the settings");
  const bool running =
      check_emulator(findings, control::runtime_dir_path(), settings ? &*settings : nullptr);
  if (settings && !running) check_addresses(findings, *settings);
  check_kernel(findings);
  if (settings && !running && findings.faults() == 0) check_start(findings, *parts, *settings);
  const bool is_fine = findings.faults() == 0;
  if (context.as_json) {
    print_as_json(findings, context);
  } else if (is_fine) {
    std::puts("all in place");
  } else {
    std::printf("%d fault(s)\n", findings.faults());
  }
  return is_fine ? kOk : kFailed;
}

}  // namespace

void add_doctor(CLI::App& app, Context& context) {
  auto options = std::make_shared<DeviceOptions>();
  CLI::App* command = app.add_subcommand("doctor",
                                         "Check that everything is in place, and say how to mend "
                                         "each fault. Exits with 1 on a fault.");
  options->add_to(*command);
  add_json_option(*command, context);
  command->callback([options, &context] { context.exit_code = doctor(*options, context); });
}

}  // namespace verbena::cli
