// SPDX-License-Identifier: BSD-2-Clause
// One device while it lives: its address's sockets, the contexts that have a slot of it, its
// counters, its multicast groups. Owned by the fabric, on the daemon's one thread.
//
// What reaches the daemon's own socket (slot 0) is for QP0 or QP1 and goes to the management sink,
// or is for nobody and is counted. Multicast arrives at a socket for each IP group that has a
// member, and goes on to each context that joined, by way of `RelayOut`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/drop_reason.hpp"
#include "verbena/control/device_info.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/fabric/fault_table.hpp"
#include "verbena/fabric/management_sink.hpp"
#include "verbena/fabric/multicast_groups.hpp"
#include "verbena/fabric/poller.hpp"
#include "verbena/fabric/rule_table.hpp"
#include "verbena/fabric/stats_memory.hpp"
#include "verbena/fabric/totals.hpp"
#include "verbena/limits/fair_share.hpp"
#include "verbena/link/capture_link.hpp"
#include "verbena/link/fault_link.hpp"
#include "verbena/link/further_slots.hpp"
#include "verbena/link/peer_link.hpp"
#include "verbena/link/slot_group.hpp"
#include "verbena/link/udp_link.hpp"

namespace verbena::fabric {

class Port final {
 public:
  using Slot = link::SlotGroup::Slot;
  // Takes a copy of a multicast datagram for the context of `slot`.
  using RelayOut = std::function<void(Slot slot, const control::Relayed& datagram)>;

  // Of one context, and of all: a group with a member costs a look at each of its seats.
  static constexpr std::size_t kMembershipsPerContext = 4096;
  static constexpr std::size_t kMemberships = 16384;
  // What a context costs the emulator, with those that are on their way to it, and a group.
  static constexpr std::size_t kDescriptorsPerContext = 3;
  static constexpr std::size_t kDescriptorsPerGroup = 4;
  // What a further address costs a context that uses it, and the emulator itself.
  static constexpr std::size_t kDescriptorsPerAddress = 2;
  static constexpr std::size_t kDescriptorsOfAddress = 4;

  // `descriptors`: those that the emulator may have. `rules`: of all devices.
  static control::Outcome<std::unique_ptr<Port>> open(control::DeviceInfo info, Poller& poller,
                                                      limits::FairShare& descriptors,
                                                      RuleTable& rules);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const control::DeviceInfo& info() const { return info_; }
  void set_state(control::PortState state);
  void set_info(const control::DeviceInfo& info) { info_ = info; }
  // Its own address, or one of the interface that a row of the GID table has.
  bool has_address(const IpAddress& address) const;
  // Its own, and then those.
  std::vector<IpAddress> addresses() const;
  void set_management_sink(ManagementSink* sink) { sink_ = sink; }
  void set_relay(RelayOut relay) { relay_ = std::move(relay); }
  // Ports of the other kind (InfiniBand, RoCE), whose multicast may come by the same IP group.
  void set_strangers(std::vector<IpAddress> addresses) { strangers_ = std::move(addresses); }

  // A context of this process comes: its slot, with the descriptors to hand over (they stay the
  // port's). A process has no more of slots, memberships and descriptors than its share.
  control::Outcome<Slot> add_context(limits::Holder process);
  int receive_fd(Slot slot) const { return slots_.fd(slot); }
  int stats_fd(Slot slot) const { return contexts_.at(slot).stats.fd(); }
  control::JournalRing& journal(Slot slot) { return contexts_.at(slot).stats.journal(); }
  // For a program that can open none itself: one of each kind that it may need.
  control::Outcome<std::vector<control::UniqueFd>> open_senders(const IpAddress& address) const;
  control::Outcome<Slot> add_extra_slot(Slot slot);
  // The socket of a context at a further address, which it asks for when it uses that, of its
  // process's share. Stays the port's.
  control::Outcome<int> socket_at(const IpAddress& address, Slot slot, std::span<const Slot> extra);
  // For the daemon's own queue pairs: what comes there is received from now on, and what has this
  // number as Destination::source is sent from there. 0 for the port's own address.
  control::Outcome<std::uint8_t> open_address(const IpAddress& address);
  // The number of an address that was opened; nothing for others.
  std::optional<std::uint8_t> source_at(const IpAddress& address) const;
  void remove_context(Slot slot);
  std::size_t contexts() const { return contexts_.size(); }

