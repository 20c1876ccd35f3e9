// SPDX-License-Identifier: BSD-2-Clause
// Reads what /proc says of the processes below one of ours, at the moment of the call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace verbena::cli {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = 0;             // of the first thread, as in /proc/PID/stat
  int threads = 0;            // also counts the first one when it has ended
  std::uint64_t started = 0;  // in clock ticks; tells it from a later process of this number
  std::uint64_t cpu = 0;      // in clock ticks, without its children
  std::string name;

  // A process goes on when its first thread has ended by pthread_exit and others have not.
  bool has_ended() const { return state == 'X' || (state == 'Z' && threads <= 1); }
};

// Returns nothing if there is no process of this number.
std::optional<Process> process_of(pid_t pid);

// Returns all that `root` has started and that these have started, without `root` itself, and with
// those of which only the exit code is left. Leaves out `strangers` and what is below them.
std::vector<Process> descendants_of(pid_t root, const std::set<pid_t>& strangers);

// Sends a signal to the process, if it is still the same one.
void send_signal(const Process& process, int signal);

// Returns true if one of these waits for connections at a TCP port.
bool listens_at_tcp(const std::vector<Process>& processes);

// Returns true if one of their threads runs or waits for a disk.
bool any_is_busy(const std::vector<Process>& processes);

}  // namespace verbena::cli
