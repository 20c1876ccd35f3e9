// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/device_files.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "verbena/context/context.hpp"
#include "verbena/context/live_contexts.hpp"
#include "verbena/control/device_files.hpp"
#include "verbena/control/device_info.hpp"

namespace verbena::provider {
namespace {

using control::DeviceInfo;

// Returns the row that `file` names in a table such as "gids/", if the table is that long.
std::optional<std::size_t> row_in(std::string_view table, std::string_view file, std::size_t rows) {
  if (!file.starts_with(table)) return std::nullopt;
  file.remove_prefix(table.size());
  std::size_t row = 0;
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), row);
  if (error != std::errc{} || end != file.data() + file.size() || row >= rows) return std::nullopt;
  return row;
}

std::string hex(std::uint16_t value) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%04x", value);
  return text;
}

// Returns the line in a file of the port, in the words of the kernel (fabric/src/sysfs_text.cpp).
std::optional<std::string> line_of(const DeviceInfo& d, std::string_view file) {
  const bool is_roce = d.persona == control::Persona::kRoce;
  if (file == "link_layer") return is_roce ? "Ethernet" : "InfiniBand";
  if (const auto row = row_in("pkeys/", file, d.pkeys.size())) return hex(d.pkeys[*row]);
  const std::size_t gids = d.gids.size();
  if (const auto row = row_in("gids/", file, gids)) return d.gids[*row].gid.to_string();
  if (const auto row = row_in("gid_attrs/types/", file, gids)) {
    return d.gids[*row].type == control::GidType::kRoceV2 ? "RoCE v2" : "IB/RoCE v1";
  }
  if (const auto row = row_in("gid_attrs/ndevs/", file, gids)) {
    if (is_roce && !d.gids[*row].if_name.empty()) return d.gids[*row].if_name;
  }
  return std::nullopt;
}

bool is_called(const DeviceInfo& d, std::string_view name) {
  return name == d.name || name == "uverbs" + std::to_string(d.uverbs_number);
}

std::optional<std::string> line_of(std::string_view device, std::string_view file, int& error) {
  constexpr std::string_view kPort = "ports/1/";
  static_assert(control::kPortNumber == 1);
  std::optional<std::string> line;
  const bool is_open = any_live_context([&](Context& context) {
    const DeviceInfo info = context.info();
    if (!is_called(info, device)) return false;
    if (file.starts_with(kPort)) line = line_of(info, file.substr(kPort.size()));
    return true;
  });
  error = is_open ? ENOENT : ENODEV;
  return line;
}

// Is a control::DeviceFile.
ssize_t content_of(const char* device, const char* file, char* room, std::size_t size) {
  const int saved = errno;
  int error = ENOMEM;
  ssize_t written = -1;
  try {
    if (const auto line = line_of(device, file, error)) {
      const std::string text = *line + "\n";
      written = static_cast<ssize_t>(std::min(size, text.size()));
      std::memcpy(room, text.data(), static_cast<std::size_t>(written));
    }
  } catch (const std::bad_alloc&) {
    written = -1;
  }
  errno = saved;
  return written >= 0 ? written : -error;
}

}  // namespace

void offer_device_files() noexcept {
  auto* const offer = reinterpret_cast<control::OfferDeviceFiles*>(
      ::dlsym(RTLD_DEFAULT, control::kOfferDeviceFiles));
  if (offer != nullptr) offer(&content_of);
}

}  // namespace verbena::provider
