// SPDX-License-Identifier: BSD-2-Clause
// The libibverbs that this process has loaded: its generation and the few private functions that a
// provider needs. They are found at run time, so one provider binary serves every generation.
// Looked up once, when the provider is loaded; constant afterwards.
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
  // Fails with one line for users if there is no libibverbs, or one of an unknown generation.
  static Result<Library, std::string> find();

  const Layout& layout() const { return layout_; }
  // Returns the offset in a queue pair of the word that says whether it has builder functions.
  std::size_t qp_flags_offset() const { return qp_flags_offset_; }

  // libibverbs never unregisters a driver: the registration lasts as long as the process.
  void register_driver(const DriverDescription& description) const;

  // Makes a context of libibverbs for a device, followed by `extra` bytes for the caller. Returns
  // null pointers and sets errno when libibverbs refuses (it has then closed `cmd_fd`).
  struct ContextMemory {
    void* verbs_context = nullptr;  // what libibverbs expects to get back
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
