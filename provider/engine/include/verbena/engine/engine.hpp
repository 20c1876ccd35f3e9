// SPDX-License-Identifier: BSD-2-Clause
// The transport of an opened device at work: a device (kernel-free-transport/device), the links
// that carry its packets, and the threads that drive it. A round of driving receives from the
// links, hands the packets to the device, sends what the device has to send, and calls it at its
// deadlines. Rounds are one at a time, under the device's receive lock. The engine knows neither
// the verbs nor the daemon: what concerns the application or the emulator goes to the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "verbena/device/device.hpp"
#include "verbena/engine/descriptor_watch.hpp"
#include "verbena/engine/host.hpp"
#include "verbena/engine/links.hpp"
#include "verbena/engine/peer_reports.hpp"
#include "verbena/engine/reader_gate.hpp"
#include "verbena/engine/round_clock.hpp"
#include "verbena/events/announcements.hpp"
#include "verbena/events/completion_channel.hpp"
#include "verbena/objects/post_state.hpp"
#include "verbena/progress/poll_yield.hpp"
#include "verbena/progress/posting.hpp"
#include "verbena/progress/progress.hpp"
#include "verbena/progress/thread_spin.hpp"

namespace verbena::provider {

struct EngineOptions {
  device::DeviceOptions device;
  Links::Options links;
  bool has_rings = true;  // to peers on this host
};

class Engine final : public queue::EventSink,
                     public wire::Transmitter,
                     private link::RxSink,
                     private Driven {
 public:
  // Throws VerbRefused. No thread drives before start().
  Engine(EngineHost& host, EngineOptions&& options);
  ~Engine() override { stop(); }

  // Starts the progress thread. Returns an errno.
  int start() noexcept;
  // When this returns, only the caller's thread is inside, and the pending ACKs were sent.
  void stop() noexcept;
  // Returns whether the program has left the engine's descriptors open.
  bool has_its_descriptors() const noexcept { return descriptor_watch_.is_intact(); }
  // The program has closed the descriptors. Their numbers are not used any more, because they may
  // be those of other files now.
  void cut_off() noexcept { progress_.cut_off(); }
  // Takes the place of stop() after cut_off(). No thread drives afterwards. The engine must not be
  // destroyed, because that would close the numbers.
  void leave_behind() noexcept { progress_.leave_behind(); }

  device::Device& device() noexcept { return device_; }
  const device::Device& device() const noexcept { return device_; }
  const AddressPlan& plan() const noexcept { return device_.options().plan; }
  Links& links() noexcept { return links_; }
  PeerReports& reports() noexcept { return reports_; }
  Announcements& announcements() noexcept { return announcements_; }
  // Asks for the header fields that a GRH of datagrams needs on RoCE; on InfiniBand the packet has
  // them.
  void want_header_fields() noexcept;

  bool has_failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  // From now on no thread drives; device().fail_all() does the rest. Returns false if the engine
  // had failed before.
  bool mark_failed() noexcept { return !failed_.exchange(true); }

  // --- driving ---
  // Packets that one call of ibv_poll_cq takes off the link at most, and the progress thread in a
  // round.
  static constexpr std::size_t kPollBudget = 64;
  // Receives what is there and does what is due, when the application polls. Returns how many
  // packets came.
  std::size_t drive(std::size_t budget = kPollBudget) noexcept;
  // Sends the pending ACKs, before an object that has some goes away.
  void flush_acks() noexcept;
  // Receives what has come and then sends the pending ACKs, before a queue pair forgets what it
  // awaits.
  void catch_up() noexcept;
  // Runs `post`, which returns an errno, under the queue pair's lock, and has the posted request
  // sent.
  template <typename Post>
  int post(qp::QueuePair& qp, PostState& state, Post&& post) noexcept {
    std::optional<TimeNs> looked;
    int error = 0;
    {
      const Guard guard(qp.lock());
      error = std::forward<Post>(post)();
      if (error == 0 && state.has_new_peer) [[unlikely]]
        meet_peer(qp, state);
      looked = ring(qp, state);
    }
    if (looked) after_ring(qp, *looked);
    return error;
  }

  // --- completion channels ---
  // A queue of the channel was armed, or its event has fired.
  void note_armed(CompletionChannel& channel, queue::Arming arming) noexcept;
  void note_fired(CompletionChannel& channel) noexcept;
  // Returns when every earlier completion event has been written. Called without a lock.
  void await_announcements() noexcept { announcements_.await_written(device_.receive_lock()); }

  // --- a thread of the application that blocks in a channel's read, and drives meanwhile ---
  // Returns false if another thread does so, or if others wait for events of their own.
  bool begin_blocked_read(CompletionChannel& channel) noexcept;
  void end_blocked_read(CompletionChannel& channel) noexcept;
  // Used by the blocked reader, from begin_blocked_read() to end_blocked_read().
  ReaderGate& readers() noexcept { return readers_; }
  // Drives one round. Returns whether packets came.
  bool drive_for_reader() noexcept;
  // Called before the thread sleeps on the channel's wakers. awaits_packets() makes packets wake it
  // as well, or returns false if it cannot. prepare_reader_wait() returns false if the thread must
  // look again.
  bool awaits_packets(CompletionChannel& channel) noexcept;
  bool prepare_reader_wait() noexcept;
  void end_reader_wait() noexcept { end_wait(); }

  // --- around a fork and at exit ---
  // Between these two calls no other thread is inside.
  void pause() noexcept;
  void resume() noexcept;
  // Called in the child before resume(). The engine is dead there and holds nothing of the
  // parent's. The first poll in the child is answered with an explanation.
  void abandon() noexcept;
  // Makes the progress thread look at once.
  void wake() noexcept { progress_.kick(); }
  // Sends the pending ACKs, unless another thread drives for too long.
  void part() noexcept;

  // queue::EventSink
  void on_completion_event(void* cq) noexcept override;
  void on_async_event(queue::AsyncEvent event, void* cookie) noexcept override;
  void on_earlier_deadline(std::uint64_t deadline) noexcept override;
  void on_proxy_wanted(const queue::ProxyQp& wanted) noexcept override;
  void on_proxies_released(Qpn receiver) noexcept override;
  void explain(const char* text) noexcept override;
  bool wants_explanations() const noexcept override;
  void on_occurrence(const queue::Occurrence& what) noexcept override;

  // wire::Transmitter
  void send(wire::TxBatch& batch, Qpn flow) noexcept override;
  std::unique_ptr<wire::Path> path_to(const wire::Destination& to, Qpn peer) override;

 private:
  class Path;

  [[gnu::cold]] static void tell_child() noexcept;
  // Called under the queue pair's lock. Returns the time, if it was needed.
  std::optional<TimeNs> ring(qp::QueuePair& qp, PostState& state) noexcept;
  // Called without the queue pair's lock.
  void after_ring(qp::QueuePair& qp, TimeNs now) noexcept;
  // Called with the first post to a peer, under the queue pair's lock. A program that connects and
  // never sends gets no ring, which would cost more than the connection.
  void meet_peer(qp::QueuePair& qp, PostState& state) noexcept;
  void receive_for_poster(TimeNs now) noexcept;

  // Called under the receive lock.
  std::size_t begin_round(std::size_t budget) noexcept;
  void finish_round(std::size_t received, device::Acknowledge acknowledge) noexcept;
  void handle_timeouts(device::Acknowledge acknowledge) noexcept;
  void look_at_clock() noexcept;
  bool drive_once(TimeNs now, device::Acknowledge acknowledge, std::size_t budget) noexcept;

  // link::RxSink
  void on_datagram(const wire::RxDatagram& datagram) noexcept override;
  void on_run(const wire::RxRun& run) noexcept override;

  // Driven
  Found drive_until_quiet() noexcept override;
  bool handle_control() noexcept override { return host_.read_daemon(); }
  int receive_fd() const noexcept override { return links_.peers().wait_fd(); }
  int further_fd() const noexcept override { return links_.peers().further_wait_fd(); }
  int wake_fd() const noexcept override { return links_.peers().wake_fd(); }
  int control_fd() const noexcept override { return has_failed() ? -1 : host_.daemon_fd(); }
  int descriptor_watch_fd() const noexcept override { return descriptor_watch_.fd(); }
  void on_descriptors_closed() noexcept override { host_.on_descriptors_closed(); }
  bool prepare_wait() noexcept override;
  void end_wait() noexcept override;
  void silence() noexcept override { links_.peers().silence(); }
  TimeNs next_deadline() const noexcept override;

  EngineHost& host_;
  const bool has_rings_;
  std::atomic<bool> failed_{false};
  bool is_parents_ = false;  // this process is a fork of the process that opened it
  Links links_;
  device::Device device_;
  PeerReports reports_;
  std::atomic<std::uint32_t> refused_{0};  // polls that found another thread driving
  Posting posting_;
  ThreadSpin thread_spin_;  // the progress thread's
  RoundClock rounds_;       // under the receive lock
  PollYield poll_yield_;
  std::uint32_t sleepers_ =
      0;  // threads between prepare_wait() and end_wait(); under the receive lock
  ReaderGate readers_;
  Announcements announcements_;
  DescriptorWatch descriptor_watch_;
  Progress progress_{*this};
};

}  // namespace verbena::provider
