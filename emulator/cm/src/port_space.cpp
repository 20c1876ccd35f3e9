// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/port_space.hpp"

#include <algorithm>
#include <cerrno>

namespace verbena::cm {

std::optional<PortSpace> space_named_by(const SocketAddress& address, PortSpace own) {
  constexpr std::uint64_t kSpaceMask = 0xffffffffffff0000;
  const std::uint64_t mask = address.service_mask & kSpaceMask;
  const std::uint64_t wanted = address.service_id & mask;
  const auto names = [&](PortSpace space) {
    return (own == PortSpace::kIb || own == space) && wanted == (service_id_of(space, 0) & mask);
  };
  for (const PortSpace space : {PortSpace::kIb, PortSpace::kTcp, PortSpace::kUdp}) {
    if (names(space)) return space;
  }
  return std::nullopt;
}

int PortTable::conflict(const std::vector<Binding>& others, const Binding& binding,
                        bool reuse_address) const {
  for (const Binding& other : others) {
    if (other.owner == binding.owner) continue;
    if (reuse_address && other.reuse_address && !other.listening) continue;
    if (binding.family_only && other.family_only &&
        binding.address.family != other.address.family) {
      continue;
    }
    if (binding.address.is_any() || other.address.is_any()) return EADDRNOTAVAIL;
    if (binding.address.family == other.address.family && binding.address.ip == other.address.ip) {
      return EADDRINUSE;
    }
  }
  return 0;
}

int PortTable::bind(PortSpace space, Binding& binding) {
  if (binding.address.port != 0) {
    auto it = ports_.find({space, binding.address.port});
    if (it != ports_.end()) {
      if (const int error = conflict(it->second, binding, binding.reuse_address)) return error;
    }
    ports_[{space, binding.address.port}].push_back(binding);
    return 0;
  }
  constexpr std::uint32_t kRange = kLastEphemeral - kFirstEphemeral + 1;
  const auto start = static_cast<std::uint32_t>(random_.below(kRange));
  for (std::uint32_t i = 0; i < kRange; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstEphemeral + (start + i) % kRange);
    if (ports_.contains({space, port})) continue;
    binding.address.port = port;
    ports_[{space, port}].push_back(binding);
    return 0;
  }
  return EADDRNOTAVAIL;
}

PortTable::Binding* PortTable::find(PortSpace space, std::uint16_t port, std::uint32_t owner) {
  const auto it = ports_.find({space, port});
  if (it == ports_.end()) return nullptr;
  const auto found = std::find_if(it->second.begin(), it->second.end(),
                                  [&](const Binding& b) { return b.owner == owner; });
  return found == it->second.end() ? nullptr : &*found;
}

int PortTable::listen(PortSpace space, std::uint16_t port, std::uint32_t owner) {
  Binding* own = find(space, port, owner);
  if (own == nullptr) return EINVAL;
  if (const int error = conflict(ports_[{space, port}], *own, false)) return error;
  own->listening = true;
  return 0;
}

void PortTable::set_options(PortSpace space, std::uint16_t port, std::uint32_t owner,
                            bool reuse_address, bool family_only) {
  Binding* own = find(space, port, owner);
  if (own == nullptr) return;
  own->reuse_address = reuse_address;
  own->family_only = family_only;
}

void PortTable::release(PortSpace space, std::uint16_t port, std::uint32_t owner) {
  const auto it = ports_.find({space, port});
  if (it == ports_.end()) return;
  std::erase_if(it->second, [&](const Binding& b) { return b.owner == owner; });
  if (it->second.empty()) ports_.erase(it);
}

std::uint32_t PortTable::listener(PortSpace space, std::uint16_t port, Family family,
                                  const IpAddress& destination) const {
  const auto it = ports_.find({space, port});
  if (it == ports_.end()) return 0;
  std::uint32_t wildcard = 0;
  for (const Binding& b : it->second) {
    if (!b.listening) continue;
    if (b.address.is_any()) {
      if (!b.family_only || b.address.family == family) wildcard = b.owner;
    } else if (b.address.family == family && b.address.ip == destination) {
      return b.owner;
    }
  }
  return wildcard;
}

}  // namespace verbena::cm
