// SPDX-License-Identifier: BSD-2-Clause
// The rdma_cm layer: IDs, their states, addresses, listeners, events, multicast memberships. It
// takes the place of the kernel's rdma_cm module and answers with the same errno and the same
// events. Sans-IO on top of the agent: calls and datagrams in; datagrams, events and wake-ups out.
// Owns every ID and the agent. One thread at a time.
//
// Calls return 0 or an errno. An ID answers only to the channel that holds it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "verbena/cm/agent.hpp"
#include "verbena/cm/early_requests.hpp"
#include "verbena/cm/event_channels.hpp"
#include "verbena/cm/id_table.hpp"
#include "verbena/cm/memberships.hpp"
#include "verbena/cm/neighbour_questions.hpp"
#include "verbena/cm/port_space.hpp"
#include "verbena/cm/program_events.hpp"
#include "verbena/cm/rdma_id.hpp"
#include "verbena/cm/rdma_types.hpp"
#include "verbena/cm/shares.hpp"
#include "verbena/limits/fair_share.hpp"

namespace verbena::cm {

// A call that succeeds as long as nothing happens to the ID, with at most so much private data.
struct Promise {
  enum class Call : std::uint8_t { kConnect, kAccept, kConfirm };
  Call call = Call::kConnect;
  std::uint8_t private_data_max = 0;
};

class RdmaCm {
 public:
  static constexpr std::uint32_t kMaxBacklog = 1024;

  RdmaCm(const Ports& ports, std::uint64_t seed);

  // --- channels and events ------------------------------------------------------------------
  void open_channel(ChannelId channel, limits::Holder process = 0) {
    channels_.open(channel, process);
  }
  void close_channel(TimeNs now, ChannelId channel);
  // Returns the next event and counts it as reported. Returns nothing if there is none.
  std::optional<RdmaEvent> get_event(ChannelId channel);
  std::size_t pending_events(ChannelId channel) const { return channels_.waiting(channel); }
  // Returns the event that comes after `before` others, without removing it; null: none.
  const RdmaEvent* pending_event(ChannelId channel, std::size_t before) const {
    return channels_.peek(channel, before);
  }
  // Sets the function that brings a channel's count of reported events up to date. It is needed
  // where events are handed out without get_event(), and is called when a listener's backlog
  // depends on the count.
  void set_catch_up(std::function<void(ChannelId)> catch_up) { catch_up_ = std::move(catch_up); }
  bool has_pending_events() const { return channels_.is_any_waiting(); }
  std::vector<Wakeup> take_wakeups() { return channels_.take_wakeups(); }

  // Returns, once, why the last call was refused, if it was because the process has its share.
  std::string take_reason() { return shares_.take_reason(); }

  // --- calls (rdma_cm.cpp) --------------------------------------------------------------------
  int create_id(ChannelId channel, std::uint64_t uid, std::uint16_t port_space,
                std::uint8_t qp_type, IdHandle& id);
  // `withdrawn` is the number of events that were announced on the channel and have been removed.
  int destroy_id(TimeNs now, ChannelId channel, IdHandle id, std::uint32_t& events_reported,
                 std::uint32_t& withdrawn);
  int bind(ChannelId channel, IdHandle id, const SocketAddress& address);
  // A neighbour that has not answered by `until` causes an ADDR_ERROR.
  int resolve_addr(ChannelId channel, IdHandle id, const SocketAddress& source,
                   const SocketAddress& destination, TimeNs until = 0);
  int resolve_route(ChannelId channel, IdHandle id);
  int listen(TimeNs now, ChannelId channel, IdHandle id, std::int32_t backlog);
  int connect(TimeNs now, ChannelId channel, IdHandle id, const ConnParam& param, const Ece& ece);
  // Without `param` an active side confirms the response (RTU); `uid` is then ignored.
  int accept(TimeNs now, ChannelId channel, IdHandle id, std::uint64_t uid, const ConnParam* param,
             const Ece& ece);
  int reject(TimeNs now, ChannelId channel, IdHandle id, std::uint8_t reason,
             std::span<const std::uint8_t> private_data);
  int disconnect(TimeNs now, ChannelId channel, IdHandle id);
  int notify(TimeNs now, ChannelId channel, IdHandle id, std::uint32_t ib_event);
  int set_option(ChannelId channel, IdHandle id, std::uint32_t level, std::uint32_t name,
                 std::span<const std::uint8_t> value);
  // The fabric has no service records, so a valid call ends in kServiceError.
  int resolve_service(ChannelId channel, IdHandle id, std::uint32_t flags);
  // Returns the call that follows this event and cannot fail, if there is one.
  std::optional<Promise> promise_after(const RdmaEvent& event) const;
  // Handles a promise that could not be kept because something happened first. The program relies
  // on the promise, so it gets that event as if it had come afterwards, or kConnectError.
  void break_promise(ChannelId channel, IdHandle id, std::uint64_t uid, int error);
  // Posts an event that the program itself makes.
  int write_event(ChannelId channel, IdHandle id, std::uint32_t type, std::int32_t status,
                  std::uint64_t argument);
  int migrate(ChannelId to, ChannelId from, IdHandle id, std::uint32_t& events_reported,
              std::uint32_t& withdrawn);
  int init_qp_attr(ChannelId channel, IdHandle id, std::uint32_t qp_state, QpAttr& attr) const;
  int query(ChannelId channel, IdHandle id, RouteInfo& info) const;
  int join(ChannelId channel, IdHandle id, std::uint64_t uid, const SocketAddress& address,
           std::uint16_t join_flags, std::uint32_t& membership);
  int leave(ChannelId channel, std::uint32_t membership, std::uint32_t& events_reported,
            std::uint32_t& withdrawn);

