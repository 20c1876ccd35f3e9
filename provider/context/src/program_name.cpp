// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/program_name.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "verbena/base/standard_streams.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/fault/hash.hpp"
#include "verbena/fault/rule.hpp"
#include "verbena/report/setting.hpp"

namespace verbena::provider {
namespace {

std::string content_of(const char* path) {
  const control::UniqueFd fd(beyond_streams(::open(path, O_RDONLY | O_CLOEXEC)));
  std::string all;
  char part[4096];
  for (ssize_t n = 0; fd && (n = ::read(fd.get(), part, sizeof part)) > 0;) {
    all.append(part, static_cast<std::size_t>(n));
  }
  return all;
}

}  // namespace

// Two processes of one program are mostly its server and its client, and differ in how many
// arguments they got. The arguments themselves do not count: ports and temporary files change with
// each run.
std::uint64_t program_name_hash() {
  const std::string arguments = content_of("/proc/self/cmdline");
  const auto count =
      static_cast<std::uint64_t>(std::count(arguments.begin(), arguments.end(), '\0'));
  return fault::hash_of({fault::hash_of(content_of("/proc/self/comm")), count});
}

bool is_this_program(std::string_view name) {
  std::string comm = content_of("/proc/self/comm");
  if (!comm.empty() && comm.back() == '\n') comm.pop_back();
  if (fault::is_called(comm, name)) return true;
  const char* role = setting("VERBENA_ROLE");
  return role != nullptr && name == role;
}

}  // namespace verbena::provider
