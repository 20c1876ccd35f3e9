// SPDX-License-Identifier: BSD-2-Clause
#include "program_check.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kProgramHeadersMax = 64;
constexpr std::size_t kPathMax = 256;

// Returns the file that execvp would find; empty: none.
std::string find(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/bin:/usr/bin";
  for (std::size_t at = 0; at <= rest.size();) {
    const std::size_t end = std::min(rest.find(':', at), rest.size());
    std::string file = end == at ? "." : rest.substr(at, end - at);
    file.append("/").append(program);
    if (::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

template <typename T>
bool read_at(int fd, std::uint64_t offset, T& value) {
  return ::pread(fd, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
}

// Reads at most kPathMax bytes, up to `end`.
std::string text_at(int fd, std::uint64_t offset, std::string_view end) {
  std::array<char, kPathMax> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), static_cast<off_t>(offset));
  const std::string_view all(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  return std::string(all.substr(0, all.find_first_of(end)));
}

// The loader of a program.
struct Loader {
  enum class Kind { kNone, kNamed, kUnreadable } kind = Kind::kUnreadable;
  std::string path;

  bool is_of_musl() const { return fs::path(path).filename().string().starts_with("ld-musl"); }
};

// Returns the loader of a 64-bit program. A static program has none.
Loader loader_of(int fd, const Elf64_Ehdr& header) {
  for (int i = 0; i < header.e_phnum && i < kProgramHeadersMax; ++i) {
    Elf64_Phdr part;
    const auto index = static_cast<std::uint64_t>(i);
    if (!read_at(fd, header.e_phoff + index * header.e_phentsize, part)) return {};
    if (part.p_type != PT_INTERP) continue;
    return {Loader::Kind::kNamed, text_at(fd, part.p_offset, std::string_view("\0", 1))};
  }
  return {Loader::Kind::kNone, {}};
}

struct Program {
  std::string file;
  control::UniqueFd fd;
  Elf64_Ehdr header;
};

// Returns the program if it can be read and is one that the kernel loads itself.
std::optional<Program> open_program(const std::string& file) {
  Program program{file, control::UniqueFd(::open(file.c_str(), O_RDONLY | O_CLOEXEC)), {}};
  if (!program.fd || !read_at(program.fd.get(), 0, program.header)) return std::nullopt;
  if (std::memcmp(program.header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  return program;
}

// Returns the program that runs a script, or an empty word for a file that is no script.
std::string interpreter_of(const std::string& file) {
  const control::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string line = fd ? text_at(fd.get(), 0, "\n") : std::string();
  if (!line.starts_with("#!")) return {};
  const std::size_t begin = std::min(line.find_first_not_of(" \t", 2), line.size());
  return line.substr(begin, line.find_first_of(" \t", begin) - begin);
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

bool is_ours_to_load(const Elf64_Ehdr& header) {
  return header.e_ident[EI_CLASS] == ELFCLASS64 && is_own_machine(header.e_machine);
}

}  // namespace

std::optional<std::string> why_no_preload(const std::string& command) {
  const std::string file = find(command);
  const std::string interpreter = interpreter_of(file);
  const auto program = open_program(interpreter.empty() ? file : interpreter);
  if (!program || !is_ours_to_load(program->header)) return std::nullopt;
  if (!loader_of(program->fd.get(), program->header).is_of_musl()) return std::nullopt;
  return program->file +
         " is linked to musl; the devices are for programs of glibc, so it will see no emulated "
         "device";
}

std::optional<std::string> why_no_device(const std::string& command) {
  if (auto reason = why_no_preload(command)) return reason;
  const auto program = open_program(find(command));
  if (!program) return std::nullopt;
  const std::string& file = program->file;
  if (gains_rights(program->fd.get())) {
    return file +
           " runs with more rights than you have (set-user-ID or capabilities): LD_PRELOAD "
           "is ignored for it, so it will see no emulated device";
  }
  if (!is_ours_to_load(program->header)) {
    return file +
           " is for another kind of processor than this Verbena: it will see no emulated "
           "device";
  }
  if (loader_of(program->fd.get(), program->header).kind == Loader::Kind::kNone) {
    return file +
           " is statically linked: nothing can be preloaded into it, so it will see no "
           "emulated device; link it dynamically";
  }
  return std::nullopt;
}

}  // namespace verbena::cli
