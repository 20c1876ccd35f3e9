// SPDX-License-Identifier: BSD-2-Clause
#include "program_check.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {
namespace {

constexpr int kProgramHeadersMax = 64;

// Returns the file that execvp would find; empty: none.
std::string find(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/bin:/usr/bin";
  for (std::size_t at = 0; at <= rest.size();) {
    const std::size_t end = std::min(rest.find(':', at), rest.size());
    const std::string dir = end == at ? "." : rest.substr(at, end - at);
    const std::string file = dir + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

template <typename T>
bool read_at(int fd, std::uint64_t offset, T& value) {
  return ::pread(fd, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
}

// Returns true if a 64-bit program has a loader, false if it is static.
bool has_interpreter(int fd, const Elf64_Ehdr& header) {
  for (int i = 0; i < header.e_phnum && i < kProgramHeadersMax; ++i) {
    Elf64_Phdr part;
    const auto index = static_cast<std::uint64_t>(i);
    if (!read_at(fd, header.e_phoff + index * header.e_phentsize, part)) return true;
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

// Returns true for a program that has more rights than its caller: the loader drops its LD_PRELOAD.
bool gains_rights(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return false;
  if ((file.st_mode & S_ISUID) != 0 && file.st_uid != ::getuid()) return true;
  if ((file.st_mode & S_ISGID) != 0 && file.st_gid != ::getgid()) return true;
  return ::getuid() != 0 && ::fgetxattr(fd, "security.capability", nullptr, 0) > 0;
}

// Returns true also if the machine cannot be read, which is no reason to complain.
bool is_own_machine(Elf64_Half machine) {
  Elf64_Ehdr own;
  const control::UniqueFd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  return !fd || !read_at(fd.get(), 0, own) || own.e_machine == machine;
}

}  // namespace

std::optional<std::string> why_no_device(const std::string& program) {
  const std::string file = find(program);
  const control::UniqueFd fd(file.empty() ? -1 : ::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr header;
  if (!fd || !read_at(fd.get(), 0, header)) return std::nullopt;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (gains_rights(fd.get())) {
    return file +
           " runs with more rights than you have (set-user-ID or capabilities): LD_PRELOAD "
           "is ignored for it, so it will see no emulated device";
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || !is_own_machine(header.e_machine)) {
    return file +
           " is for another kind of processor than this Verbena: it will see no emulated "
           "device";
  }
  if (!has_interpreter(fd.get(), header)) {
    return file +
           " is statically linked: nothing can be preloaded into it, so it will see no "
           "emulated device; link it dynamically";
  }
  return std::nullopt;
}

}  // namespace verbena::cli
