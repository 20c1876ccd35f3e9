// SPDX-License-Identifier: BSD-2-Clause
#include "own_command.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "command.hpp"

namespace verbena::cli {
namespace {

[[noreturn]] void become(const OwnCommand& command) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGINT);
  ::setenv("VERBENA_RUNTIME_DIR", command.runtime_dir.c_str(), 1);
  ::unsetenv("LD_PRELOAD");  // meant for the program
  if (command.out >= 0) ::dup2(command.out, STDOUT_FILENO);
  if (command.err >= 0) ::dup2(command.err, STDERR_FILENO);
  if (command.longest_file) {
    const rlimit limit{*command.longest_file, *command.longest_file};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  static const std::string self = "/proc/self/exe";
  std::vector<char*> argv{const_cast<char*>("verbena")};
  for (const std::string& word : command.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(self.c_str(), argv.data());
  ::_exit(kNotFound);
}

}  // namespace

pid_t start_own_command(const OwnCommand& command) {
  const pid_t pid = ::fork();
  if (pid == 0) become(command);
  return pid;
}

}  // namespace verbena::cli
