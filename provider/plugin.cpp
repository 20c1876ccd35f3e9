// SPDX-License-Identifier: BSD-2-Clause
// Runs when libibverbs loads the provider: finds out which libibverbs that is, and registers with
// it. If anything goes wrong, the process has no emulated device, and one line says why.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "verbena/base/standard_streams.hpp"
#include "verbena/context/context.hpp"
#include "verbena/context/device_files.hpp"
#include "verbena/context/live_contexts.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/control/user_lines.hpp"
#include "verbena/link/futex.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/progress/last_threads.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/report/planned_failures.hpp"
#include "verbena/report/setting.hpp"
#include "verbena/verbs/ruled_calls.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

// Constant once the library is loaded.
struct Plugin {
  abi::Library library;
  abi::Ops ops;
};
Plugin* plugin = nullptr;

// An empty table of matches; zeros end it. libibverbs searches the table of every provider, without
// asking whether it has one, when the kernel lists a device with a driver of its own.
constexpr std::array<std::uint64_t, 8> kNoMatches{};
// libibverbs keeps a pointer to our context behind each context of its own.
constexpr std::size_t kPrivateBytes = sizeof(void*);

abi::Ops all_ops() {
  abi::Ops ops;
  offer_device_verbs(ops);
  offer_memory_verbs(ops);
  offer_device_memory_verbs(ops);
  offer_import_verbs(ops);
  offer_window_verbs(ops);
  offer_completion_verbs(ops);
  offer_extended_completion_verbs(ops);
  offer_shared_receive_verbs(ops);
  offer_tag_matching_verbs(ops);
  offer_queue_pair_verbs(ops);
  offer_state_verbs(ops);
  offer_post_verbs(ops);
  offer_address_verbs(ops);
  offer_xrc_verbs(ops);
  return ops;
}

// libibverbs asks this for every device, including real adapters: looks only at the name until the
// device can only be ours.
bool is_ours(const abi::FoundDevice& found) {
  unsigned number = 0;
  if (std::sscanf(found.node_name, "uverbs%u", &number) != 1 ||
      number < control::kFirstUverbsNumber) {
    return false;
  }
  auto channel = control::connect_to_daemon(control::runtime_dir_path(&setting));
  if (!channel) return false;
  const auto welcome = control::say_hello(*channel, control::ClientKind::kProvider);
  if (!welcome) return false;
  for (const control::DeviceInfo& device : welcome->devices) {
    if (device.uverbs_number == number && device.name == found.device_name) return true;
  }
  return false;
}

bool match_device(abi::FoundDevice* found) noexcept {
  bool ours = false;
  errno_of([&] { ours = is_ours(*found); });
  return ours;
}

abi::PrivateDevice* alloc_device(abi::FoundDevice*) noexcept {
  return static_cast<abi::PrivateDevice*>(std::calloc(1, sizeof(abi::PrivateDevice)));
}

void uninit_device(abi::PrivateDevice* device) noexcept { std::free(device); }

// Sets the functions that libibverbs calls for this handle.
void offer_verbs(void* verbs_context, Context& context) {
  const abi::Ops ops = with_rules(plugin->ops, context.failing_calls());
  plugin->library.set_ops(verbs_context,
                          abi::pack(ops, plugin->library.layout().generation).data());
}

void* alloc_context(ibv_device* device, int cmd_fd, void*) noexcept {
  const auto memory = plugin->library.allocate_context(device, cmd_fd, kPrivateBytes);
  if (memory.context == nullptr) return nullptr;
  prepare_limbo(plugin->library, device);
  last_threads::note_program(&wake_live_contexts);
  Context* made = pointer_or_errno([&] {
    auto context = std::make_unique<Context>(plugin->library, memory.context, device->name);
    offer_device_files();
    return context.release();
  });
  if (made == nullptr) {
    const int saved = errno;
    plugin->library.free_context(memory.context);
    errno = saved;
    return nullptr;
  }
  ::new (memory.extra) Context*(made);
  offer_verbs(memory.verbs_context, *made);
  return memory.verbs_context;
}

