// SPDX-License-Identifier: BSD-2-Clause
// Which descriptor numbers may be ours. A hint, kept by number and inode: a hit is always checked
// against the kernel before anything is done differently, so a close, dup or close_range that
// went past us does no harm. Completion channels are read so often that they have a shorter check,
// flags that no other file is opened with; and a thread that was found to read one before is
// checked when it would wait or take what lay there, not for an event that it finds itself at once.
// Lock-free; memory comes in pages as numbers are used.
#pragma once

#include <cstdint>

namespace verbena::preload::fd_table {

enum class Kind : std::uint8_t {
  kNone,
  kNode,            // a character device (node.hpp)
  kNetlinkReal,     // a NETLINK_RDMA socket of the kernel's (netlink.hpp)
  kNetlinkStandIn,  // a netlink socket that we answer
  kChannel,         // a completion channel that the plugin reads
};

// What was noted for the number; not yet checked. Safe on any value, costs two loads.
Kind noted(int fd);

// `noted`, if the descriptor is still the one that was noted. Keeps errno.
Kind verified(int fd);

// Of a node: which opening of it was noted (Node::identity); 0 of all others. Not checked, either.
std::uint64_t identity(int fd);

// A pipe is opened with these besides, if the system lets it. Who reads does not notice them.
extern const int kSealFlags;
// Whether `flags`, which fcntl says a descriptor has that was noted as a channel, are just those
// that a sealed pipe has: then it blocks, and is as good as verified.
bool is_sealed(int flags);

void mark(int fd, Kind kind, std::uint64_t identity = 0);

// After a successful dup of `from` to `to`.
void copy(int from, int to);

}  // namespace verbena::preload::fd_table
