// SPDX-License-Identifier: BSD-2-Clause
// One device at run time: the sockets of its address, the contexts that have a slot of it, its
// counters, its multicast groups. The fabric owns it, on the daemon's one thread.
//
// Datagrams that reach the daemon's own socket (slot 0) are for QP0 or QP1 and go to the management
// sink; others have no receiver and are counted. Each IP group with a member has a socket. Its
// datagrams go to each context that joined, by way of `RelayOut`.
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
  // Takes a copy of a multicast datagram for the context with this slot.
  using RelayOut = std::function<void(Slot slot, const control::Relayed& datagram)>;

  // Limits of memberships, for one context and in all: a datagram costs a look at each seat of its
  // group.
  static constexpr std::size_t kMembershipsPerContext = 4096;
  static constexpr std::size_t kMemberships = 16384;
  // The emulator's descriptors for a context (including those on their way to it), and for a group.
  static constexpr std::size_t kDescriptorsPerContext = 3;
  static constexpr std::size_t kDescriptorsPerGroup = 4;
  // The descriptors for a further address: for each context that uses it, and for the emulator.
  static constexpr std::size_t kDescriptorsPerAddress = 2;
  static constexpr std::size_t kDescriptorsOfAddress = 4;

  // `descriptors` is the emulator's share of descriptors; `rules` has the rules of all devices.
  static control::Outcome<std::unique_ptr<Port>> open(control::DeviceInfo info, Poller& poller,
                                                      limits::FairShare& descriptors,
                                                      RuleTable& rules);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const control::DeviceInfo& info() const { return info_; }
  void set_state(control::PortState state);
  void set_info(const control::DeviceInfo& info) { info_ = info; }
  // Says whether an address is the port's own, or one of its interface with a row in the GID table.
  bool has_address(const IpAddress& address) const;
  // Returns the port's own address and then the others.
  std::vector<IpAddress> addresses() const;
  void set_management_sink(ManagementSink* sink) { sink_ = sink; }
  void set_relay(RelayOut relay) { relay_ = std::move(relay); }
  // Sets the addresses of ports of the other kind (InfiniBand, RoCE). Their multicast may arrive by
  // the same IP group.
  void set_strangers(std::vector<IpAddress> addresses) { strangers_ = std::move(addresses); }

  // Adds a context of a process and returns its slot. The descriptors to hand over stay the port's.
  // A process gets no more slots, memberships and descriptors than its share.
  control::Outcome<Slot> add_context(limits::Holder process);
  int receive_fd(Slot slot) const { return slots_.fd(slot); }
  int stats_fd(Slot slot) const { return contexts_.at(slot).stats.fd(); }
  control::JournalRing& journal(Slot slot) { return contexts_.at(slot).stats.journal(); }
  // Opens sockets for a program that can open none itself: one of each kind that it may need.
  control::Outcome<std::vector<control::UniqueFd>> open_senders(const IpAddress& address) const;
  control::Outcome<Slot> add_extra_slot(Slot slot);
  // Returns the socket of a context at a further address, which the context requests when it uses
  // the address. It counts in the share of the context's process, and stays the port's.
  control::Outcome<int> socket_at(const IpAddress& address, Slot slot, std::span<const Slot> extra);
  // Opens an address for the daemon's own queue pairs: from now on its datagrams are received, and
  // a packet with the returned number as Destination::source is sent from it. The port's own
  // address is 0.
  control::Outcome<std::uint8_t> open_address(const IpAddress& address);
  // Returns the number of an opened address; nothing for others.
  std::optional<std::uint8_t> source_at(const IpAddress& address) const;
  void remove_context(Slot slot);
  std::size_t contexts() const { return contexts_.size(); }

  control::Outcome<control::Done> join(const Gid& mgid, Slot slot, std::uint32_t qpn);
  control::Outcome<control::Done> leave(const Gid& mgid, Slot slot, std::uint32_t qpn);

  // The faults of this device. A change takes effect for the daemon's own packets with
  // apply_own_faults(). The server tells the contexts.
  FaultTable& faults() { return faults_; }
  const FaultTable& faults() const { return faults_; }
  void apply_own_faults();
  // The page where the daemon counts its own packets.
  control::StatsPage& own_counters() { return own_counters_; }
  // Returns what a fault did in all contexts since it was set.
  FaultTotals totals_of(const FaultTable::Fault& fault) const;
  // Adds what a rule did in the contexts that still exist.
  void add_counted_of(const control::RuleSpec& rule, RuleTotals& totals) const;

  // Records the packets of the daemon's own queue pairs and packets that arrive for groups.
  void start_capture(link::CaptureRing ring, std::vector<IpAddress> recorded_by_sender);
  void leave_out_of_capture(std::vector<IpAddress> recorded_by_sender) {
    capture_->leave_out(std::move(recorded_by_sender));
  }
  void stop_capture() { capture_->stop(); }

  // Returns the sums of all contexts, including ended ones, since the device came up or
  // take_totals() was called.
  Totals totals() const { return all_totals().since(before_); }
  // Returns the totals and starts again at zero.
  Totals take_totals();
  // Sends from the daemon's own queue pairs. Its packets count like those of contexts.
  std::size_t send(wire::TxBatch& batch, Qpn from) noexcept;
  // Returns when a fault releases packets that it holds back, if send_due() is called then.
  TimeNs next_due() const noexcept { return own_->next_due(); }
  void send_due() noexcept { receive_own(); }

 private:
  class OwnSink;
  class GroupSink;
  struct Group;
  struct Context {
    StatsMemory stats;
    limits::Holder process = 0;
    std::size_t slots = 1;
    std::size_t addresses = 0;  // further addresses where it has sockets
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
  // Passes groups that were opened for a process which has left them on to another member's
  // process.
  void pass_on_groups_of(limits::Holder process);
  void on_own_datagram(const wire::RxDatagram& datagram) noexcept;
  void on_group_datagram(const IpAddress& group, const wire::RxDatagram& datagram) noexcept;

  control::DeviceInfo info_;
  link::SlotGroup slots_;
  Poller& poller_;
  ManagementSink* sink_ = nullptr;
  RelayOut relay_;
  std::vector<IpAddress> strangers_;
  control::StatsPage own_counters_;  // for QP0, QP1, and packets without a receiver
  std::unique_ptr<link::FaultLink> own_;
  link::CaptureLink* capture_ = nullptr;  // inside own_
  link::PeerLink* addresses_ = nullptr;   // inside capture_: the sockets at each address
  // The source number of each is its index plus 1.
  std::vector<std::unique_ptr<link::FurtherSlots>> further_;
  FaultTable faults_;
  std::map<Slot, Context> contexts_;
  limits::FairShare& descriptors_;
  RuleTable& rules_;
  limits::FairShare slot_share_{link::SlotGroup::kMulticastSlot - 1};
  limits::FairShare membership_share_{kMemberships};
  Totals retired_;  // totals of contexts that have ended
  Totals before_;   // totals that do not count any more
  MulticastGroups groups_;
  std::vector<std::unique_ptr<Group>> open_groups_;
};

}  // namespace verbena::fabric
