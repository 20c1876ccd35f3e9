// SPDX-License-Identifier: BSD-2-Clause
// The contexts of this process, and the handles of each. A program may import a duplicate of a
// context's descriptor (ibv_import_device). The new handle is one more handle of the same context,
// which ends with its last handle.
//
// The list also serves when the process itself asks for something: it forks, it ends, or it reads a
// descriptor that may be a context's. A forked child has no progress thread and shares its
// descriptors with the parent. It must not take the parent's packets, nor keep the parent's slot
// alive when the parent dies: in the child every context is dead. At exit the pending ACKs are
// sent, since a process often ends right after it has read its last completion, and the peer still
// waits for that acknowledgement.
//
// Any thread. The lock in here is taken before all others.
#pragma once

#include <infiniband/verbs.h>

#include <functional>

namespace verbena::provider {

class Context;

// Adds a context with one handle; remove_context() is called before the context ends. Throws
// std::bad_alloc.
void add_context(Context& context);
void remove_context(const Context& context) noexcept;
// Adds a handle to the context behind this descriptor, or returns null if this process has no such
// context.
Context* share_context(int cmd_fd) noexcept;
// Gives a handle back. Returns true if it was the last; the context gets no further ones.
bool release_context(Context& context) noexcept;

// The handles of a context beside its first one.
void add_handle(Context& context, ibv_context* handle);
void remove_handle(Context& context, ibv_context* handle) noexcept;
// Returns whether `handle`, which may belong to any context, is one of this context's.
bool is_handle_of(Context& context, const ibv_context* handle) noexcept;

// Returns whether `found` is true for one of the contexts. No context goes away meanwhile.
bool any_live_context(const std::function<bool(Context&)>& found);
// Wakes the threads of all engines.
void wake_live_contexts() noexcept;

}  // namespace verbena::provider
