// SPDX-License-Identifier: BSD-2-Clause
// Tells which descriptor numbers may be ours. An entry is a hint, kept by number and inode. A hit
// is always checked against the kernel before anything is done differently, so a close, dup or
// close_range that went past us does no harm. Completion channels are read so often that they have
// a shorter check: they are opened with flags that no other file has. A thread that was found to
// read a channel before is checked only when it would wait or take what lies in the channel, not
// for an event that it finds itself. Lock-free; memory is mapped in pages as numbers are used.
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

// Returns what was noted for the number, without a check. Safe on any value; costs two loads.
Kind noted(int fd);

// Returns what was noted, or kNone if the descriptor is another file now. Keeps errno.
Kind verified(int fd);

// Returns which opening of a node was noted (Node::identity), or 0 for other kinds. Not checked.
std::uint64_t identity(int fd);

// The additional flags with which a channel's pipe is opened, if the system allows them. Readers do
// not notice them.
extern const int kSealFlags;
// Returns whether `flags`, as fcntl reports them for a descriptor that was noted as a channel, are
// exactly those of a sealed pipe. Such a descriptor blocks, and counts as verified.
bool is_sealed(int flags);

void mark(int fd, Kind kind, std::uint64_t identity = 0);

// Notes `to` like `from`, after a successful dup.
void copy(int from, int to);

}  // namespace verbena::preload::fd_table
