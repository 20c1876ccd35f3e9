// SPDX-License-Identifier: BSD-2-Clause
// The character devices below /dev/infiniband that Verbena implements, by class: uverbs and
// rdma_cm. Another class (umad) needs one more file and one more line in kNodeClasses (calls/).
//
// An open node is a socket that is bound to an abstract address of the form
//
//     \0 verbena-node / uverbs192 / 5f3e...          (name of the node, a random number)
//
// The kernel itself remembers what a descriptor is: through dup, fork, execve and SCM_RIGHTS, and
// when the number is closed and reused without our knowledge. fd_table.hpp only remembers which
// numbers are worth asking about. Therefore descriptors that come by execve or SCM_RIGHTS are
// looked at when they come.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::preload {

struct Node;

// Static data. The functions are called inside a Section, and set errno.
struct NodeClass {
  std::string_view prefix;  // "uverbs"
  bool is_numbered;         // uverbs192, but rdma_cm
  bool takes_over;          // whether ours wins over a node of the kernel with the same name

  dev_t (*device_number)(std::uint32_t number);
  // Returns a new descriptor or -1. `name` is as in /dev/infiniband; `own_name` is for
  // connect_to_emulator.
  int (*open)(const std::string& name, const std::string& own_name, int flags);
  // Do what write(2) and ioctl(2) do on a descriptor of this class.
  ssize_t (*write)(int fd, const Node& node, const void* bytes, std::size_t size);
  int (*ioctl)(int fd, const Node& node, unsigned long request, void* argument);
  // Returns whether a write sleeps until a message comes to the descriptor. When `write` then fails
  // with EAGAIN, the caller waits for a message, outside of any Section, where the thread may be
  // cancelled, and calls `write` again. This repeats, because another reader may have taken the
  // message. Null if no write sleeps.
  bool (*awaits_message)(const void* bytes, std::size_t size) = nullptr;
  // Does what a write does, if that needs only what was noted when the descriptor was opened;
  // returns nothing if it needs more. The kernel is not asked whether the number is still the same
  // file. Therefore this is only for writes that have no effect once that opening is closed. Null
  // if the class has no such writes.
  std::optional<ssize_t> (*write_known)(int fd, const void* bytes, std::size_t size) = nullptr;

  bool awaits(const void* bytes, std::size_t size) const {
    return awaits_message != nullptr && awaits_message(bytes, size);
  }
};

// All node classes. The rooms that implement them include this header, not the reverse.
extern const std::array<const NodeClass*, 2> kNodeClasses;

struct Node {
  const NodeClass* node_class = nullptr;
  std::uint32_t number = 0;
  std::uint64_t identity = 0;  // the random number of this opening; 0 if the node is only a name
};

// Returns the node that a name below /dev/infiniband means.
std::optional<Node> node_of_name(std::string_view name);

// Returns the node that a socket's own address (without the leading NUL) names.
std::optional<Node> node_of_own_name(std::string_view own);

// Asks the kernel for the node behind a descriptor. Keeps errno.
std::optional<Node> node_of_fd(int fd);

// Notes a descriptor that came from elsewhere, if it is a node. Keeps errno.
void notice(int fd);

// Opens a node and notes the descriptor. Keeps errno on success.
int open_node(const std::string& name, int flags);

// Returns whether a write of these bytes to a node of any class would sleep.
bool any_class_awaits(const void* bytes, std::size_t size);

// Calls NodeClass::write_known of each class until one answers.
std::optional<ssize_t> write_known(int fd, const void* bytes, std::size_t size);

// Returns the device number that stat shows for `name`, also for names without a class (umad).
dev_t device_number_of(std::string_view name);

}  // namespace verbena::preload
