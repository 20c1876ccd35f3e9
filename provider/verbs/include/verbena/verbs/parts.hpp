// SPDX-License-Identifier: BSD-2-Clause
// Checks what a verb gets: the opened device, pointers that must not be null, and handles beside
// the one that it is called on, which must be alive and of the same device. Throws VerbRefused.
#pragma once

#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/context/live_contexts.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

// Returns the opened device, which must not have lost its emulator.
inline Context& alive_context(ibv_context* c, const char* verb) {
  Context& context = Context::of(c);
  context.check_alive(verb);
  return context;
}

inline void check_given(const char* verb, const char* name, const void* pointer) {
  if (pointer == nullptr) refuse(EINVAL, "%s: %s is NULL", verb, name);
}

// Returns the object behind a handle. `name` is that of the field or parameter.
template <typename Public>
auto& part_of(Context& context, const char* verb, const char* name, Public* handle) {
  check_given(verb, name, handle);
  if (is_dead(handle)) refuse(EINVAL, "%s: %s was destroyed before", verb, name);
  if (!is_handle_of(context, handle->context)) {
    refuse(EINVAL, "%s: %s belongs to another opened device", verb, name);
  }
  return object_of(handle);
}

}  // namespace verbena::provider
