// SPDX-License-Identifier: BSD-2-Clause
#include "pair.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "command.hpp"
#include "silent_emulator.hpp"
#include "verbena/control/cm_messages.hpp"
#include "verbena/control/signal_name.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::cli {
namespace {

constexpr TimeNs kMs = 1'000'000;
constexpr TimeNs kLookNs = 20 * kMs;
// How long a server must rest to count as ready: with a queue pair, and if nothing of it is seen.
constexpr TimeNs kRestNs = 300 * kMs;
constexpr TimeNs kLongRestNs = 5000 * kMs;
// How long a server with a queue pair that listens nowhere must work to count as ready, and how
// often that is checked.
constexpr TimeNs kWorkNs = 10'000 * kMs;
constexpr TimeNs kLookAtWorkNs = 1000 * kMs;
// How long the server may live on after the client's end, and how long it may rest then if it
// listens: it waits for further clients.
constexpr TimeNs kLifeAtEndNs = 5000 * kMs;
constexpr TimeNs kRestAtEndNs = 500 * kMs;

std::set<pid_t> numbers_of(const std::vector<Process>& processes) {
  std::set<pid_t> pids;
  for (const Process& process : processes) pids.insert(process.pid);
  return pids;
}

}  // namespace

int Pair::run(const std::string& server, const std::string& client) {
  const control::UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (const auto failed = start("server", server, nothing.get(), server_)) {
    return children_.signal_to_end() ? end_by_signal() : *failed;
  }
  const bool is_ready = await_server();
  if (limit_.is_exceeded()) {
    await_end();
    complain("the client was not started: the server could not be reached until then");
    return exit_code();
  }
  if (children_.signal_to_end()) return end_by_signal();
  if (!is_ready) {
    limit_.end_now();
    await_end();
    return server_was_too_short();
  }
  if (const auto failed = start("client", client, -1, client_)) {
    if (children_.signal_to_end()) return end_by_signal();
    limit_.end_now();
    await_end();
    return *failed;
  }
  await_client();
  await_end();
  return exit_code();
}

std::optional<int> Pair::start(const char* name, const std::string& text, int in, pid_t& pid) {
  const auto [out, err] = output_.add_side(name);
  // The variable by which rules name this side.
  ::setenv("VERBENA_ROLE", name, 1);
  const auto started = children_.start({"sh", "-c", text}, {in, out, err});
  output_.forget_ends();
  if (!started && started.error().code == ECANCELED) return 0;  // run() asks for the signal
  if (!started) return complain(started.error().text, kRunFailed);
  pid = *started;
  return std::nullopt;
}

void Pair::step(TimeNs longest) {
  const TimeNs until = std::min(link::monotonic_now_ns() + longest, limit_.next());
  std::vector<pollfd> output = output_.waiting();
  children_.wait(until, output);
  output_.step(output);
  limit_.look();
}

// Returns false if the server is gone, the time is up, or a signal has asked for the end.
bool Pair::await_server() {
  while (!limit_.is_exceeded()) {
    step(kLookNs);
    if (children_.signal_to_end()) return false;
    const std::vector<Process> server = children_.living();
    const auto code = children_.exit_code_of(server_);
    if (server.empty() || code.value_or(0) != 0) {
      if (code) return false;
      continue;
    }
    if (is_reachable(server, link::monotonic_now_ns())) return true;
  }
  return false;
}

bool Pair::is_reachable(const std::vector<Process>& server, TimeNs now) {
  settled_.look(server, now);
  has_listened_ = listens(server);
  if (has_listened_) return true;
  const std::set<pid_t> pids = numbers_of(server);
  if (settled_.for_ns(now) >= kLongRestNs) {
    complain("the server listens nowhere that can be seen; the client is started all the same");
    return true;
  }
  if (settled_.for_ns(now) >= kRestNs) return has_queue_pair(pids);
  return has_worked_for_long(pids, now);
}

