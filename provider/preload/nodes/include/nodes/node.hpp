// SPDX-License-Identifier: BSD-2-Clause
// The character devices below /dev/infiniband that Verbena plays, by class: uverbs and
// rdma_cm; another (umad) is one more file and one more line in kNodeClasses (calls/).
//
// An open node is a socket that is bound to an abstract address of the form
//
//     \0 verbena-node / uverbs192 / 5f3e...          (name of the node, a random number)
//
// so the kernel itself remembers what a descriptor is: through dup, fork, execve and SCM_RIGHTS,
// and when the number is closed and used for something else behind our back. fd_table.hpp only
// remembers which numbers are worth asking about, so those that come by execve and by SCM_RIGHTS
// are looked at as they come.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::preload {

struct Node;

// Static data; the functions are called inside a Section, and set errno.
struct NodeClass {
  std::string_view prefix;  // "uverbs"
  bool is_numbered;         // uverbs192, but rdma_cm
  bool takes_over;          // ours even where the kernel has a node of the same name

  dev_t (*device_number)(std::uint32_t number);
  // A new descriptor, or -1. `name` as in /dev/infiniband, `own_name` for connect_to_emulator.
  int (*open)(const std::string& name, const std::string& own_name, int flags);
  // As write(2) and ioctl(2) on a descriptor of this class.
  ssize_t (*write)(int fd, const Node& node, const void* bytes, std::size_t size);
  int (*ioctl)(int fd, const Node& node, unsigned long request, void* argument);
  // Whether a write sleeps until a message comes to the descriptor: when `write` says EAGAIN, one
  // is awaited, outside of any Section, where the thread may be cancelled; and then `write` is
  // called again, and so on, for the message may have gone elsewhere. Null: none does.
  bool (*awaits_message)(const void* bytes, std::size_t size) = nullptr;
  // What a write does that needs nothing of the descriptor but what was noted when it was opened;
  // nothing if it does need more. The kernel is not asked whether the number still is what it was:
  // only for what comes to nothing once that opening is no more. Null: no such.
  std::optional<ssize_t> (*write_known)(int fd, const void* bytes, std::size_t size) = nullptr;

  bool awaits(const void* bytes, std::size_t size) const {
    return awaits_message != nullptr && awaits_message(bytes, size);
  }
};

// All that there are; what implements them knows nodes, and not the other way round.
extern const std::array<const NodeClass*, 2> kNodeClasses;

struct Node {
  const NodeClass* node_class = nullptr;
  std::uint32_t number = 0;
  std::uint64_t identity = 0;  // the random number of this opening; 0 of a name
};

// The node that a name below /dev/infiniband means.
std::optional<Node> node_of_name(std::string_view name);

// The node that a socket's own address (without the leading zero) tells of.
std::optional<Node> node_of_own_name(std::string_view own);

// The node behind a descriptor, asked from the kernel. Keeps errno.
std::optional<Node> node_of_fd(int fd);

// Notes a descriptor that came from elsewhere, if it is of a node. Keeps errno.
void notice(int fd);

// Opens a node and notes the descriptor. Keeps errno on success.
int open_node(const std::string& name, int flags);

// Whether a write of these bytes would sleep on a node of some class.
bool any_class_awaits(const void* bytes, std::size_t size);

// NodeClass::write_known of any class.
std::optional<ssize_t> write_known(int fd, const void* bytes, std::size_t size);

// What stat shows of `name`; also for names without a class (umad until it has one).
dev_t device_number_of(std::string_view name);

}  // namespace verbena::preload