void* open_context(ibv_device* device, int cmd_fd, void* private_data) noexcept {
  if (const int error = planned_failure_of_opening(); error != 0) {
    errno = error;
    return nullptr;
  }
  return alloc_context(device, cmd_fd, private_data);
}

// Replaces the connection that another process works with by one of our own.
void reconnect(const ibv_device& device, int cmd_fd) {
  const std::string node = std::string("/dev/infiniband/") + device.dev_name;
  const control::UniqueFd fresh(beyond_streams(::open(node.c_str(), O_RDWR | O_CLOEXEC)));
  if (!fresh || ::dup3(fresh.get(), cmd_fd, O_CLOEXEC) < 0) {
    refuse(errno, "ibv_import_device: %s cannot be opened (errno %d)", node.c_str(), errno);
  }
}

// Imports a context that another process has open. The new context gets its own engine and
// connection, and imports objects from the other process by asking for them.
void* import_from_another(ibv_device* device, int cmd_fd) noexcept {
  void* made = nullptr;
  errno_of([&] {
    std::string owner = control::abstract_name(cmd_fd, control::End::kOwn);
    if (owner.empty()) {
      refuse(EINVAL, "ibv_import_device: descriptor %d is not of an opened device", cmd_fd);
    }
    reconnect(*device, cmd_fd);
    made = alloc_context(device, cmd_fd, nullptr);
    if (made == nullptr) throw VerbRefused{errno};
    Context::of(plugin->library.public_context_of(made)).imports().set_owner(std::move(owner));
  });
  return made;
}

void* import_by(ibv_device* device, int cmd_fd) noexcept {
  Context* const shared = share_context(cmd_fd);
  if (shared == nullptr) return import_from_another(device, cmd_fd);
  const auto memory = plugin->library.allocate_context(device, cmd_fd, kPrivateBytes);
  if (memory.context == nullptr) {
    const int saved = errno;
    release_context(*shared);
    errno = saved;
    return nullptr;
  }
  memory.context->num_comp_vectors = shared->public_context()->num_comp_vectors;
  add_handle(*shared, memory.context);
  ::new (memory.extra) Context*(shared);
  offer_verbs(memory.verbs_context, *shared);
  return memory.verbs_context;
}

// libibverbs gives us a duplicate of the program's descriptor, which is the connection to the
// daemon, and closes the duplicate if the import fails.
void* import_context(ibv_device* device, int cmd_fd) noexcept {
  if (cmd_fd > STDERR_FILENO) return import_by(device, cmd_fd);
  const int moved = ::fcntl(cmd_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (moved < 0) return nullptr;
  void* const made = import_by(device, moved);
  const int saved = errno;
  ::close(made != nullptr ? cmd_fd : moved);
  errno = saved;
  return made;
}

void load() {
  auto library = abi::Library::find();
  if (!library) {
    control::tell_user("%s; no emulated device in this process", library.error().c_str());
    return;
  }
  abi::Ops ops = all_ops();
  if (const char* const list = setting("VERBENA_FAIL"); list != nullptr) {
    try {
      plan_failures(ops, list);
    } catch (const std::invalid_argument& wrong) {
      control::tell_user("%s; no emulated device in this process", wrong.what());
      return;
    }
  }
  keep_unruled(ops);
  plugin = new Plugin{*library, ops};
  abi::DriverDescription description{};
  description.name = "verbena";
  description.match_min_abi = control::kDeviceAbiVersion;
  description.match_max_abi = control::kDeviceAbiVersion;
  description.match_table = kNoMatches.data();
  description.match_device = &match_device;
  description.alloc_context = &open_context;
  description.import_context = &import_context;
  description.alloc_device = &alloc_device;
  description.uninit_device = &uninit_device;
  plugin->library.register_driver(description);
  // This happens before a device is opened. What it asks of the kernel costs nothing while the
  // process has one thread. With several threads the kernel waits until each processor has run
  // another task, which takes tens of milliseconds and would delay the opening.
  link::install_futex_lock_waiter();
}

__attribute__((constructor)) void on_load() {
  errno_of([] { load(); });
  last_threads::note_program(&wake_live_contexts);
}

}  // namespace
}  // namespace verbena::provider
