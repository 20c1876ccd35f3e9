// SPDX-License-Identifier: BSD-2-Clause
// Connection management inside the daemon: joins the sans-IO rdma_cm layer to the fabric's QP1, to
// the clients' channels and to the timers. Owned by the daemon's main, called on its one thread.
//
// A client that opened a channel is told of its events by CmEventReady: one message for all that
// come in a turn of the loop, and at most kReadyAhead before the client fetches some. So a program
// that does not read holds up no other. The first events lie ready in shared memory
// (ChannelEvents); the client asks for the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "verbena/cm/rdma_cm.hpp"
#include "verbena/cm/ucma.hpp"
#include "verbena/cm_service/channel_events.hpp"
#include "verbena/cm_service/fabric_ports.hpp"
#include "verbena/cm_service/ruled_calls.hpp"
#include "verbena/control/cm_messages.hpp"
#include "verbena/fabric/extension.hpp"
#include "verbena/fabric/management_sink.hpp"

namespace verbena::cm_service {

class CmService final : public fabric::Extension, public fabric::ManagementSink {
 public:
  using Clock = TimeNs (*)() noexcept;
  static constexpr std::uint32_t kReadyAhead = 64;
  // The most channels whose events lie in shared memory, since a process may have only so many
  // mappings.
  static constexpr std::size_t kPagesMax = 16384;
  // How long the emulator waits at its end for a program to ask for an event that has no place in
  // shared memory, and then for the next one.
  static constexpr TimeNs kFarewell = 500'000'000;

  // Becomes the management sink of each port of the fabric, until it is destroyed.
  CmService(fabric::Fabric& fabric, fabric::Clients& clients, fabric::Timers& timers, Clock clock,
            std::uint64_t seed);
  ~CmService() override;

  bool takes(control::MessageType type) const override { return control::is_cm_message(type); }
  void on_client_message(fabric::ClientId client, control::Incoming message) override;
  void on_client_closed(fabric::ClientId client) override;
  void on_port_changed(const fabric::Port& port) override;
  void on_addresses_changed(const fabric::Port& port) override;
  void on_attributes_changed(const fabric::Port& port) override;
  std::vector<fabric::CmIdStatus> cm_ids_behind(std::uint32_t number, std::size_t most) override;
  void on_rules_changed() override;
  void on_ending(std::function<void()> told) override;
  void on_management_datagram(fabric::Port& port,
                              const wire::RxDatagram& datagram) noexcept override;
  void on_context_closed(fabric::Port& port, std::uint32_t slot) noexcept override;

  const cm::RdmaCm& rdma_cm() const { return cm_; }

 private:
  struct OpenChannel {
    fabric::ClientId client = 0;
    std::uint32_t announced = 0;            // CmEventReady sent and not yet used
    bool is_due = false;                    // to be announced at the end of the turn
    std::unique_ptr<ChannelEvents> events;  // null: the client asks for each event

    void used(std::size_t count) {
      announced -= std::min(announced, static_cast<std::uint32_t>(count));
    }
  };

  void open_channel(fabric::ClientId client, const control::Incoming& message);
  void tell_listeners(fabric::ClientId client, std::uint32_t sequence);
  void execute(fabric::ClientId client, const control::Incoming& message);
  // Executes a command that an event promised. A channel that posts nonsense gets no answer to it.
  void execute_posted(fabric::ClientId client, const control::Incoming& message);
  // Carries out what was posted to the channel before a command that came by another connection.
  void catch_up(cm::ChannelId channel);
  void outdate_answers(const cm::Wakeup& change);
  // Brings the counts up to date with what the program took from shared memory, and takes back the
  // events that the command is about.
  void prepare(cm::ChannelId channel, std::span<const std::uint8_t> command);
  void settle(cm::ChannelId channel);
  // Returns how many announcements there must be once all waiting events are announced.
  std::uint32_t announcements_for(const OpenChannel& open, cm::ChannelId channel) const;
  // Uses up the announcements beyond that number. Returns how many the client must throw away
  // itself.
  std::uint32_t take_back(cm::ChannelId channel);
  // Sends what the layer below has produced and sets the timer anew.
  void flush();
  // Calls flush() at the end of the loop's turn. What many commands and datagrams have produced by
  // then goes out together: datagrams to one peer in one send, events of one channel in one
  // wake-up.
  void flush_soon();
  void announce_soon(cm::ChannelId channel);
  void announce(cm::ChannelId channel);
  void send(std::span<const cm::OutMad> mads);
  std::size_t place_of(const fabric::Port& port) const;
  void set_timer();
  // Calls `told_` once no program has anything left to ask for.
  void end_if_all_are_told();
  void await_fetch();
  void refuse(fabric::ClientId client, std::uint32_t sequence, const control::Error& error);

  fabric::Fabric& fabric_;
  fabric::Clients& clients_;
  fabric::Timers& timers_;
  Clock clock_;
  FabricPorts ports_;
  cm::RdmaCm cm_;
  cm::Ucma ucma_;
  RuledCalls ruled_calls_{fabric_, clients_};
  Psn next_psn_;
  std::unordered_map<cm::ChannelId, OpenChannel> channels_;
  std::unordered_map<fabric::ClientId, cm::ChannelId> by_client_;
  bool is_catching_up_ = false;
  bool is_flush_due_ = false;
  std::vector<cm::ChannelId> due_;  // channels to announce at the end of the turn
  fabric::Timers::Id timer_ = 0;
  TimeNs timer_at_ = kNever;
  bool has_ended_ = false;
  std::function<void()> told_;  // set while the emulator ends
  fabric::Timers::Id farewell_ = 0;
};

}  // namespace verbena::cm_service
