// SPDX-License-Identifier: BSD-2-Clause
// The contexts of this process, and the handles of each. A duplicate of a context's descriptor can
// be imported (ibv_import_device): the new handle is one more of the same context, which ends with
// the last of its handles.
//
// Any thread. Its lock is taken before all others.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::provider {

class Context;

// With one handle. Throws std::bad_alloc.
void add_context(Context& context, int cmd_fd);
// One more handle of the context behind this descriptor; null when it is none of this process's.
Context* share_context(int cmd_fd) noexcept;
// Gives a handle back. True: it was the last, and the context is known here no more.
bool release_context(Context& context) noexcept;

// The handles of a context beside its first one.
void add_handle(Context& context, ibv_context* handle);
void remove_handle(Context& context, ibv_context* handle) noexcept;
// Whether a handle, of anybody's, is one of this context's.
bool is_handle_of(Context& context, const ibv_context* handle) noexcept;

// Around a fork: nobody else is at the list, in the child either.
void hold_live_contexts();
void free_live_contexts() noexcept;

}  // namespace verbena::provider
