// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/port.hpp"

#include <algorithm>

#include "verbena/context/address_vector.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

control::DeviceInfo Port::info() const {
  const std::lock_guard guard(lock_);
  return info_;
}

qp::PathAttributes Port::path_to(const char* verb, const ibv_ah_attr& ah, MayAsk may_ask) {
  qp::PathAttributes path = path_of(ah, engine_->plan());
  if (!path.is_global) return path;
  std::optional<IpAddress> own;
  {
    const std::lock_guard guard(lock_);
    const std::vector<control::GidEntry>& gids = info_.gids;
    path.has_local_gid = path.gid_index < gids.size() && !gids[path.gid_index].gid.is_zero();
    if (path.has_local_gid) own = engine_->plan().address_of_gid(gids[path.gid_index].gid);
  }
  // Multicast is sent from the port's own address.
  if (!own || !path.resolved || path.remote_gid.is_multicast()) return path;
  if (own->is_v4() != path.destination.address.is_v4()) {
    path.resolved = false;
    path.obstacle = qp::PathAttributes::Obstacle::kOtherFamily;
    return path;
  }
  std::string why_not = "it was not used before";
  std::optional<std::uint8_t> source = source_at(*own);
  if (!source && may_ask == MayAsk::kYes) source = open_address(*own, why_not);
  if (!source) {
    explain("%s: grh.sgid_index = %u (%s) cannot be used: %s", verb, path.gid_index,
            own->to_string().c_str(), why_not.c_str());
    path.resolved = false;
    path.obstacle = qp::PathAttributes::Obstacle::kLocalAddress;
  }
  path.destination.source = source.value_or(0);
  return path;
}

link::UdpOptions Port::udp_options() const {
  link::UdpOptions options;
  options.grh_from_port = info_.persona == control::Persona::kInfiniBand;
  options.first_source_port = info_.first_source_port;
  options.scope_id = info_.if_index;
  return options;
}

std::optional<std::uint8_t> Port::source_at(const IpAddress& own) const noexcept {
  if (own == engine_->device().options().address) return std::uint8_t{0};
  const std::lock_guard guard(lock_);
  const auto known = std::ranges::find(sources_, own);
  if (known == sources_.end()) return std::nullopt;
  return static_cast<std::uint8_t>(known - sources_.begin() + 1);
}

// Returns the addresses in the GID table, without the port's own.
std::vector<IpAddress> Port::addresses() const {
  std::vector<IpAddress> all;
  if (engine_->plan().infiniband) return all;
  const std::lock_guard guard(lock_);
  for (const control::GidEntry& row : info_.gids) {
    const auto address = engine_->plan().address_of_gid(row.gid);
    const bool is_new = address && !(*address == engine_->device().options().address) &&
                        std::ranges::find(all, *address) == all.end();
    if (is_new) all.push_back(*address);
  }
  return all;
}

std::optional<std::uint8_t> Port::open_address(const IpAddress& own, std::string& why_not) {
  const std::lock_guard guard(client_.lock());
  if (const auto known = source_at(own)) return known;
  DaemonClient::Descriptors fds;
  const auto opened = client_.ask_locked<control::AddressOpened>(control::OpenAddress{own}, &fds);
  if (!opened) {
    why_not = opened.error().text;
    return std::nullopt;
  }
  return adopt_address(own, fds);
}

void Port::on_address_opened(const IpAddress& own, std::span<control::UniqueFd> fds) {
  if (!source_at(own)) adopt_address(own, fds);
}

// Called under the client's lock, so that each address is adopted once.
std::optional<std::uint8_t> Port::adopt_address(const IpAddress& own,
                                                std::span<control::UniqueFd> fds) {
  control::UniqueFd receiver = std::move(fds.front());
  if (!receiver || sources_.size() + 1 >= link::PeerLink::kSourcesMax) return std::nullopt;
  std::vector<int> senders;
  for (control::UniqueFd& sender : fds.subspan(1)) {
    if (sender) senders.push_back(sender.release());
  }
  link::UdpOptions options = udp_options();
  PortCounters& counters = engine_->device().counters();
  options.send_failures = &counters.send_failures;
  auto udp = link::UdpLink::open(receiver.release(), own, options, counters.drops, senders);
  const auto source = static_cast<std::uint8_t>(sources_.size() + 1);
  if (!udp || !engine_->links().peers().add_source(source, std::move(*udp))) return std::nullopt;
  const std::lock_guard guard(lock_);
  sources_.push_back(own);
  return source;
}

// Nothing is received at an address that cannot be opened (another emulator has it).
void Port::open_all_addresses() {
  receives_datagrams_.publish(true);
  std::string why_not;
  for (const IpAddress& address : addresses()) {
    if (!source_at(address)) (void)open_address(address, why_not);
  }
}

void Port::on_event(const control::PortEvent& event,
                    const std::function<void(queue::AsyncEvent)>& tell_program) {
  {
    const std::lock_guard guard(lock_);
    info_ = event.device;
  }
  const bool active = event.device.port_state == control::PortState::kActive;
  engine_->device().set_active_mtu(static_cast<Mtu>(event.device.active_mtu));
  if ((event.changes & control::kPortStateChanged) != 0) {
    engine_->device().set_port_active(active);
    tell_program(active ? queue::AsyncEvent::kPortActive : queue::AsyncEvent::kPortError);
  }
  if ((event.changes & control::kLidChanged) != 0) tell_program(queue::AsyncEvent::kLidChange);
  if ((event.changes & control::kGidsChanged) != 0) {
    // The daemon's answer comes as a message (on_address_opened).
    for (const IpAddress& address : addresses()) {
      if (receives_datagrams_.read() && !source_at(address)) {
        client_.tell(control::OpenAddress{address});
      }
    }
    tell_program(queue::AsyncEvent::kGidChange);
  }
  if ((event.changes & control::kPkeysChanged) != 0) tell_program(queue::AsyncEvent::kPkeyChange);
  if ((event.changes & control::kSmChanged) != 0) tell_program(queue::AsyncEvent::kSmChange);
}

}  // namespace verbena::provider
