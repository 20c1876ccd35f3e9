// SPDX-License-Identifier: BSD-2-Clause
// Tells from the emulator's events which program had a queue pair that no program has any more, and
// how it has ended. A user wants to know that if another program waits for it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace verbena::cli {

class Departures {
 public:
  // A queue pair that no program has any more, as its peer knows it.
  struct Missing {
    std::string qpn;
    std::string address;
  };
  // The last program that has connected a queue pair of this number.
  struct Owner {
    std::uint32_t pid = 0;  // 0: no such program is known
    std::string program;
    std::string end;  // "died by SIGKILL 3 s ago"; empty: it still has the device open
  };

  // Takes events in their order, in the lines that `verbena events --json` prints.
  void take(const std::string& lines);
  // `address_of` has the addresses of devices by their names, `now` is the time of day in seconds.
  Owner owner_of(const Missing& missing, const std::map<std::string, std::string>& address_of,
                 double now) const;

 private:
  struct Connected {
    std::string device;
    std::string program;
    std::uint32_t pid;
    std::string qpn;
  };
  struct Process {
    int contexts = 0;  // how many are still open
    std::string end;   // how the last one was closed
    std::string time;
  };

  void take_event(const std::string& line);

  std::vector<Connected> connected_;
  std::map<std::pair<std::uint32_t, std::string>, Process> processes_;  // by pid and device
};

}  // namespace verbena::cli
