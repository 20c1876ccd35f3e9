// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/id_options.hpp"

#include <cerrno>
#include <cstring>

namespace verbena::cm {
namespace {

template <typename T>
bool read_option(std::span<const std::uint8_t> value, T& out) {
  if (value.size() != sizeof out) return false;
  std::memcpy(&out, value.data(), sizeof out);
  return true;
}

}  // namespace

std::optional<QpType> qp_type_in(std::uint16_t port_space, std::uint8_t chosen) {
  switch (static_cast<PortSpace>(port_space)) {
    case PortSpace::kTcp:
      return QpType::kRc;
    case PortSpace::kUdp:
    case PortSpace::kIpoib:
      return QpType::kUd;
    case PortSpace::kIb:
      break;
    default:
      return std::nullopt;
  }
  switch (const auto type = static_cast<QpType>(chosen)) {
    case QpType::kRc:
    case QpType::kUc:
    case QpType::kUd:
    case QpType::kXrcSend:
    case QpType::kXrcRecv:
      return type;
    default:
      return std::nullopt;
  }
}

int set_id_option(RdmaId& id, std::uint32_t name, std::span<const std::uint8_t> value) {
  enum : std::uint32_t { kTos = 0, kReuseAddr = 1, kAfOnly = 2, kAckTimeout = 3 };
  std::uint8_t byte = 0;
  std::int32_t word = 0;
  switch (name) {
    case kTos:
      if (!read_option(value, byte)) return EINVAL;
      id.tos = byte;
      return 0;
    case kReuseAddr:
      if (!read_option(value, word)) return EINVAL;
      if (id.state == IdState::kListening || (id.state != IdState::kIdle && word == 0)) {
        return EINVAL;
      }
      id.reuse_address = word != 0;
      return 0;
    case kAfOnly:
      if (!read_option(value, word)) return EINVAL;
      if (id.state != IdState::kIdle && id.state != IdState::kBound) return EINVAL;
      id.family_only = word != 0;
      id.family_only_set = true;
      return 0;
    case kAckTimeout:
      if (!read_option(value, byte)) return EINVAL;
      if (id.qp_type != QpType::kRc && id.qp_type != QpType::kXrcSend) return EINVAL;
      id.ack_timeout = static_cast<std::uint8_t>(byte & 0x1f);
      return 0;
    default:
      return ENOSYS;
  }
}

bool has_usable_path(std::span<const std::uint8_t> records) {
  constexpr std::size_t kRecord = 72;
  constexpr std::uint32_t kWanted = 1 | 2 | 8 | 32;  // GMP, primary, outbound, inbound reverse
  if (records.size() % kRecord != 0) return false;
  for (; !records.empty(); records = records.subspan(kRecord)) {
    std::uint32_t flags = 0;
    std::memcpy(&flags, records.data(), sizeof flags);
    if (flags == kWanted) return true;
  }
  return false;
}

}  // namespace verbena::cm
