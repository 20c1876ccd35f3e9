// SPDX-License-Identifier: BSD-2-Clause
#include "process_tree.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

// Returns nothing for a file that does not exist, or whose process ends meanwhile: a stream would
// throw then.
std::string text_of(const std::string& path) {
  std::string text;
  const control::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[4096];
  for (ssize_t n = 0; fd && (n = ::read(fd.get(), bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<std::size_t>(n));
  }
  return text;
}

// Parses /proc/PID/stat. The name stands in brackets and may hold anything, even brackets.
std::optional<Process> parse_stat(const std::string& stat) {
  const std::size_t open = stat.find('(');
  const std::size_t close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  Process process;
  process.pid = static_cast<pid_t>(std::strtol(stat.c_str(), nullptr, 10));
  process.name = stat.substr(open + 1, close - open - 1);
  std::istringstream fields(stat.substr(close + 1));
  std::string skipped;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  fields >> process.state >> process.parent;
  for (int i = 0; i < 9; ++i) fields >> skipped;
  fields >> user >> system;
  for (int i = 0; i < 4; ++i) fields >> skipped;
  fields >> process.threads >> skipped >> process.started;
  if (!fields) return std::nullopt;
  process.cpu = user + system;
  return process;
}

// Returns the names below a folder that are numbers.
std::vector<long> numbers_in(const std::string& folder) {
  std::vector<long> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    long number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size()) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::string folder_of(const Process& process) { return "/proc/" + std::to_string(process.pid); }

std::set<std::string> sockets_of(const Process& process) {
  std::set<std::string> inodes;
  const std::string folder = folder_of(process) + "/fd/";
  for (const long fd : numbers_in(folder)) {
    std::error_code error;
    const std::string target = fs::read_symlink(folder + std::to_string(fd), error);
    constexpr std::string_view kSocket = "socket:[";
    if (!error && target.starts_with(kSocket)) {
      inodes.insert(target.substr(kSocket.size(), target.size() - kSocket.size() - 1));
    }
  }
  return inodes;
}

// A line of the table:  sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
// ...
bool table_has_listener(const std::string& path, const std::set<std::string>& inodes) {
  constexpr std::string_view kListening = "0A";
  std::istringstream table(text_of(path));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    const std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
    if (word.size() > 9 && word[3] == kListening && inodes.contains(word[9])) return true;
  }
  return false;
}

}  // namespace

std::optional<Process> process_of(pid_t pid) {
  return parse_stat(text_of("/proc/" + std::to_string(pid) + "/stat"));
}

std::vector<Process> descendants_of(pid_t root, const std::set<pid_t>& strangers) {
  std::vector<Process> all;
  for (const long pid : numbers_in("/proc")) {
    if (auto process = process_of(static_cast<pid_t>(pid))) all.push_back(std::move(*process));
  }
  std::set<pid_t> family{root};
  std::vector<Process> found;
  for (bool grows = true; grows;) {
    grows = false;
    for (const Process& process : all) {
      if (!family.contains(process.parent) || strangers.contains(process.pid)) continue;
      if (!family.insert(process.pid).second) continue;
      found.push_back(process);
      grows = true;
    }
  }
  return found;
}

void send_signal(const Process& process, int signal) {
  const control::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  const auto now = process_of(process.pid);
  if (!now || now->started != process.started) return;
  if (pidfd) {
    (void)::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
  } else {
    ::kill(process.pid, signal);  // a container engine may forbid the other call
  }
}

bool listens_at_tcp(const std::vector<Process>& processes) {
  return std::any_of(processes.begin(), processes.end(), [](const Process& process) {
    const auto inodes = sockets_of(process);
    const std::string tables = folder_of(process) + "/net/";
    return !inodes.empty() && (table_has_listener(tables + "tcp", inodes) ||
                               table_has_listener(tables + "tcp6", inodes));
  });
}

bool any_is_busy(const std::vector<Process>& processes) {
  for (const Process& process : processes) {
    const std::string tasks = folder_of(process) + "/task/";
    for (const long thread : numbers_in(tasks)) {
      const auto stat = parse_stat(text_of(tasks + std::to_string(thread) + "/stat"));
      if (stat && (stat->state == 'R' || stat->state == 'D')) return true;
    }
  }
  return false;
}

}  // namespace verbena::cli
