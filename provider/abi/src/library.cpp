// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/abi/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace verbena::abi {
namespace {

// Larger than the verbs_context of any known generation, with room for future ones.
constexpr std::size_t kContextRoom = 2048;

int remember_libibverbs(dl_phdr_info* info, std::size_t, void* path) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* name = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (std::strncmp(name, "libibverbs.so.1", 15) != 0) return 0;
  *static_cast<std::string*>(path) = info->dlpi_name;
  return 1;
}

template <typename F>
bool look_up(void* library, const char* symbol, const std::string& version, F*& to) {
  to = reinterpret_cast<F*>(dlvsym(library, symbol, version.c_str()));
  return to != nullptr;
}

// The newest of the library's public symbols and its private interface are looked for from the
// newest generation on.
unsigned newest_minor(void* library) {
  for (auto l = kLayouts.rbegin(); l != kLayouts.rend(); ++l) {
    const std::string version = "IBVERBS_1." + std::to_string(l->minor);
    if (dlvsym(library, l->newest, version.c_str()) != nullptr) return l->minor;
  }
  return 0;
}

unsigned private_abi(void* library) {
  for (auto l = kLayouts.rbegin(); l != kLayouts.rend(); ++l) {
    const std::string number = std::to_string(l->pabi);
    if (dlvsym(library, ("verbs_register_driver_" + number).c_str(),
               ("IBVERBS_PRIVATE_" + number).c_str()) != nullptr) {
      return l->pabi;
    }
  }
  return 0;
}

// Asks libibverbs itself: it takes a queue pair for an extended one when bit 1 is set in a word
// whose offset has changed within one generation.
std::size_t find_qp_flags(void* library) {
  using ToEx = ibv_qp_ex*(ibv_qp*);
  ToEx* to_ex = nullptr;
  if (!look_up(library, "ibv_qp_to_qp_ex", "IBVERBS_1.6", to_ex)) return 0;
  alignas(16) unsigned char probe[512];
  for (std::size_t offset = kWrAtomicWriteOffset; offset + 8 < sizeof probe; offset += 8) {
    std::memset(probe, 0, sizeof probe);
    std::memcpy(probe + offset, &kQpHasBuilder, sizeof kQpHasBuilder);
    if (to_ex(reinterpret_cast<ibv_qp*>(probe)) != nullptr) return offset;
  }
  return 0;
}

// libibverbs' own context ends with the public one. The word before the public context holds the
// size of the whole, by which applications find the way back, and by which it is found here.
ibv_context* find_public_context(unsigned char* start) {
  for (std::size_t offset = 256; offset + 8 + sizeof(ibv_context) <= kContextRoom; offset += 8) {
    std::size_t word = 0;
    std::memcpy(&word, start + offset, sizeof word);
    if (word == offset + 8 + sizeof(ibv_context)) {
      return reinterpret_cast<ibv_context*>(start + offset + 8);
    }
  }
  return nullptr;
}

}  // namespace

Result<Library, std::string> Library::find() {
  Library found;
  dl_iterate_phdr(&remember_libibverbs, &found.path_);
  if (found.path_.empty()) return Failure{std::string("no libibverbs.so.1 in this process")};
  void* library = dlopen(found.path_.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return Failure{"cannot look into " + found.path_};
  const unsigned pabi = private_abi(library);
  const unsigned minor = newest_minor(library);
  const auto generation = recognise(pabi, minor);
  if (!generation) {
    return Failure{
        found.path_ + " has a provider interface that this build does not know (private " +
        std::to_string(pabi) + ", public 1." + std::to_string(minor) + "); a newer Verbena may"};
  }
  found.layout_ = abi::layout(*generation);
  const std::string number = std::to_string(pabi);
  const std::string version = "IBVERBS_PRIVATE_" + number;
  found.qp_flags_offset_ = find_qp_flags(library);
  const bool complete =
      look_up(library, ("verbs_register_driver_" + number).c_str(), version,
              found.register_driver_) &&
      look_up(library, "verbs_set_ops", version, found.set_ops_) &&
      look_up(library, "_verbs_init_and_alloc_context", version, found.init_and_alloc_context_) &&
      look_up(library, "verbs_uninit_context", version, found.uninit_context_) &&
      found.qp_flags_offset_ != 0;
  if (!complete) return Failure{found.path_ + " lacks a function that every provider needs"};
  return found;
}

void Library::register_driver(const DriverDescription& d) const {
  auto* words = static_cast<const void**>(std::calloc(sizeof d / sizeof(void*), sizeof(void*)));
  if (words == nullptr) return;
  std::memcpy(words, &d, sizeof d);
  constexpr std::size_t kImport = offsetof(DriverDescription, import_context) / sizeof(void*);
  constexpr std::size_t kWords = sizeof d / sizeof(void*);
  if (layout_.generation < k31) {
    std::memmove(words + kImport, words + kImport + 1, (kWords - kImport - 1) * sizeof(void*));
  }
  register_driver_(words);
}

Library::ContextMemory Library::allocate_context(ibv_device* device, int cmd_fd,
                                                 std::size_t extra) const {
  ContextMemory memory;
  constexpr std::uint32_t kUnknownDriver = 0;
  auto* start = static_cast<unsigned char*>(
      init_and_alloc_context_(device, cmd_fd, kContextRoom + extra, nullptr, kUnknownDriver));
  if (start == nullptr) return memory;
  memory.context = find_public_context(start);
  if (memory.context == nullptr) {
    uninit_context_(start);
    std::free(start);
    errno = EPROTO;
    return memory;
  }
  memory.verbs_context = start;
  memory.extra = start + kContextRoom;
  return memory;
}

void* Library::verbs_context_of(ibv_context* context) {
  const std::size_t size = reinterpret_cast<const std::size_t*>(context)[-1];
  return reinterpret_cast<unsigned char*>(context + 1) - size;
}

ibv_context* Library::public_context_of(void* verbs_context) {
  return find_public_context(static_cast<unsigned char*>(verbs_context));
}

void* Library::extra_of(ibv_context* context) {
  return static_cast<unsigned char*>(verbs_context_of(context)) + kContextRoom;
}

void Library::free_context(ibv_context* context) const {
  void* start = verbs_context_of(context);
  uninit_context_(start);
  std::free(start);
}

}  // namespace verbena::abi
