// SPDX-License-Identifier: BSD-2-Clause
// The further addresses of a port: those of its interface, besides its own, that have rows in the
// GID table. They cost nothing until they are used.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbena/control/address_plan.hpp"
#include "verbena/fabric/port.hpp"
#include "verbena/fabric/socket_failure.hpp"

namespace verbena::fabric {
namespace {

using control::fail;
using control::Outcome;

}  // namespace

std::vector<IpAddress> Port::addresses() const {
  std::vector<IpAddress> all{info_.address};
  if (info_.persona != control::Persona::kRoce) return all;
  for (const control::GidEntry& row : info_.gids) {
    const auto address = control::address_of_gid(row.gid);
    if (address && std::ranges::find(all, *address) == all.end()) all.push_back(*address);
  }
  return all;
}

bool Port::has_address(const IpAddress& address) const {
  if (address == info_.address) return true;
  if (info_.persona != control::Persona::kRoce) return false;
  return std::ranges::any_of(info_.gids, [&](const control::GidEntry& row) {
    return control::address_of_gid(row.gid) == address;
  });
}

Outcome<link::FurtherSlots*> Port::further_at(const IpAddress& address) {
  for (const auto& further : further_) {
    if (further->local() == address) return further.get();
  }
  if (!has_address(address)) {
    return fail(EADDRNOTAVAIL,
                address.to_string() + " is no address of " + info_.name + " (any more)");
  }
  if (further_.size() + 1 >= link::PeerLink::kSourcesMax) {
    return fail(ENOSPC, "no more addresses of " + info_.name + " can be used at once");
  }
  auto slots = link::FurtherSlots::open(address, slot_options(info_));
  if (!slots) return failure_of(slots.error());
  auto link = open_link(slots->own_fd(), address);
  if (!link) return Failure<control::Error>{link.error()};
  const auto source = static_cast<std::uint8_t>(further_.size() + 1);
  if (!addresses_->add_source(source, std::move(*link))) {
    return fail(EMFILE, "no descriptors are left for " + address.to_string());
  }
  if (further_.empty()) poller_.watch(addresses_->further_wait_fd(), [this] { receive_own(); });
  further_.push_back(std::make_unique<link::FurtherSlots>(std::move(*slots)));
  descriptors_.take_for_nobody(kDescriptorsOfAddress);
  return further_.back().get();
}

Outcome<int> Port::socket_at(const IpAddress& address, Slot slot, std::span<const Slot> extra) {
  if (address == info_.address) return slots_.fd(slot);
  Context& context = contexts_.at(slot);
  if (!descriptors_.may_take(context.process, kDescriptorsPerAddress)) {
    return fail(EMFILE, "process " + std::to_string(context.process) +
                            " has its share of the emulator's descriptors");
  }
  const auto further = further_at(address);
  if (!further) return Failure<control::Error>{further.error()};
  if ((*further)->has_socket(slot)) return (*further)->socket_for(slot, extra).value();
  const std::size_t sockets = (*further)->sockets();
  const auto socket = (*further)->socket_for(slot, extra);
  descriptors_.take_for_nobody((*further)->sockets() - sockets);
  if (!socket) return failure_of(socket.error());
  descriptors_.take(context.process, kDescriptorsPerAddress);
  ++context.addresses;
  return *socket;
}

Outcome<std::uint8_t> Port::open_address(const IpAddress& address) {
  if (address != info_.address) {
    const auto opened = further_at(address);
    if (!opened) return Failure<control::Error>{opened.error()};
  }
  return *source_at(address);
}

std::optional<std::uint8_t> Port::source_at(const IpAddress& address) const {
  if (address == info_.address) return std::uint8_t{0};
  for (std::size_t i = 0; i < further_.size(); ++i) {
    if (further_[i]->local() == address) return static_cast<std::uint8_t>(i + 1);
  }
  return std::nullopt;
}

}  // namespace verbena::fabric
