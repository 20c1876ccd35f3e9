// SPDX-License-Identifier: BSD-2-Clause
// The contexts of this process, and the handles of each. A program may import a duplicate of a
// context's descriptor (ibv_import_device). The new handle is one more handle of the same context,
// which ends with its last handle.
//
// Any thread. The lock in here is taken before all others.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::provider {

class Context;

// Adds a context with one handle. Throws std::bad_alloc.
void add_context(Context& context, int cmd_fd);
// Adds a handle to the context behind this descriptor, or returns null if this process has no such
// context.
Context* share_context(int cmd_fd) noexcept;
// Gives a handle back. Returns true if it was the last; the context is not listed any more.
bool release_context(Context& context) noexcept;

// The handles of a context beside its first one.
void add_handle(Context& context, ibv_context* handle);
void remove_handle(Context& context, ibv_context* handle) noexcept;
// Returns whether `handle`, which may belong to any context, is one of this context's.
bool is_handle_of(Context& context, const ibv_context* handle) noexcept;

// Around a fork, these keep other threads from the list, in the child as well.
void hold_live_contexts();
void free_live_contexts() noexcept;

}  // namespace verbena::provider
