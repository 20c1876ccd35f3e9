// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/port.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "group_socket.hpp"
#include "verbena/control/address_plan.hpp"
#include "verbena/control/fault_settings.hpp"
#include "verbena/fabric/socket_failure.hpp"
#include "verbena/link/sending_socket.hpp"
#include "verbena/wire/bth.hpp"

namespace verbena::fabric {
namespace {

using control::Done;
using control::fail;
using control::Outcome;

// Datagrams that are received in one turn of the event loop, so that a flood cannot starve clients.
constexpr std::size_t kReceiveBudget = 64;

// Makes the error for the user, with what can be done about it.
Failure<control::Error> failure_to_open(const link::SocketError& error,
                                        const control::DeviceInfo& device) {
  if (error.error != EADDRINUSE) return failure_of(error);
  const bool is_roce = device.persona == control::Persona::kRoce;
  return fail(error.error, error.text + "; end that, or choose " +
                               (is_roce ? "another address of this host: --roce ADDRESS"
                                        : "another subnet: --fabric SUBNET, as 127.77.0.0/24"));
}

}  // namespace

class Port::OwnSink final : public link::RxSink {
 public:
  explicit OwnSink(Port& port) : port_(port) {}
  void on_datagram(const wire::RxDatagram& d) noexcept override { port_.on_own_datagram(d); }

 private:
  Port& port_;
};

class Port::GroupSink final : public link::RxSink {
 public:
  GroupSink(Port& port, const IpAddress& group) : port_(port), group_(group) {}
  void on_datagram(const wire::RxDatagram& d) noexcept override {
    port_.on_group_datagram(group_, d);
  }

