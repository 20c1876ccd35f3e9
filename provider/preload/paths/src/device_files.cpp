// SPDX-License-Identifier: BSD-2-Clause
#include "paths/device_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "real/export.hpp"
#include "real/real.hpp"
#include "real/trace.hpp"
#include "verbena/control/device_files.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/preload/paths.hpp"

namespace verbena::preload {
namespace {

// The plugin's function. One plugin is loaded into a process.
constinit std::atomic<control::DeviceFile*> plugin{nullptr};

}  // namespace

std::optional<std::string> device_file(const std::string& device, const std::string& file) {
  control::DeviceFile* const content = plugin.load(std::memory_order_acquire);
  if (content == nullptr) return std::nullopt;
  std::array<char, 256> room;
  const ssize_t size = content(device.c_str(), file.c_str(), room.data(), room.size());
  if (size < 0) return std::nullopt;
  return std::string(room.data(), static_cast<std::size_t>(size));
}

int open_device_file(const char* path, int flags) {
  constexpr int kNotForReading = O_ACCMODE | O_CREAT | O_TRUNC | O_DIRECTORY | O_PATH;
  if (*path != '/' || (flags & kNotForReading) != O_RDONLY) return -1;
  const std::string absolute = normalise(path);
  const Place place = place_of(absolute);
  if (place.root != Root::kInfiniBand || place.rest.empty()) return -1;
  const auto content = device_file(std::string(place.name), std::string(place.rest.substr(1)));
  if (!content) return -1;
  const unsigned kind = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0;
  control::UniqueFd fd(::memfd_create("verbena-device-file", kind));
  const auto size = static_cast<ssize_t>(content->size());
  if (!fd || ::pwrite(fd.get(), content->data(), content->size(), 0) != size) return -1;
  VERBENA_TRACE("%s: the content comes from the plugin", path);
  return fd.release();
}

}  // namespace verbena::preload

VERBENA_EXPORT void verbena_offer_device_files(verbena::control::DeviceFile* content) {
  verbena::preload::plugin.store(content, std::memory_order_release);
}
