// All contexts of this process, for the moments when the process itself asks for something: it
// forks, it ends, or it reads a descriptor that may be one of theirs.
//
// A forked child has no progress thread and shares its descriptors with the parent. It must not
// take the parent's packets, nor keep the parent's slot alive when the parent dies: in the child
// every context is dead. At exit what is owed to peers is sent, since a process often ends right
// after it has read its last completion, and the peer still waits for that acknowledgement.
#pragma once

#include <functional>

namespace verbena::provider {

class Context;

// Throws std::bad_alloc.
void add_live_context(Context& context);
void remove_live_context(Context& context) noexcept;

// Whether `found` says so of one of them; none goes away meanwhile.
bool any_live_context(const std::function<bool(Context&)>& found) noexcept;

}  // namespace verbena::provider