 private:
  Port& port_;
  const IpAddress& group_;
};

struct Port::Group {
  IpAddress address;
  std::unique_ptr<link::UdpLink> link;
  limits::Holder process = 0;  // the process whose share it counts in
};

Outcome<std::unique_ptr<Port>> Port::open(control::DeviceInfo info, Poller& poller,
                                          limits::FairShare& descriptors, RuleTable& rules) {
  auto slots = link::SlotGroup::open(info.address, slot_options(info));
  if (!slots) return failure_to_open(slots.error(), info);
  std::unique_ptr<Port> port(
      new Port(std::move(info), std::move(*slots), poller, descriptors, rules));
  const auto opened = port->open_own_link();
  if (!opened) return Failure<control::Error>{opened.error()};
  return port;
}

Port::Port(control::DeviceInfo info, link::SlotGroup slots, Poller& poller,
           limits::FairShare& descriptors, RuleTable& rules)
    : info_(std::move(info)),
      slots_(std::move(slots)),
      poller_(poller),
      descriptors_(descriptors),
      rules_(rules),
      groups_(info_.address.is_v4()) {}

Port::~Port() {
  for (const auto& group : open_groups_) poller_.unwatch(group->link->wait_fd());
  if (!further_.empty()) poller_.unwatch(addresses_->further_wait_fd());
  if (own_) poller_.unwatch(addresses_->wait_fd());
}

link::SlotGroupOptions Port::slot_options(const control::DeviceInfo& info) {
  link::SlotGroupOptions options;
  options.scope_id = info.if_index;
  options.senders = {info.first_source_port, info.has_foreign_peers};
  return options;
}

link::UdpOptions Port::udp_options() const {
  link::UdpOptions options;
  options.first_source_port = info_.first_source_port;
  options.grh_from_port = info_.persona == control::Persona::kInfiniBand;
  options.scope_id = info_.if_index;
  return options;
}

// Opens a link with a duplicate of the socket.
Outcome<std::unique_ptr<link::UdpLink>> Port::open_link(int socket, const IpAddress& address) {
  const int fd = ::fcntl(socket, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) {
    const int code = errno;
    return fail(code, std::string("cannot duplicate a socket: ") + std::strerror(code));
  }
  link::UdpOptions options = udp_options();
  options.tx_sockets = 1;
  options.send_failures = &own_counters_.counters.send_failures;
  options.want_ip_fields = true;
  auto opened = link::UdpLink::open(fd, address, options, own_counters_.counters.drops);
  if (!opened) return failure_of(opened.error());
  return std::move(*opened);
}

Outcome<Done> Port::open_own_link() {
  auto own = open_link(slots_.fd(0), info_.address);
  if (!own) return Failure<control::Error>{own.error()};
  auto addresses = std::make_unique<link::PeerLink>(std::move(*own), link::Peer{info_.address, 0},
                                                    own_counters_.counters.drops);
  addresses_ = addresses.get();
  auto capture = std::make_unique<link::CaptureLink>(std::move(addresses), info_.address);
  capture_ = capture.get();
  // Transactions name its packets, so the link needs no name of its own (0).
  own_ = std::make_unique<link::FaultLink>(std::move(capture), 0, own_counters_.counters.drops);
  poller_.watch(addresses_->wait_fd(), [this] { receive_own(); });
  return Done{};
}

void Port::receive_own() noexcept {
  OwnSink sink(*this);
  own_->receive(sink, kReceiveBudget);
}

void Port::apply_own_faults() {
  std::vector<link::FaultRule> rules;
  for (const control::FaultSpec& spec : faults_.in_force()) {
    if (spec.qpn != control::FaultSpec::kCm) continue;
    control::FaultPart& part = own_counters_.faults[spec.place];
    link::FaultRule& rule = rules.emplace_back();
    rule.settings = control::settings_of(spec);
    rule.counters = &part.counters;
    rule.starts_counting = part.id.read() != spec.id;
    part.id.set(spec.id);
  }
  own_->set_rules(rules);
  own_->set_script(rules_.of_management(info_.name, link::monotonic_now_ns(), own_counters_));
}

void Port::add_counted_of(const control::RuleSpec& rule, RuleTotals& totals) const {
  add_counted(own_counters_, rule, totals);
  for (const auto& [slot, context] : contexts_) add_counted(context.stats.page(), rule, totals);
}

FaultTotals Port::totals_of(const FaultTable::Fault& fault) const {
  FaultTotals sum = fault.retired;
  add_counted(own_counters_, fault.spec, sum);
  for (const auto& [slot, context] : contexts_) {
    add_counted(context.stats.page(), fault.spec, sum);
  }
  return sum;
}

control::Error Port::too_many(limits::Holder process, const limits::FairShare& share,
                              const char* what) const {
  return {ENOSPC, "process " + std::to_string(process) + " has " +
                      std::to_string(share.held_by(process)) + " " + what + " of " + info_.name +
                      ", and " + std::to_string(share.left()) +
                      " are left for all others: no process may have more than that"};
}

Outcome<Port::Slot> Port::add_context(limits::Holder process) {
  if (!slot_share_.may_take(process)) {
    return Failure<control::Error>{too_many(process, slot_share_, "slots")};
  }
  if (!descriptors_.may_take(process, kDescriptorsPerContext)) {
    return fail(EMFILE, "process " + std::to_string(process) +
                            " has its share of the emulator's descriptors; raise `ulimit -n` "
                            "before `verbena up`");
  }
  const std::size_t sockets = slots_.sockets();
  const auto slot = slots_.add_slot();
  if (!slot) return failure_of(slot.error());
  descriptors_.take_for_nobody(slots_.sockets() - sockets);
  auto stats = StatsMemory::create(*slot);
  if (!stats) {
    slots_.release(*slot);
    return Failure<control::Error>{stats.error()};
  }
  slot_share_.take(process);
  descriptors_.take(process, kDescriptorsPerContext);
  contexts_.emplace(*slot, Context{std::move(*stats), process});
  return *slot;
}

Outcome<std::vector<control::UniqueFd>> Port::open_senders(const IpAddress& address) const {
  const link::UdpOptions options = udp_options();
  std::vector<control::UniqueFd> senders;
  for (const bool has_grh : {true, false}) {
    if (!has_grh && !options.grh_from_port) continue;
    const auto opened = link::open_sending_socket(address, options, has_grh);
    if (!opened) return failure_of(link::sending_socket_error(opened.error(), address));
    senders.emplace_back(opened->fd);
  }
  return senders;
}

Outcome<Port::Slot> Port::add_extra_slot(Slot slot) {
  Context& context = contexts_.at(slot);
  if (!slot_share_.may_take(context.process)) {
    return Failure<control::Error>{too_many(context.process, slot_share_, "slots")};
  }
  const auto extra = slots_.add_extra_slot(slot);
  if (!extra) return failure_of(extra.error());
  slot_share_.take(context.process);
  ++context.slots;
  for (const auto& further : further_) {
    if (const auto added = further->add_extra(slot, *extra); !added) {
      return failure_of(added.error());
    }
  }
  return *extra;
}

void Port::remove_context(Slot slot) {
  const auto context = contexts_.find(slot);
  if (context == contexts_.end()) return;
  const limits::Holder process = context->second.process;
  retired_.add(context->second.stats.page().counters);
  faults_.retire(context->second.stats.page());
  rules_.retire(context->second.stats.page());
  slot_share_.give_back(process, context->second.slots);
  descriptors_.give_back(
      process, kDescriptorsPerContext + context->second.addresses * kDescriptorsPerAddress);
  membership_share_.give_back(process, groups_.memberships_of(slot));
  groups_.leave_all(slot);
  close_empty_groups();
  pass_on_groups_of(process);
  contexts_.erase(context);
  slots_.release(slot);
  for (const auto& further : further_) further->release(slot);
  if (sink_ != nullptr) sink_->on_context_closed(*this, slot);
}

Outcome<Done> Port::join(const Gid& mgid, Slot slot, std::uint32_t qpn) {
  if (!mgid.is_multicast() && !mgid.as_ip().is_multicast()) {
    return fail(EINVAL, "GID " + mgid.to_string() + " is not a multicast GID");
  }
  if (groups_.memberships_of(slot) >= kMembershipsPerContext) {
    return fail(ENOMEM, "a context may hold " + std::to_string(kMembershipsPerContext) +
                            " multicast memberships");
  }
  const limits::Holder process = contexts_.at(slot).process;
  if (!membership_share_.may_take(process)) {
    return Failure<control::Error>{too_many(process, membership_share_, "multicast memberships")};
  }
  // A second join has no effect, as with the verb.
  if (!groups_.join(mgid, slot, qpn)) return Done{};
  membership_share_.take(process);
  auto opened = open_missing_groups(process);
  if (!opened) {
    groups_.leave(mgid, slot, qpn);
    membership_share_.give_back(process);
  }
  return opened;
}

Outcome<Done> Port::leave(const Gid& mgid, Slot slot, std::uint32_t qpn) {
  if (!groups_.leave(mgid, slot, qpn)) {
    return fail(EINVAL, "the queue pair is not in multicast group " + mgid.to_string());
  }
  const limits::Holder process = contexts_.at(slot).process;
  membership_share_.give_back(process);
  close_empty_groups();
  pass_on_groups_of(process);
  return Done{};
}

Outcome<Done> Port::open_missing_groups(limits::Holder process) {
  for (const IpAddress& address : groups_.groups()) {
    const bool is_open = std::any_of(open_groups_.begin(), open_groups_.end(),
                                     [&](const auto& g) { return g->address == address; });
    if (is_open) continue;
    if (!descriptors_.may_take(process, kDescriptorsPerGroup)) {
      return fail(EMFILE, "process " + std::to_string(process) +
                              " has its share of the emulator's descriptors, and a multicast group "
                              "needs some; raise `ulimit -n` before `verbena up`");
    }
    auto opened = open_group(address);
    if (!opened) return Failure<control::Error>{opened.error()};
    Group& group = **opened;
    group.process = process;
    descriptors_.take(process, kDescriptorsPerGroup);
    poller_.watch(group.link->wait_fd(), [this, &group] {
      GroupSink sink(*this, group.address);
      group.link->receive(sink, kReceiveBudget);
    });
    open_groups_.push_back(std::move(*opened));
  }
  return Done{};
}

Outcome<std::unique_ptr<Port::Group>> Port::open_group(const IpAddress& address) {
  auto fd = open_group_socket(address, info_.address, info_.if_index);
  if (!fd) return Failure<control::Error>{fd.error()};
  if (!link::take_only(fd->get(), info_.address, slot_options(info_).senders)) {
    const int code = errno;
    return fail(code, "cannot filter what multicast group " + address.to_string() +
                          " brings: " + std::strerror(code));
  }
  link::UdpOptions options = udp_options();
  options.tx_sockets = 1;
  options.want_ip_fields = true;
  auto opened = link::UdpLink::open(fd->release(), address, options, own_counters_.counters.drops);
  if (!opened) return failure_of(opened.error());
  return std::make_unique<Group>(Group{address, std::move(*opened)});
}

void Port::close_empty_groups() {
  const auto wanted = groups_.groups();
  std::erase_if(open_groups_, [&](const std::unique_ptr<Group>& group) {
    if (wanted.count(group->address) != 0) return false;
    poller_.unwatch(group->link->wait_fd());
    descriptors_.give_back(group->process, kDescriptorsPerGroup);
    return true;
  });
}

void Port::pass_on_groups_of(limits::Holder process) {
  for (const auto& group : open_groups_) {
    if (group->process != process) continue;
    const auto members = groups_.members_of(group->address);
    const auto is_of = [&](const MulticastGroups::Member& member) {
      return contexts_.at(member.slot).process == process;
    };
    if (members.empty() || std::any_of(members.begin(), members.end(), is_of)) continue;
    group->process = contexts_.at(members.front().slot).process;
    descriptors_.give_back(process, kDescriptorsPerGroup);
    descriptors_.take(group->process, kDescriptorsPerGroup);
  }
}

void Port::on_own_datagram(const wire::RxDatagram& d) noexcept {
  if (info_.port_state != control::PortState::kActive)
    return own_counters_.counters.drops.count(DropReason::kPortDown);
  const auto bth = wire::BthView::parse(d.bytes);
  if (!bth) return own_counters_.counters.drops.count(DropReason::kTooShort);
  const Qpn to = bth->dest_qp();
  if (to == kMulticastQpn) return own_counters_.counters.drops.count(DropReason::kNotMember);
  if (to.value() > kManagementQpn.value() || sink_ == nullptr) {
    return own_counters_.counters.drops.count(DropReason::kUnknownQp);
  }
  own_counters_.counters.received.packets.add();
  own_counters_.counters.received.bytes.add(d.bytes.size());
  sink_->on_management_datagram(*this, d);
}

void Port::on_group_datagram(const IpAddress& group, const wire::RxDatagram& d) noexcept {
  if (info_.port_state != control::PortState::kActive)
    return own_counters_.counters.drops.count(DropReason::kPortDown);
  const auto bth = wire::BthView::parse(d.bytes);
  if (!bth) return own_counters_.counters.drops.count(DropReason::kTooShort);
  // All users share a group on the loopback interface, and another user's fabric is not ours.
  const control::Subnet subnet{info_.subnet, info_.prefix_length};
  const bool is_foreign =
      (info_.persona == control::Persona::kInfiniBand && !subnet.contains(d.source)) ||
      std::ranges::find(strangers_, d.source) != strangers_.end();
  if (is_foreign || !(bth->dest_qp() == kMulticastQpn)) {
    return own_counters_.counters.drops.count(DropReason::kNotMember);
  }
  capture_->record_received(d);
  if (!relay_) return;
  for (const MulticastGroups::Member& member : groups_.members_of(group)) {
    control::Relayed copy{member.mgid, d.source,  d.traffic_class,
                          d.hop_limit, d.has_grh, {d.bytes.begin(), d.bytes.end()},
                          d.flow_label};
    relay_(member.slot, copy);
  }
}

// All packets of a batch must have the same source address.
std::size_t Port::send(wire::TxBatch& batch, Qpn from) noexcept {
  const std::size_t sent = own_->send(batch, from);
  std::uint64_t bytes = 0;
  for (const wire::TxBatch::Packet& packet : batch.packets().first(sent)) bytes += packet.length;
  own_counters_.counters.sent.add(0, sent, bytes, {});
  return sent;
}

void Port::start_capture(link::CaptureRing ring, std::vector<IpAddress> recorded_by_sender) {
  capture_->start(std::move(ring), std::move(recorded_by_sender));
}

void Port::set_state(control::PortState state) {
  if (state == control::PortState::kDown && info_.port_state != state) ++retired_.link_downed;
  info_.port_state = state;
}

Totals Port::all_totals() const {
  Totals sum = retired_;
  sum.add(own_counters_.counters);
  for (const auto& [slot, context] : contexts_) sum.add(context.stats.page().counters);
  return sum;
}

Totals Port::take_totals() {
  const Totals all = all_totals();
  return all.since(std::exchange(before_, all));
}

}  // namespace verbena::fabric
