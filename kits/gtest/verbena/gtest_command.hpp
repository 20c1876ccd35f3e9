// SPDX-License-Identifier: BSD-2-Clause
// Runs the command `verbena` for verbena/gtest.hpp. Not part of the API.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern char** environ;

namespace verbena::testing::detail {

inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Returns the command that find_package(Verbena) has found, or else the one in PATH.
inline std::string program() {
#ifdef VERBENA_PROGRAM
  return VERBENA_PROGRAM;
#else
  return "verbena";
#endif
}

inline std::string own_program() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

inline std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Replaces this process by a program. Returns, with errno, only if that fails.
inline void become(std::vector<std::string> words) {
  ::execvp(words.front().c_str(), pointers_to(words).data());
}

struct Said {
  int exit_code = -1;
  std::string text;  // on stdout and stderr together
};

// Runs `verbena WORDS` to its end.
inline Said ask(std::vector<std::string> words) {
  words.insert(words.begin(), program());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {-1, std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int code = ::posix_spawnp(&child, words.front().c_str(), &actions, nullptr,
                                  pointers_to(words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Said said;
  if (code != 0) {
    ::close(ends[0]);
    said.text = "cannot run '" + words.front() + "': " + std::strerror(code);
    return said;
  }
  char part[4096];
  for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0 || (n < 0 && errno == EINTR);) {
    if (n > 0) said.text.append(part, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) said.exit_code = WEXITSTATUS(status);
  return said;
}

}  // namespace verbena::testing::detail
