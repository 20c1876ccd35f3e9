// SPDX-License-Identifier: BSD-2-Clause
// One opened device (ibv_open_device): the engine, the link that carries its packets, the channel
// to the daemon, the progress thread, and the pipe of asynchronous events. Made by alloc_context,
// lives until ibv_close_device; or a further engine of such a one (context_engines.cpp), made when
// a queue pair wants it. When the daemon dies the context turns fatal: its queue pairs
// flush, the application gets IBV_EVENT_DEVICE_FATAL, and nothing new can be made.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbena/abi/library.hpp"
#include "verbena/context/asked_peers.hpp"
#include "verbena/context/link_choice.hpp"
#include "verbena/context/peer_reports.hpp"
#include "verbena/context/shared_domains.hpp"
#include "verbena/context/xrc_receivers.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/control/event_messages.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/device/device.hpp"
#include "verbena/events/announcements.hpp"
#include "verbena/events/await_acks.hpp"
#include "verbena/events/completion_channel.hpp"
#include "verbena/events/full_pipes.hpp"
#include "verbena/link/capture_link.hpp"
#include "verbena/link/fault_link.hpp"
#include "verbena/link/peer_link.hpp"
#include "verbena/link/recent_time.hpp"
#include "verbena/objects/exports.hpp"
#include "verbena/objects/mapping_watch.hpp"
#include "verbena/objects/objects.hpp"
#include "verbena/objects/user_memory.hpp"
#include "verbena/progress/neighbourhood.hpp"
#include "verbena/progress/poll_yield.hpp"
#include "verbena/progress/posting.hpp"
#include "verbena/progress/progress.hpp"
#include "verbena/progress/reader_spin.hpp"
#include "verbena/progress/thread_spin.hpp"
#include "verbena/report/guard.hpp"

