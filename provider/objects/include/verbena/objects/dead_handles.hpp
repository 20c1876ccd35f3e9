// SPDX-License-Identifier: BSD-2-Clause
// What a handle points to after its object was destroyed. For a while its memory stays, and its
// context becomes one whose every verb refuses: a program that uses a handle once too often is told
// so (EINVAL, and which verb) instead of reading freed memory. Nothing of the object is left but
// its public part. Any thread; takes no lock, so it works in a forked child.
#pragma once

#include <infiniband/verbs.h>

#include <cstring>
#include <new>

#include "verbena/abi/library.hpp"
#include "verbena/objects/objects.hpp"

namespace verbena::provider {

// Makes the context of dead handles, once per process, before the first object can be destroyed.
// Without it (no memory) handles die as they always did.
void prepare_limbo(const abi::Library& library, ibv_device* device) noexcept;

// The context of dead handles; null before the first device was opened.
ibv_context* limbo() noexcept;

template <typename Public>
bool is_dead(const Public* handle) noexcept {
  return handle->context == limbo();
}

namespace dead_handle {

// Keeps the memory for as long as there is room, then gives the oldest back.
void keep(void* memory) noexcept;

// What is reached through pointers in the public part rather than through the context.
inline void silence(ibv_context*& context) noexcept { context = limbo(); }
void silence(abi::PrivateQp& qp) noexcept;
void silence(abi::PrivateCq& cq) noexcept;
void silence(ibv_dm& dm) noexcept;
template <typename Public>
void silence(Public& p) noexcept {
  silence(reinterpret_cast<ibv_context*&>(p));
}

}  // namespace dead_handle

// Ends an object that was made by new, in place of delete. Its first member is its public part.
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