  control::Outcome<control::Done> join(const Gid& mgid, Slot slot, std::uint32_t qpn);
  control::Outcome<control::Done> leave(const Gid& mgid, Slot slot, std::uint32_t qpn);

  // The faults of this device. What changed is in force for the daemon's own packets after
  // apply_own_faults(); contexts are told by the server.
  FaultTable& faults() { return faults_; }
  const FaultTable& faults() const { return faults_; }
  void apply_own_faults();
  // Where the daemon counts what it does itself.
  control::StatsPage& own_counters() { return own_counters_; }
  // What a fault did, in all contexts since it was set.
  FaultTotals totals_of(const FaultTable::Fault& fault) const;
  // The same of a rule, of those that live.
  void add_counted_of(const control::RuleSpec& rule, RuleTotals& totals) const;

  // Records what the daemon's own queue pairs send and receive, and what comes for groups.
  void start_capture(link::CaptureRing ring, std::vector<IpAddress> recorded_by_sender);
  void leave_out_of_capture(std::vector<IpAddress> recorded_by_sender) {
    capture_->leave_out(std::move(recorded_by_sender));
  }
  void stop_capture() { capture_->stop(); }

  // Of all contexts, the dead ones included, since the device came up or take_totals() was called.
  Totals totals() const { return all_totals().since(before_); }
  // The same, and begins anew at zero.
  Totals take_totals();
  // Sends from the daemon's own queue pairs. Its packets count as any other's.
  std::size_t send(wire::TxBatch& batch, Qpn from) noexcept;
  // When a fault lets go of what it holds back of that, if send_due() is called then.
  TimeNs next_due() const noexcept { return own_->next_timeout(); }
  void send_due() noexcept { receive_own(); }

 private:
  class OwnSink;
  class GroupSink;
  struct Group;
  struct Context {
    StatsMemory stats;
    limits::Holder process = 0;
    std::size_t slots = 1;
    std::size_t addresses = 0;  // further ones, at which it has sockets
  };

  Port(control::DeviceInfo info, link::SlotGroup slots, Poller& poller,
       limits::FairShare& descriptors, RuleTable& rules);
  static link::SlotGroupOptions slot_options(const control::DeviceInfo& info);
  link::UdpOptions udp_options() const;
  control::Outcome<control::Done> open_own_link();
  control::Error too_many(limits::Holder process, const limits::FairShare& share,
                          const char* what) const;
  control::Outcome<std::unique_ptr<link::UdpLink>> open_link(int socket, const IpAddress& address);
  control::Outcome<link::FurtherSlots*> further_at(const IpAddress& address);
  control::Outcome<control::Done> open_missing_groups(limits::Holder process);
  control::Outcome<std::unique_ptr<Group>> open_group(const IpAddress& address);
  void close_empty_groups();
  void receive_own() noexcept;
  Totals all_totals() const;
  // Those that were opened for a process which has left, for another that is still in there.
  void pass_on_groups_of(limits::Holder process);
  void on_own_datagram(const wire::RxDatagram& datagram) noexcept;
  void on_group_datagram(const IpAddress& group, const wire::RxDatagram& datagram) noexcept;

  control::DeviceInfo info_;
  link::SlotGroup slots_;
  Poller& poller_;
  ManagementSink* sink_ = nullptr;
  RelayOut relay_;
  std::vector<IpAddress> strangers_;
  control::StatsPage own_counters_;  // of QP0 and QP1, and of what is for nobody
  std::unique_ptr<link::FaultLink> own_;
  link::CaptureLink* capture_ = nullptr;  // within own_
  link::PeerLink* addresses_ = nullptr;   // within that: the sockets at each address
  // The source of each is its place and 1.
  std::vector<std::unique_ptr<link::FurtherSlots>> further_;
  FaultTable faults_;
  std::map<Slot, Context> contexts_;
  limits::FairShare& descriptors_;
  RuleTable& rules_;
  limits::FairShare slot_share_{link::SlotGroup::kMulticastSlot - 1};
  limits::FairShare membership_share_{kMemberships};
  Totals retired_;  // of contexts that have ended
  Totals before_;   // what does not count any more
  MulticastGroups groups_;
  std::vector<std::unique_ptr<Group>> open_groups_;
};

}  // namespace verbena::fabric
