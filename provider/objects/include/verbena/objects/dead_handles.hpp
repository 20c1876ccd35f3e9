// SPDX-License-Identifier: BSD-2-Clause
// What a handle points to after its object was destroyed. Its memory stays for a while, and its
// context is replaced by one whose every verb refuses. A program that uses a handle once too often
// is told so (EINVAL, and which verb) instead of reading freed memory. Only the public part of the
// object is left. Any thread; takes no lock, so it works in a forked child.
#pragma once

#include <infiniband/verbs.h>

#include <cstring>
#include <new>

#include "verbena/abi/library.hpp"
#include "verbena/objects/objects.hpp"

namespace verbena::provider {

// Makes the context of dead handles, once per process, before the first object can be destroyed. If
// there is no memory for it, objects are freed at once.
void prepare_limbo(const abi::Library& library, ibv_device* device) noexcept;

// Returns the context of dead handles, or null before the first device was opened.
ibv_context* limbo() noexcept;

template <typename Public>
bool is_dead(const Public* handle) noexcept {
  return handle->context == limbo();
}

namespace dead_handle {

// Keeps the memory and frees the oldest that was kept, if there is no room for more.
void keep(void* memory) noexcept;

// Replaces what libibverbs calls through pointers in the public part rather than through the
// context.
inline void silence(ibv_context*& context) noexcept { context = limbo(); }
void silence(abi::PrivateQp& qp) noexcept;
void silence(abi::PrivateCq& cq) noexcept;
void silence(ibv_dm& dm) noexcept;
template <typename Public>
void silence(Public& p) noexcept {
  silence(reinterpret_cast<ibv_context*&>(p));
}

}  // namespace dead_handle

// Ends an object that was made by new, in place of delete. Its first member must be its public
// part.
template <typename Object>
void bury(Object& object) noexcept {
  static_assert(alignof(Object) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  using Public = typename Object::Public;
  if (limbo() == nullptr) {
    delete &object;
    return;
  }
  alignas(Public) unsigned char kept[sizeof(Public)];
  void* const memory = &object;
  std::memcpy(kept, memory, sizeof kept);
  object.~Object();
  dead_handle::silence(*reinterpret_cast<Public*>(kept));
  std::memcpy(memory, kept, sizeof kept);
  dead_handle::keep(memory);
}

}  // namespace verbena::provider