  // --- the network and the clock ------------------------------------------------------------
  void handle_mad(TimeNs now, DeviceId device, const IpAddress& source,
                  std::span<const std::uint8_t> bytes);
  void handle_timeout(TimeNs now);
  // A subnet manager forgets the memberships of a port that goes down. RoCE has no subnet manager.
  void handle_port_down(DeviceId device);
  // The port's address now has another hardware address, as after a failover of bonded links.
  void handle_address_change(DeviceId device);
  // Must be called before the device disappears from Ports.
  void remove_device(TimeNs now, DeviceId device);
  TimeNs next_deadline() const;
  std::vector<OutMad> take_mads() { return std::exchange(mads_, {}); }

  // --- for status and tests -----------------------------------------------------------------
  std::size_t ids() const { return ids_.size(); }
  // Returns the name that the program has given the ID; 0: none, or there is no such ID.
  std::uint64_t uid_of(ChannelId channel, IdHandle handle) const {
    RdmaId* id = nullptr;
    return find(channel, handle, id) == 0 ? id->uid : 0;
  }
  // Returns at most `most` IDs with a greater handle, in their order.
  std::vector<const RdmaId*> ids_behind(IdHandle handle, std::size_t most) const {
    return ids_.behind(handle, most);
  }
  std::size_t channels() const { return channels_.size(); }
  // Returns the processes that have an ID that listens.
  std::set<limits::Holder> listening_processes() const;
  const Agent& agent() const { return agent_; }
  const PortTable& port_table() const { return port_table_; }
  bool is_consistent() const;

 private:
  // Parts of calls (rdma_cm.cpp).
  int find(ChannelId channel, IdHandle handle, RdmaId*& id) const {
    return ids_.find(channel, handle, id);
  }
  limits::Holder process_of(ChannelId channel) const { return channels_.process_of(channel); }
  bool may_add_object(ChannelId channel) { return shares_.may_add_object(process_of(channel)); }
  // Returns false if the process has its share of unread events. It then misses events that may
  // happen any number of times.
  bool may_have_news(const RdmaId& id) const {
    return shares_.objects.may_take(process_of(id.channel));
  }
  bool holds_its_shares(limits::Holder process) const;
  void move_shares(const RdmaId& id, limits::Holder from, limits::Holder to);
  int bind_id(RdmaId& id, const SocketAddress& address);
  int set_path(RdmaId& id, std::span<const std::uint8_t> records);
  int connect_rc(TimeNs now, RdmaId& id, const ConnParam& param, const Ece& ece);
  int connect_ud(TimeNs now, RdmaId& id, const ConnParam& param);
  int accept_rc(TimeNs now, RdmaId& id, const ConnParam& param, const Ece& ece);
  int accept_ud(TimeNs now, RdmaId& id, const ConnParam& param, const Ece& ece);
  PathRecord path_of(const RdmaId& id, const PortInfo& port) const;

  // Defined in rdma_cm_events.cpp. Events that programs read:
  void post(RdmaId& id, RdmaEvent event);
  void post(RdmaId& id, RdmaEventType type, std::int32_t status = 0);

  // Creation and end of IDs:
  RdmaId& new_id(ChannelId channel);
  void destroy(TimeNs now, RdmaId& id, std::uint32_t& withdrawn);
  // Withdraws the owner's events: those of one membership, or all if `membership` is 0.
  std::uint32_t withdraw(TimeNs now, ChannelId channel, IdHandle owner, std::uint32_t membership);
  // Returns the ID that an unread CONNECT_REQUEST brings. Null if a program that guessed its number
  // has destroyed, moved or accepted it; another ID may have the number then.
  RdmaId* unread_request(ChannelId channel, IdHandle handle);
  void release_port(RdmaId& id);
  void release_connection(TimeNs now, RdmaId& id);

  // Reports of the agent:
  void drain(TimeNs now);
  void on_event(TimeNs now, const CmEvent& event);
  void on_sidr_response(RdmaId& id, const CmEvent& event);
  void on_connection_event(RdmaId& id, const CmEvent& event);

  // Requests of peers:
  bool offer(TimeNs now, const CmEvent& request);  // false if no ID listens
  // Returns the ID that listens for the request, even if it cannot accept it; null: none.
  RdmaId* listener_for(const ServiceRequest& request, const PortInfo& port);
  // Returns null if the request cannot be accepted.
  RdmaId* new_request(const ServiceRequest& request, const PortInfo& port, const IpAddress& peer,
                      RdmaId& listener);
  void refuse(TimeNs now, const CmEvent& request, bool nobody_listens);
  void handle_early_requests(TimeNs now);

  // Neighbours:
  void handle_neighbours(TimeNs now);
  void take_route(RdmaId& id, const ResolvedRoute& route);

  const Ports& ports_;
  UnpredictableRandom random_;
  Agent agent_;
  PortTable port_table_;
  Shares shares_;
  IdTable ids_;
  Memberships memberships_;
  EventChannels channels_{shares_.objects};
  NeighbourQuestions neighbours_{ports_};
  EarlyRequests early_;
  std::vector<OutMad> mads_;
  CmOutputs spare_;  // memory for the agent's next outputs
  std::function<void(ChannelId)> catch_up_;
};

}  // namespace verbena::cm
