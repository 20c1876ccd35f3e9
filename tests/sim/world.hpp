// SPDX-License-Identifier: BSD-2-Clause
// A small universe: devices, a wire between them with the faults that a test chooses, and a clock
// that jumps from event to event. It has one thread; everything that happens follows from the seed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "verbena/base/random.hpp"
#include "verbena/device/device.hpp"

namespace verbena::sim {

// Probabilities in parts per million; times in ns.
struct Faults {
  std::uint32_t drop = 0;
  std::uint32_t duplicate = 0;
  std::uint32_t reorder = 0;  // held back by up to reorder_delay
  std::uint32_t corrupt = 0;  // lost, because the ICRC of a link would catch it
  std::uint32_t pause = 0;    // per packet: the receiver sleeps for up to pause_length
  TimeNs reorder_delay = 200'000;
  TimeNs delay_min = 1'000;
  TimeNs delay_spread = 0;
  TimeNs pause_length = 10'000'000;
  TimeNs wire_ns_per_kib = 0;           // how long a sender's wire is busy with 1024 bytes
  std::uint32_t receive_capacity = 64;  // packets that a sleeping receiver holds; more are lost
  std::uint32_t small_capacity = 0;     // how many it holds if they are small; 0: as many as others
  // How often a path takes merged packets when asked, and of how many bytes at most.
  std::uint32_t merged = 0;
  std::uint32_t merged_most = 4096;
  // How often payloads are borrowed until they are sent.
  std::uint32_t borrowed = 0;
  // How often a path that takes no merged packets adds checksums, so that payloads are summed while
  // they are copied, and how often it takes packets of any lengths at once.
  std::uint32_t sealed = 0;
  std::uint32_t bundled = 0;
  // How often a packet shares a buffer with the packet that arrived just before it.
  std::uint32_t run = 0;
  // How often an acknowledgement is piggybacked on the packet behind it to the same queue pair.
  std::uint32_t piggybacked_ack = 0;
};

struct Event {
  queue::AsyncEvent type;
  void* cookie;
};

// The contents of a datagram on its way.
struct Load {
  std::vector<std::uint8_t> bytes;
  std::uint32_t merged = 1;  // how many packets it stands for
  std::optional<wire::PiggybackedAck> piggybacked_ack;
};

class World;

// One host: a device, what the device sends, and what it reports to its owner.
class Node final : public wire::Transmitter, public queue::EventSink {
 public:
  Node(World& world, std::uint32_t index, const device::DeviceOptions& options);

  device::Device& device() { return *device_; }
  const IpAddress& address() const { return device_->options().address; }
  std::uint32_t index() const { return index_; }
  const std::vector<Event>& events() const { return events_; }
  // How often an armed completion queue reported.
  std::size_t completion_events() const { return completion_events_; }
  // The program died and came back: a new device at the same address that knows nothing. Owners of
  // objects of the old device must have forgotten them.
  void restart();
  bool is_paused(TimeNs now) const { return now < paused_until_; }
  // What the node's paths report.
  wire::Path::Room room = wire::Path::Room::kUnknown;
  std::optional<wire::Path::Reading> reading;
  PeerReport report;

  void send(wire::TxBatch& batch, Qpn flow) noexcept override;
  std::unique_ptr<wire::Path> path_to(const wire::Destination& to, Qpn peer) override;
  void on_completion_event(void*) noexcept override { ++completion_events_; }
  void on_async_event(queue::AsyncEvent event, void* cookie) noexcept override {
    events_.push_back({event, cookie});
  }
  void explain(const char* text) noexcept override;
  bool wants_explanations() const noexcept override;
  void on_proxy_wanted(const queue::ProxyQp& wanted) noexcept override {
    if (proxy_wanted) proxy_wanted(wanted);
  }
  void on_proxies_released(Qpn receiver) noexcept override {
    if (proxies_released) proxies_released(receiver);
  }
  // Called by the engine to ask the test's registry of XRC domains.
  std::function<void(const queue::ProxyQp&)> proxy_wanted;
  std::function<void(Qpn)> proxies_released;

 private:
  friend class World;
  class Path;

  World& world_;
  std::uint32_t index_;
  std::unique_ptr<device::Device> device_;
  std::vector<Event> events_;
  std::size_t completion_events_ = 0;
  TimeNs paused_until_ = 0;
  TimeNs wire_free_at_ = 0;
  std::deque<std::pair<IpAddress, Load>> waiting_;  // arrived while it was paused
};

class World final {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  Node& add_node();
  Node& node(std::size_t i) { return *nodes_[i]; }
  std::size_t size() const { return nodes_.size(); }
  Random& random() { return random_; }
  TimeNs now() const { return now_; }
  Faults& faults() { return faults_; }
  void set_trace(bool on) { trace_ = on; }
  bool trace() const { return trace_; }

  // Sees every packet before the faults do; false loses the packet. For patterns of loss.
  std::function<bool(const Node& from, std::span<const std::uint8_t> bytes)> filter;

  // Injects a packet that no node sent. It arrives with the delay of all others.
  void inject(std::size_t to, const IpAddress& source, std::span<const std::uint8_t> bytes,
              std::uint32_t merged = 1) {
    inject(to, source, Load{{bytes.begin(), bytes.end()}, merged, {}});
  }
  void inject(std::size_t to, const IpAddress& source, const Load& load) { fly(to, source, load); }
  // The datagram whose bytes the filter sees.
  const Load& seen() const { return *seen_; }

  // Lets everything happen that is due within `length`.
  void run(TimeNs length);
  // Lets the next thing happen: deliveries, deadlines. False when nothing is due before `until`.
  bool step(TimeNs until);
  // For the owner's own schedule: nothing is due before this time.
  TimeNs next_event() const;

  std::uint64_t packets() const { return packets_; }
  std::uint64_t lost() const { return lost_; }
  // Packets that arrived in one buffer with others.
  std::uint64_t in_runs() const { return in_runs_; }
  std::uint64_t piggybacked_acks() const { return piggybacked_acks_; }

 private:
  friend class Node;
  struct Flight {
    std::size_t to;
    IpAddress source;
    Load load;
  };
  void launch(Node& from, const Load& load, const wire::Destination& to);
  std::optional<wire::PiggybackedAck> piggybacked_ack_of(std::span<const std::uint8_t> packet,
                                                         std::span<const std::uint8_t> behind);
  void fly(std::size_t to, const IpAddress& source, const Load& load, TimeNs busy = 0);
  // Takes the first packet of those that have arrived, and the packets in one buffer with it.
  using Arrived = std::deque<std::pair<IpAddress, Load>>;
  void deliver_first(Node& to, Arrived& arrived);
  void take_companions(std::size_t to, Arrived& arrived);
  bool comes_with(const Arrived& arrived, std::size_t which);
  void deliver(Node& to, const IpAddress& source, const Load& load);
  void deliver_run(Node& to, const Arrived& arrived, std::size_t count);
  void settle(Node& node);

  Random random_;
  Faults faults_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::multimap<TimeNs, Flight> flights_;
  TimeNs now_ = 1'000'000;
  std::uint64_t packets_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t in_runs_ = 0;
  std::uint64_t piggybacked_acks_ = 0;
  bool trace_ = false;
  const Load* seen_ = nullptr;
};

}  // namespace verbena::sim
