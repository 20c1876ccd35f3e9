// SPDX-License-Identifier: BSD-2-Clause
// The libibverbs that this process has loaded: which generation it is, and the few private
// functions of it that a provider needs, found at run time, so that one provider binary serves
// every generation. Looked up once, when the provider is loaded; constant afterwards.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "verbena/abi/layout.hpp"
#include "verbena/abi/objects.hpp"
#include "verbena/base/result.hpp"

namespace verbena::abi {

class Library {
 public:
  // Fails with one line for people: no libibverbs, or one of a generation that we do not know.
  static Result<Library, std::string> find();

  const Layout& layout() const { return layout_; }
  const std::string& path() const { return path_; }
  // Where a queue pair says that it has builder functions.
  std::size_t qp_flags_offset() const { return qp_flags_offset_; }

  // Never freed by libibverbs: what is registered stays for the life of the process.
  void register_driver(const DriverDescription& description) const;

  // A context of libibverbs for a device, with `extra` bytes of the caller's own behind it. Null
  // and errno when libibverbs refuses (it has closed `cmd_fd` then).
  struct ContextMemory {
    void* verbs_context = nullptr;  // what libibverbs wants to have back
    ibv_context* context = nullptr;
    void* extra = nullptr;
  };
  ContextMemory allocate_context(ibv_device* device, int cmd_fd, std::size_t extra) const;
  static void* verbs_context_of(ibv_context* context);
  static ibv_context* public_context_of(void* verbs_context);
  static void* extra_of(ibv_context* context);
  // Closes the descriptors and frees the memory of the context.
  void free_context(ibv_context* context) const;

  void set_ops(void* verbs_context, const void* packed_ops) const {
    set_ops_(verbs_context, packed_ops);
  }

 private:
  std::string path_;
  Layout layout_;
  std::size_t qp_flags_offset_ = 0;
  void (*register_driver_)(const void*) = nullptr;
  void (*set_ops_)(void*, const void*) = nullptr;
  void* (*init_and_alloc_context_)(ibv_device*, int, std::size_t, void*, std::uint32_t) = nullptr;
  void (*uninit_context_)(void*) = nullptr;
};

}  // namespace verbena::abi
