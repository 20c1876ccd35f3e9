// SPDX-License-Identifier: BSD-2-Clause
#include "verbs_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

namespace verbena::cli {
namespace {

// Every private ABI number that a release of rdma-core has had since v28.
constexpr std::array kPrivateAbis{65, 64, 59, 57, 34, 33, 25};

}  // namespace

control::Outcome<VerbsLibrary> find_verbs_library() {
  void* handle = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    return control::fail(ENOENT, std::string("libibverbs cannot be loaded: ") + ::dlerror());
  }
  VerbsLibrary library;
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    char real[PATH_MAX];
    library.path = ::realpath(map->l_name, real) != nullptr ? real : map->l_name;
  }
  for (const int abi : kPrivateAbis) {
    const std::string number = std::to_string(abi);
    const std::string symbol = "verbs_register_driver_" + number;
    const std::string version = "IBVERBS_PRIVATE_" + number;
    if (::dlvsym(handle, symbol.c_str(), version.c_str()) != nullptr) {
      library.private_abi = abi;
      break;
    }
  }
  ::dlclose(handle);
  return library;
}

}  // namespace verbena::cli
