// SPDX-License-Identifier: BSD-2-Clause
#include "silent_emulator.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <optional>

#include "process_tree.hpp"
#include "verbena/control/journal_messages.hpp"

namespace verbena::cli {
namespace {

// How long an answer may take on a busy machine.
constexpr int kPatienceMs = 4'000;

// Returns the emulator's process. Returns nothing if it is in another pid namespace, or gone.
std::optional<Process> find_process(const Emulator& emulator) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const int fd = emulator.channel.fd();
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid == 0) return {};
  return process_of(peer.pid);
}

}  // namespace

bool is_stopped(const Emulator& emulator) {
  const auto process = find_process(emulator);
  return process && (process->state == 'T' || process->state == 't');
}

std::string Silence::look() {
  if (!lasting_.empty()) return lasting_;
  const std::string name =
      "the emulator (pid " + std::to_string(emulator_.welcome.daemon_pid) + ")";
  if (is_stopped(emulator_)) return name + " is stopped";
  const auto heard = emulator_.channel.call<control::JournalText>(
      control::JournalQuery{control::JournalQuery::kNothing, false}, kPatienceMs);
  if (heard) return {};
  lasting_ = name + (heard.error().code == ECONNRESET ? " has ended" : " does not answer");
  return lasting_;
}

void let_go_on(const Emulator& emulator) {
  const auto process = find_process(emulator);
  if (process && is_stopped(emulator)) send_signal(*process, SIGCONT);
}

}  // namespace verbena::cli
