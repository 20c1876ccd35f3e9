// SPDX-License-Identifier: BSD-2-Clause
#include "paths/discovery.hpp"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "real/real.hpp"
#include "real/section.hpp"
#include "real/settings.hpp"
#include "real/trace.hpp"
#include "verbena/base/port_counters.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/control/user_lines.hpp"

namespace verbena::preload {
namespace {

// A host with a busy disk or busy processors can delay an emulator for seconds.
constexpr int kDiscoveryTimeoutMs = 8000;
constexpr std::uint64_t kBelievedNs = 100'000'000;

constinit std::atomic<std::uint64_t> alive_until_ns{0};
constinit std::atomic<bool> listed_devices{false};

std::uint64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// A connection on which Hello was said and answered.
struct Greeted {
  control::Channel channel;
  control::Welcome welcome;
};

Failure<control::Error> unreachable(int code) {
  const std::string dir = control::runtime_dir_path(&setting);
  if (code == ECONNREFUSED) {
    return control::fail(code, "no emulator is running; start one with: verbena up");
  }
  const auto checked = control::check_runtime_dir(dir);
  if (!checked) return Failure<control::Error>{checked.error()};
  if (code == ENOENT) {
    return control::fail(code, "no emulator is running in " + dir + "; start one with: verbena up");
  }
  return control::fail(code, "the emulator in " + dir + ": " + std::strerror(code));
}

constinit std::atomic<int> refusals_left{16};

// Returns whether explanations are wanted (`verbena run` asks for them) and `left` allows one more.
bool may_explain(const std::atomic<int>& left) {
  const char* log = setting("VERBENA_LOG");
  return log != nullptr && std::strstr(log, "explain") != nullptr && left.load() > 0;
}

void explain(std::atomic<int>& left, const char* what, const control::Error& error) {
  if (!may_explain(left)) return;
  if (left.fetch_sub(1) <= 0) return;
  control::tell_user("%s[%d]: %s: %s", program_invocation_short_name, ::getpid(), what,
                     error.text.c_str());
}

// Tells the program's user why the program finds no device of ours.
void explain(const control::Error& error) {
  static constinit std::atomic<int> left{1};
  explain(left, "no emulated device for this program", error);
}

control::Outcome<Greeted> greet() {
  control::UniqueFd fd = connect_to_emulator();
  if (!fd) return unreachable(errno);
  Greeted greeted{control::Channel(std::move(fd)), {}};
  auto welcome =
      control::say_hello(greeted.channel, control::ClientKind::kPreload, kDiscoveryTimeoutMs);
  if (!welcome) return Failure<control::Error>{welcome.error()};
  greeted.welcome = std::move(*welcome);
  return greeted;
}

}  // namespace

bool explains_refused_commands() { return may_explain(refusals_left); }

void explain_refused_command(const control::Error& error) {
  explain(refusals_left, "rdma_cm", error);
}

void explain_absence(int code) { explain(unreachable(code).error); }

void explain_unreachable(const std::string& node) {
  const int saved = errno;
  explain({saved, node + " cannot be opened: " + unreachable(ENOENT).error.text +
                      " (a process that has changed its user or its root directory keeps the "
                      "devices and rdma_cm channels that it has open, but opens no others)"});
  errno = saved;
}

std::string shadow_directory() {
  const std::string dir = control::runtime_dir_path(&setting);
  if (!control::check_runtime_dir(dir)) return {};
  return control::shadow_path(dir);
}

control::UniqueFd connect_to_emulator(std::string_view own_name) {
  // A stopped daemon with a full backlog must not block this program.
  auto channel = control::connect_to_daemon(control::runtime_dir_path(&setting),
                                            {own_name, kDiscoveryTimeoutMs / 1000});
  if (!channel) {
    errno = channel.error().code;
    return {};
  }
  alive_until_ns.store(now_ns() + kBelievedNs, std::memory_order_relaxed);
  return control::UniqueFd(channel->release());
}

bool is_emulator_alive() {
  if (now_ns() < alive_until_ns.load(std::memory_order_relaxed)) return true;
  return static_cast<bool>(connect_to_emulator());
}

std::vector<control::DeviceInfo> list_devices() {
  auto greeted = greet();
  if (!greeted) {
    VERBENA_TRACE("no devices: %s", greeted.error().text.c_str());
    explain(greeted.error());
    return {};
  }
  if (!greeted->welcome.devices.empty()) note_listed_devices();
  return std::move(greeted->welcome.devices);
}

bool has_listed_devices() { return listed_devices.load(std::memory_order_relaxed); }
void note_listed_devices() {
  listed_devices.store(true, std::memory_order_relaxed);
  restore_driver();
}

void refresh_counters(const std::string& device) {
  auto greeted = greet();
  if (!greeted) return;
  control::RefreshCounters request;
  request.device = device;
  const auto done = greeted->channel.call<control::Ack>(request, kDiscoveryTimeoutMs);
  if (!done) VERBENA_TRACE("counters of %s: %s", device.c_str(), done.error().text.c_str());
}

NamedCounters list_counters(const std::string& device) {
  NamedCounters named;
  auto greeted = greet();
  if (!greeted) return named;
  control::QueryCounters request;
  request.device = device;
  const auto counters = greeted->channel.call<control::Counters>(request, kDiscoveryTimeoutMs);
  if (!counters || counters->port.size() != kPortCounters ||
      counters->drops.size() != kDropReasons) {
    return named;
  }
  for (std::size_t i = 0; i < kPortCounters; ++i) {
    named.emplace_back(kPortCounterNames[i], counters->port[i]);
  }
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    named.emplace_back("rx_drop_" + std::string(kDropReasonNames[i]), counters->drops[i]);
  }
  return named;
}

control::Resources list_resources(const std::string& device, control::ResourcesOf of) {
  control::Resources all;
  auto greeted = greet();
  if (!greeted) return all;
  auto part = greeted->channel.call<control::Resources>(control::QueryResources{device, of},
                                                        kDiscoveryTimeoutMs);
  while (part) {
    for (auto& context : part->contexts) all.contexts.push_back(std::move(context));
    for (auto& id : part->cm_ids) all.cm_ids.push_back(std::move(id));
    all.cm_id_count += part->cm_id_count;
    if (part->last) return all;
    auto next = greeted->channel.receive(kDiscoveryTimeoutMs);
    if (!next || next->type() != control::MessageType::kResources) break;
    part = control::decode<control::Resources>(next->payload);
  }
  return all;
}

}  // namespace verbena::preload