namespace verbena::provider {

class Context final : public queue::EventSink,
                      public wire::Transmitter,
                      public Neighbour,
                      private link::RxSink,
                      private Driven {
 public:
  // Speaks with the daemon over the context's cmd_fd. Throws VerbRefused.
  Context(const abi::Library& library, ibv_context* public_context, const char* device_name);
  // A further engine of that one (context_engines.cpp).
  Context(Context& main, control::UniqueFd connection);
  ~Context() override;

  static Context& of(ibv_context* context) {
    return **static_cast<Context**>(abi::Library::extra_of(context));
  }

  const abi::Library& library() const { return library_; }
  ibv_context* public_context() const { return public_context_; }
  device::Device& device() { return *device_; }
  // The one that was opened, of which this may be a further engine.
  Context& main() { return main_; }
  const AddressPlan& plan() const { return device_->options().plan; }
  Progress& progress() { return progress_; }
  control::DeviceInfo info() const;
  // --- the port's GIDs (context_port.cpp) ---
  // Where an address vector leads, from which of the port's addresses. One that was not used before
  // is asked for at the daemon, but not by who handles a message of it.
  enum class MayAsk : bool { kNo, kYes };
  qp::Path path_to(const char* verb, const ibv_ah_attr& ah, MayAsk may_ask);
  // Before a UD queue pair receives: datagrams may be sent to any of them.
  void open_all_addresses();
  // For the GRH of its datagrams; InfiniBand's has it from the packet.
  void want_header_fields() noexcept {
    if (plan().infiniband) return;
    const Guard guard(device_->receive_lock());
    peers_->want_header_fields();
  }
  bool is_fatal() const { return fatal_.load(std::memory_order_relaxed); }
  // EIO, explained, once the daemon is gone.
  void check_alive(const char* verb) const;

  // Packets that one call of ibv_poll_cq may take off the link, and the progress thread in a turn.
  static constexpr std::size_t kPollBudget = 64;

  // The application polls: receives what is there and does what is due. How many packets came.
  std::size_t drive(std::size_t budget = kPollBudget) noexcept;
  bool drive_undriven(Undriven which, std::uint32_t& polls_seen) noexcept override;
  Neighbourhood& neighbourhood() { return neighbourhood_; }
  // Sends what is owed to peers, before an object that owes it goes away.
  void settle_debts() noexcept;
  // Takes in what has come, and then the same: before a queue pair forgets what it awaits.
  void catch_up() noexcept;
  // Runs `post`, which returns an errno, under the queue pair's lock, and sees to it that what was
  // posted goes.
  template <typename Post>
  int post(Qp& qp, Post&& post) noexcept {
    std::optional<TimeNs> looked;
    int error = 0;
    {
      const Guard guard(qp.pair->lock());
      error = post();
      if (error == 0 && qp.has_new_peer) [[unlikely]]
        seek_ring(qp);
      looked = ring(qp);
    }
    if (looked) after_ring(*qp.pair, *looked);
    return error;
  }

  // --- further engines (context_engines.cpp) ---
  // Which engine shall have a queue pair with these completion queues (null: none).
  Context& engine_for(Cq* send, Cq* receive, bool may_be_further);
  // For a completion queue whose queue pairs have several.
  void drive_all() noexcept;
  // What the whole port has counted, over all processes; while the emulator does not answer, what
  // this context has.
  control::Counters port_counters();

  // --- a thread of the application that drives the engine (context_blocked_reader.cpp) ---
  // The channel of this context that is read there; null if there is none.
  std::shared_ptr<CompletionChannel> channel_at(int fd) noexcept;
  // False: another thread does, or others wait for events of their own.
  bool begin_blocked_read(CompletionChannel& channel) noexcept;
  void end_blocked_read(CompletionChannel& channel) noexcept;
  // One round: whether packets came. What they oblige to tell the peer waits for the application's
  // answer to travel with, or for the next round.
  bool drive_for_reader() noexcept;
  // Before the thread sleeps on the channel's wakers: has a packet wake it, too (false: it cannot);
  // then false if it shall look again.
  bool awaits_packets(CompletionChannel& channel) noexcept;
  bool prepare_reader_wait() noexcept;
  void end_reader_wait() noexcept { end_wait(); }
  // For the blocked reader, from begin_blocked_read() to end_blocked_read().
  ReaderSpin& reader_spin() noexcept { return reader_spin_; }
  // That thread's, when it came first.
  bool has_one_processor() const noexcept { return has_one_processor_; }
  bool is_closing() const noexcept { return is_closing_.read(); }

  // --- around a fork and at exit (live_contexts.hpp) ---
  // Between the two no other thread is inside the engine.
  void pause() noexcept;
  void resume() noexcept;
  // In the child: the context is dead there, and holds nothing of the parent's.
  void resume_dead() noexcept;
  // Sends what is owed, unless somebody else is at it.
  void part() noexcept;

  // --- objects ---
  // Of one that is not of XRC.
  std::uint32_t next_srq_number() {
    return control::plain_srq_number(device_->options().slot,
                                     srqs_made_.fetch_add(1, std::memory_order_relaxed) + 1);
  }
  memory::DomainId next_domain() { return next_domain_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t next_xrc_domain() { return next_xrcd_.fetch_add(1, std::memory_order_relaxed); }
  std::shared_ptr<CompletionChannel> channel_of(ibv_comp_channel* channel);
  std::mutex& lock() { return lock_; }  // lists of objects: XRC domains, groups
  std::vector<Xrcd*>& xrc_domains() { return xrcds_; }
  struct Counts {
    std::atomic<std::uint32_t> pds{0}, cqs{0}, qps{0}, mrs{0}, srqs{0}, ahs{0}, mws{0};
  };
  Counts& counts() { return counts_; }
  Exports& exports() { return exports_; }

  // --- what another process's context has made (context_imports.cpp) ---
  // The context was opened with that one's descriptor, whose socket has this name.
  // The keys of what it has registered are to be had here.
  void set_owner(std::string name) {
    owner_ = std::move(name);
    device_->memory().leave_lower_keys();
  }
  bool imports_from_another() const { return !owner_.empty(); }
  // Asks the other process. Throws VerbRefused.
  control::ExportedObject ask_owner(const char* verb, control::ObjectKind kind,
                                    std::uint32_t number);
  // One domain here for each over there.
  memory::DomainId domain_of_owner(std::uint32_t number);
  UserMemory& user_memory() { return memory_; }

  // --- XRC domains, and what other contexts do through them (context_xrc.cpp) ---
  SharedDomains& shared_domains() { return shared_domains_; }
  XrcReceivers& receivers() { return receivers_; }

  // --- the daemon ---
  // A question and its answer; messages that come meanwhile are handled.
  template <typename Reply, typename Request>
  control::Outcome<Reply> ask(const Request& request) {
    const std::lock_guard guard(control_lock_);
    return channel_.call<Reply>(request, control::kDefaultTimeoutMs, nullptr,
                                [this](control::Incoming&& in) { handle_message(std::move(in)); });
  }
  // What awaits no answer, if the daemon takes it now; with any lock held.
  template <typename Message>
  void tell(const Message& message) noexcept {
    const Uncancelled uncancelled;
    try {
      (void)control::send_packet(channel_.fd(), control::encode(message, 0), {}, MSG_DONTWAIT);
    } catch (const std::bad_alloc&) {
    }
  }
  // One more slot of queue pair numbers. Returns why there is none; empty: it is there.
  std::string add_slot();
  void join_group(Qp& qp, const Gid& mgid, std::uint16_t mlid);
  void leave_group(Qp& qp, const Gid& mgid, std::uint16_t mlid);

  // With the first post to a peer, under the queue pair's lock: asks for a shared ring to it, if
  // rings are wanted and there is none yet. UDP carries the packets until it is there. Whoever
  // connects and never sends has none: it would cost more than the connection.
  void seek_ring(Qp& qp) noexcept;
  // The same to a context of this very port, by one of its queue pair numbers.
  void seek_ring_to(Qpn number) noexcept;

  // --- asynchronous events ---
  void send_async(std::uint64_t element, std::uint32_t type,
                  std::atomic<std::uint32_t>* delivered) noexcept;
  // Before an object goes: takes back what of its events is unread, and waits until the application
  // has acknowledged the others. In a forked child they are the parent's.
  template <typename Object>
  void end_async_events(Object& object, const std::uint32_t& acknowledged,
                        std::atomic<std::uint32_t>& delivered) noexcept {
    if (delivered == 0 || main_.async_.is_abandoned()) return;
    delivered -= static_cast<std::uint32_t>(main_.async_.withdraw(
        reinterpret_cast<std::uintptr_t>(&object), sizeof(AsynchronousEvent)));
    await_acks(object, acknowledged, delivered);
  }
  // The application has read one: there may be room for the next.
  void note_async_event_read() noexcept { async_.fill(); }

  // A completion queue begins, or has ended, to wait for a completion to tell of.
  void note_armed(Cq& cq, queue::CompletionQueue::Arming arming) noexcept;
  void note_fired(Cq& cq) noexcept;

  // queue::EventSink
  void on_completion_event(void* cq) noexcept override;
  // Returns when every earlier completion event has been written. Without a lock.
  void await_announcements() noexcept { announcements_.await_written(device_->receive_lock()); }
  void on_async_event(queue::AsyncEvent event, void* cookie) noexcept override;
  void on_earlier_deadline(std::uint64_t deadline) noexcept override;
  void on_stand_in_wanted(const queue::StandIn& wanted) noexcept override;
  void on_stand_ins_released(Qpn receiver) noexcept override;
  void explain(const char* text) noexcept override;
  bool wants_explanations() const noexcept override;

  // wire::Transmitter
  void send(wire::TxBatch& batch, Qpn flow) noexcept override;
  bool send_short(wire::ShortPacket& packet, Qpn flow) noexcept override;
  std::uint32_t capacity_packets(const wire::Destination& to,
                                 std::size_t packet_bytes) noexcept override;
  Room room_at(const wire::Destination& to, Qpn qp, TimeNs now) noexcept override;
  std::optional<Reading> reading_at(const wire::Destination& to, Qpn qp) noexcept override;
  void inquire(const wire::Destination& to, Qpn qp, TimeNs now) noexcept override;
  wire::PeerReport report_on(const wire::Destination& to, Qpn qp, TimeNs since) noexcept override;
  bool hears_by_ring(const wire::Destination& from, Qpn peer, Qpn own) noexcept override;
  Packing packing(const wire::Destination& to, Qpn qp) noexcept override;

 private:
  using Channel = control::Channel;

  // context.cpp
  void start();
  void open_device(const char* name);
  // In another network namespace than the emulator's with sockets to send from.
  void make_engine(std::uint32_t slot, int receive_fd, std::span<control::UniqueFd> given_senders);
  void make_async_pipe();
  // Under the queue pair's lock. What time it is, if that was asked.
  std::optional<TimeNs> ring(Qp& qp) noexcept;
  // Without it.
  void after_ring(qp::QueuePair& qp, TimeNs now) noexcept;
  bool is_undisturbed() const noexcept;
  // Under the receive lock.
  std::size_t begin_round(std::size_t budget) noexcept;
  void finish_round(std::size_t received, device::Acknowledge acknowledge) noexcept;
  [[gnu::noinline]] void handle_timeouts(device::Acknowledge acknowledge) noexcept;
  // Of this round, found out when it is asked for.
  TimeNs now() noexcept {
    if (now_ == 0) now_ = clock_.now_or_look();
    return now_;
  }
  [[gnu::noinline]] void look_at_clock() noexcept;
  Undriven whom_to_drive(TimeNs now) noexcept;
  bool drive_once(TimeNs now, device::Acknowledge acknowledge, std::size_t budget) noexcept;
  // What has come and gone so far; and whether it is so little more than `before` that the time it
  // took says how fast this processor is, and not how much there was to do.
  struct Load {
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
    bool is_little_after(const Load& before) const {
      return packets - before.packets <= 4 && bytes - before.bytes <= 16 * 1024;
    }
  };
  Load load() const noexcept;
  [[gnu::noinline]] void receive_for_poster(TimeNs now) noexcept;
  void on_datagram(const wire::RxDatagram& datagram) noexcept override;
  void on_train(const wire::RxTrain& train) noexcept override;

  // Driven
  Found drive_until_quiet() noexcept override;
  bool handle_control() noexcept override;
  int receive_fd() const noexcept override { return link_->wait_fd(); }
  int further_fd() const noexcept override { return peers_->further_wait_fd(); }
  int wake_fd() const noexcept override { return link_->wake_fd(); }
  int control_fd() const noexcept override { return is_fatal() ? -1 : channel_.fd(); }
  int full_pipes_fd() const noexcept override { return full_pipes_.fd(); }
  void fill_pipes() noexcept override { full_pipes_.fill(); }
  bool prepare_wait() noexcept override;
  void end_wait() noexcept override;
  void silence() noexcept override { link_->silence(); }
  TimeNs next_deadline() const noexcept override;

  void end_visits() noexcept;  // context_blocked_reader.cpp

  // context_engines.cpp
  bool is_further() const noexcept { return &main_ != this; }
  Context& next_engine();
  Context* make_further();

  // context_control.cpp
  void handle_message(control::Incoming&& message);
  // context_port.cpp
  void handle_port_event(const control::PortEvent& event);
  link::UdpOptions udp_options() const;
  std::optional<std::uint8_t> source_at(const IpAddress& own) const noexcept;
  std::vector<IpAddress> addresses() const;
  std::optional<std::uint8_t> open_address(const IpAddress& own, std::string& why_not);
  std::optional<std::uint8_t> adopt_address(const IpAddress& own, std::span<control::UniqueFd> fds);
  void handle_relayed(const control::Relayed& relayed);
  void handle_capture(control::CaptureOrder&& order, const control::UniqueFd& ring);
  void handle_faults(const std::vector<control::FaultSpec>& faults);
  void handle_find_queue_pair(const control::FindQueuePair& question);
  void choose_packs(bool must_be_ordinary);
  void handle_export_query(const control::ExportQuery& query);
  // context_events.cpp
  void handle_raise_event(const control::RaiseEvent& request, std::uint32_t sequence);
  control::Outcome<control::Done> raise_of_queue_pair(const control::RaiseEvent& request);
  control::Outcome<control::Done> raise_of_shared_receive(std::uint32_t number);
  void make_no_work_queue() noexcept;
  void raise_of_work_queue() noexcept;
  void seek_ring_to(const link::Peer& peer) noexcept;
  void handle_xrc_message(const control::Incoming& message);     // context_xrc.cpp
  void handle_peer_news(const control::PeerNews& news);          // context_timeouts.cpp
  void handle_qp_question(const control::QpQuestion& question);  // context_timeouts.cpp
  void handle_ring_inbound(control::Incoming&& message);
  void handle_ring_outbound(control::Incoming&& message);
  void report_status(const control::StatusRequest& request, std::uint32_t sequence);
  void turn_fatal(const char* reason) noexcept;

  const abi::Library& library_;
  ibv_context* public_context_;
  Context& main_;
  std::atomic<bool> fatal_{false};

  std::mutex control_lock_;  // the channel; taken before all others
  Channel channel_;          // borrows cmd_fd
  mutable std::mutex info_lock_;
  control::DeviceInfo info_;
  control::StatsPage* stats_ = nullptr;
  std::vector<IpAddress> sources_;  // further addresses in use, from source 1 on; under info_lock_
  Published<bool> receives_datagrams_{false};  // at each address that there is or will be

  UserMemory memory_;
  std::unique_ptr<device::Device> device_;
  std::optional<MappingWatch> mappings_;  // of the engine that has the registry
  std::unique_ptr<link::FaultLink> link_;
  link::CaptureLink* capture_ = nullptr;  // inside link_
  link::PeerLink* peers_ = nullptr;       // inside capture_
  PeerReports reports_;
  AskedPeers asked_peers_;  // for rings
  const LinkChoice link_choice_ = link_choice();
  bool has_faults_ = false;                // of this context's own link; under control_lock_
  std::atomic<std::uint32_t> refused_{0};  // polls that found another thread driving
  Posting posting_;
  ThreadSpin thread_spin_;  // the progress thread's
  ReaderSpin reader_spin_;  // of the blocked reader
  // Looked at under the receive lock.
  link::RecentTime clock_;
  // Under the receive lock: the time of the round that receives; when a poll last found something.
  TimeNs now_ = 0;  // 0: not asked for in this round
  std::uint32_t empty_rounds_ = 0;
  TimeNs looked_at_ = 0;     // the clock, after an empty one
  bool only_polls_ = false;  // who drives does nothing else, so close do they follow each other
  TimeNs last_found_ = 0;
  PollYield poll_yield_;
  TimeNs looked_after_any_ = 0;  // when a poll last did that
  Neighbourhood neighbourhood_;

  std::uint32_t sleepers_ = 0;  // threads between prepare_wait() and end_wait(); so, too

  Gate visits_;
  control::UniqueFd closing_;  // readable once the context goes; made for the first visit
  Published<bool> is_closing_{false};
  bool has_one_processor_ = false;                              // known since then
  std::atomic<const CompletionChannel*> last_reader_{nullptr};  // whose read blocked

  Announcements announcements_;
  FullPipes full_pipes_{progress_};
  EventPipe async_;
  std::mutex lock_;
  std::map<ibv_comp_channel*, std::weak_ptr<CompletionChannel>> channels_;
  std::vector<Xrcd*> xrcds_;
  struct Membership {
    Gid mgid;
    Qpn member;
  };
  std::vector<Membership> memberships_;
  std::atomic<memory::DomainId> next_domain_{1};
  std::atomic<std::uint32_t> next_xrcd_{1};
  std::atomic<std::uint32_t> srqs_made_{0};
  ibv_wq no_wq_{};  // for `verbena event` alone
  Counts counts_;
  Exports exports_;
  std::string owner_;
  std::map<std::uint32_t, memory::DomainId> owner_domains_;  // under lock_
  SharedDomains shared_domains_{*this};
  XrcReceivers receivers_{*this};
  // Those that were made come first, and stay.
  static constexpr std::size_t kFurtherMost = 7;
  std::mutex engines_lock_;
  std::array<std::unique_ptr<Context>, kFurtherMost> further_;
  Published<std::size_t> further_count_{0};
  std::size_t engines_most_ = 0;  // 0: not asked yet
  std::size_t engine_turn_ = 0;
  int own_async_fd_ = -1;  // that libibverbs has put another one in place of
  Progress progress_{*this};
};

}  // namespace verbena::provider