// Returns true if the server has had a queue pair for long while it worked: it may be waiting for
// the client by polling.
bool Pair::has_worked_for_long(const std::set<pid_t>& server, TimeNs now) {
  if (now < next_look_) return false;
  if (next_look_ == 0) works_since_ = now;
  next_look_ = now + kLookAtWorkNs;
  const bool has_pair = has_queue_pair(server);
  if (has_pair && pair_since_ == 0) pair_since_ = now;
  if (has_pair && now - pair_since_ >= kWorkNs) {
    complain(
        "the server is at work and listens nowhere that can be seen; the client is started "
        "all the same");
    return true;
  }
  if (!has_pair && !has_told_ && now - works_since_ >= kWorkNs) {
    complain("the server is at work and listens nowhere that can be seen; the client waits for it");
    has_told_ = true;
  }
  return false;
}

bool Pair::listens(const std::vector<Process>& server) {
  return listens_at_tcp(server) || listens_by_rdma_cm(numbers_of(server));
}

bool Pair::listens_by_rdma_cm(const std::set<pid_t>& server) {
  if (is_stopped(emulator_)) return false;
  const auto listeners = emulator_.channel.call<control::CmListeners>(control::QueryCmListeners{});
  if (!listeners) return false;
  return std::ranges::any_of(listeners->processes, [&](std::uint32_t process) {
    return server.contains(static_cast<pid_t>(process));
  });
}

bool Pair::has_queue_pair(const std::set<pid_t>& server) {
  bool found = false;
  if (is_stopped(emulator_)) return found;
  auto part = emulator_.channel.call<control::Resources>(control::QueryResources{});
  while (part) {
    for (const control::ContextResources& context : part->contexts) {
      found |= context.counts.qps != 0 && server.contains(static_cast<pid_t>(context.pid));
    }
    if (part->last) return found;
    const auto in = emulator_.channel.receive(control::kDefaultTimeoutMs);
    if (!in || in->type() != control::Resources::kType) return found;
    part = control::decode<control::Resources>(in->payload);
  }
  return found;
}

// The server has got the signal, and has its time to end by itself.
int Pair::end_by_signal() {
  has_listened_ = false;  // nobody waits for its exit code
  await_end();
  const int signal = *children_.signal_to_end();
  complain("the client was not started: " + std::string(control::signal_name(signal)) +
           " came before the server could be reached");
  return 128 + signal;
}

int Pair::server_was_too_short() const {
  const int code = children_.exit_code_of(server_).value_or(0);
  complain("the server ended with exit code " + std::to_string(code) +
           " before the client could be started");
  return code != 0 ? code : kRunFailed;
}

void Pair::await_client() {
  bool has_told = false;
  while (!children_.exit_code_of(client_) && !limit_.has_given_up()) {
    step(kNever / 2);
    const auto server = children_.exit_code_of(server_);
    if (has_told || !server || *server == 0 || limit_.is_exceeded()) continue;
    complain("the server ended with exit code " + std::to_string(*server) +
             " before the client did");
    has_told = true;
  }
}

void Pair::await_end() {
  const TimeNs begun = link::monotonic_now_ns();
  settled_ = Settled();
  while (children_.are_left() && !limit_.has_given_up()) {
    step(kLookNs);
    const TimeNs now = link::monotonic_now_ns();
    if (was_ended_ || limit_.is_exceeded()) continue;
    const std::vector<Process> left = children_.living();
    settled_.look(left, now);
    const bool has_time = now - begun < kLifeAtEndNs;
    if (has_time && (settled_.for_ns(now) < kRestAtEndNs || may_end_by_itself(left))) continue;
    was_ended_ = !children_.exit_code_of(server_);
    if (was_ended_ && has_listened_ && !listens(left)) {
      complain(
          "the server listened no more and has not ended five seconds after the client; it is "
          "ended now");
    }
    limit_.end_now();
  }
  output_.finish();
}

// Returns false if the server listens, or has ended and left others.
bool Pair::may_end_by_itself(const std::vector<Process>& left) {
  return !children_.exit_code_of(server_) && !listens(left);
}

int Pair::exit_code() const {
  const int client = children_.exit_code_of(client_).value_or(0);
  if (client != 0 || was_ended_) return client;
  return children_.exit_code_of(server_).value_or(0);
}

}  // namespace verbena::cli
