// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/context.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbena/context/blocked_reader.hpp"
#include "verbena/context/live_contexts.hpp"
#include "verbena/context/neighbours.hpp"
#include "verbena/context/program_name.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/futex.hpp"
#include "verbena/link/seed.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/objects/memory_guard.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

// Polls in a row that find another thread driving, before one gives way to it.
constexpr std::uint32_t kRefusalsUntilYield = 64;
// An application that polls in vain for so long looks after whatever else there is of its process,
// once in so long.
constexpr TimeNs kPatience = 1'000'000;
constexpr int kRoundsPerTurn = 64;
constexpr std::size_t kSmallPacket = 1024;
constexpr std::uint32_t kDeferredUntilLook = 8;
constexpr std::uint32_t kEmptyRoundsUntilLook = 8;
// Of an application that does nothing in between, at most.
constexpr TimeNs kRoundOfWhoOnlyPolls = 400;
constexpr int kTriesToPart = 100;

bool is_loopback(const IpAddress& address) {
  return address.is_v4() && address.v4_host_order() >> 24 == 127;
}

void* map_stats(int fd) {
  void* page = ::mmap(nullptr, control::kStatsPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return page == MAP_FAILED ? nullptr : page;
}

}  // namespace

Context::Context(const abi::Library& library, ibv_context* public_context, const char* device_name)
    : library_(library),
      public_context_(public_context),
      main_(*this),
      channel_(public_context->cmd_fd, Channel::Ownership::kBorrowed) {
  visits_.reopen();
  make_async_pipe();
  make_no_work_queue();
  open_device(device_name);
  start();
}

void Context::start() {
  guard_memory();
  if (const int error = progress_.start(); error != 0) {
    refuse(error, "ibv_open_device: the progress thread cannot be started (errno %d)", error);
  }
  add_live_context(*this);
}

Context::~Context() {
  for (auto& further : further_) further.reset();
  if (is_further()) release_context(*this);
  remove_live_context(*this);
  end_visits();
  progress_.stop();
  if (device_) settle_debts();
  mappings_.reset();
  device_.reset();
  link_.reset();
  if (stats_ != nullptr) ::munmap(stats_, control::kStatsPageSize);
}

void Context::make_async_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse(errno, "ibv_open_device: no descriptors left");
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  async_.adopt(control::UniqueFd(ends[1]), ends[0]);
  async_.set_full_pipes(&full_pipes_);
  public_context_->async_fd = ends[0];
  public_context_->num_comp_vectors = static_cast<int>(kCompletionVectors);
}

void Context::open_device(const char* name) {
  const auto welcome = control::say_hello(channel_, control::ClientKind::kProvider);
  if (!welcome) refuse(welcome.error().code, "ibv_open_device: %s", welcome.error().text.c_str());
  std::array<control::UniqueFd, control::kMaxFds> fds;
  auto opened = channel_.call<control::DeviceOpened>(
      control::OpenDevice{name, control::network_namespace()}, control::kDefaultTimeoutMs, &fds);
  if (!opened) refuse(opened.error().code, "ibv_open_device: %s", opened.error().text.c_str());
  info_ = opened->device;
  if (fds[1]) stats_ = static_cast<control::StatsPage*>(map_stats(fds[1].get()));
  const std::size_t senders = std::min<std::size_t>(opened->senders, fds.size() - 3);
  make_engine(opened->slot, fds[0].release(), std::span(fds).subspan(2, senders));
  // Before the first packet.
  if (opened->capture.is_on) handle_capture(std::move(opened->capture), fds[2 + senders]);
  handle_faults(opened->faults);
}

void Context::make_engine(std::uint32_t slot, int receive_fd,
                          std::span<control::UniqueFd> given_senders) {
  control::UniqueFd receiver(receive_fd);
  device::DeviceOptions options;
  options.slot = slot;
  options.address = info_.address;
  options.plan.infiniband = info_.persona == control::Persona::kInfiniBand;
  options.plan.subnet = info_.subnet.is_v4() ? info_.subnet.v4_host_order() : 0;
  options.plan.prefix_length = info_.prefix_length;
  options.limits.pkeys = static_cast<std::uint16_t>(info_.pkeys.size());
  options.limits.gids = static_cast<std::uint16_t>(info_.gids.size());
  options.limits.active_mtu = static_cast<Mtu>(info_.active_mtu);
  options.limits.max_rd_atomic = kMaxRdAtomic;
  options.limits.max_dest_rd_atomic = kMaxRdAtomic;
  options.limits.ethernet = !options.plan.infiniband;
  options.limits.lid = info_.lid;
  options.memory_port = &memory_;
  if (is_further()) options.memory = &main_.device_->memory();
  options.max_regions = kMaxMr + kMaxMw;
  if (stats_ != nullptr) options.counters = &stats_->counters;
  options.seed = link::random_seed();
  device_ = std::make_unique<device::Device>(options, *this, *this);
  if (!is_further()) mappings_.emplace(device_->memory());
  device_->set_port_active(info_.port_state == control::PortState::kActive);

  PortCounters& counters = device_->counters();
  std::vector<int> senders;
  for (control::UniqueFd& sender : given_senders) senders.push_back(sender.release());
  auto udp = link::UdpLink::open(receiver.release(), info_.address, udp_options(), counters.drops,
                                 senders);
  if (!udp) refuse(udp.error().error, "ibv_open_device: %s", udp.error().text.c_str());
  auto peers = std::make_unique<link::PeerLink>(std::move(*udp), link::Peer{info_.address, slot},
                                                counters.drops, counters.ring_packets.data());
  peers_ = peers.get();
  choose_packs(false);
  auto capture = std::make_unique<link::CaptureLink>(std::move(peers), info_.address);
  capture_ = capture.get();
  link_ = std::make_unique<link::FaultLink>(std::move(capture), program_name_hash(),
                                            device_->counters().drops);
}

void Context::check_alive(const char* verb) const {
  if (is_fatal()) refuse(EIO, "%s: the emulator is gone; close the device and open it again", verb);
}

std::size_t Context::begin_round(std::size_t budget) noexcept {
  announcements_.begin_round();
  return is_undisturbed() ? peers_->receive(*this, budget) : link_->receive(*this, budget);
}

[[gnu::always_inline]] inline void Context::finish_round(std::size_t received,
                                                         device::Acknowledge acknowledge) noexcept {
  if (received != 0 || device_->has_work()) device_->finish_receive(now(), acknowledge);
  if (device_->next_deadline() <= now()) [[unlikely]]
    handle_timeouts(acknowledge);
}

bool Context::drive_once(TimeNs now, device::Acknowledge acknowledge, std::size_t budget) noexcept {
  now_ = now;
  const std::size_t received = begin_round(budget);
  finish_round(received, acknowledge);
  return received != 0;
}

// The clock costs as much as an empty round without it: an application that spins looks at it now
// and then, and when something has come that is not close behind something else.
std::size_t Context::drive(std::size_t budget) noexcept {
  if (is_fatal()) return 0;
  Lock& lock = device_->receive_lock();
  if (!lock.try_lock()) {
    progress_.note_poll(link::monotonic_now_ns());
    // Whoever holds it may have lost the processor to this very spinning (under valgrind, which
    // runs one thread at a time, for long).
    if (refused_.fetch_add(1, std::memory_order_relaxed) % kRefusalsUntilYield ==
        kRefusalsUntilYield - 1) {
      ::sched_yield();
    }
    return 0;
  }
  now_ = 0;
  if (only_polls_ && !device_->has_work()) (void)peers_->linger();
  const std::size_t received = begin_round(budget);
  if (received == 0) device_->forget_answered();
  if (received == 0 && !device_->has_work() && ++empty_rounds_ % kEmptyRoundsUntilLook != 0) {
    progress_.note_poll();
    announcements_.end_round(lock);
    neighbourhood_.look(Undriven::kParked);
    return 0;
  }
  if (received == 0) look_at_clock();
  finish_round(received, device::Acknowledge::kLater);
  const TimeNs now = this->now();
  progress_.note_poll(now);
  if (received != 0) {
    last_found_ = now;
    progress_.note_found();
    poll_yield_.found();
    if (device_->holds_any()) progress_.note_deadline(device_->next_deadline());
  }
  const bool gives_way = poll_yield_.is_due(now - last_found_);
  const Undriven neighbours = received == 0 ? whom_to_drive(now) : Undriven::kParked;
  announcements_.end_round(lock);
  if (received != 0) return received;
  neighbourhood_.look(neighbours);
  if (gives_way) poll_yield_.yield();
  return 0;
}

// After an empty round.
Undriven Context::whom_to_drive(TimeNs now) noexcept {
  if (now < std::max(last_found_, looked_after_any_) + kPatience) return Undriven::kParked;
  looked_after_any_ = now;
  return Undriven::kAny;
}

// After an empty round of an application's.
void Context::look_at_clock() noexcept {
  const TimeNs before = std::exchange(looked_at_, clock_.look());
  now_ = looked_at_;
  only_polls_ = looked_at_ - before < kEmptyRoundsUntilLook * kRoundOfWhoOnlyPolls;
  peers_->remind(looked_at_);
}

bool Context::drive_undriven(Undriven which, std::uint32_t& polls_seen) noexcept {
  if (is_fatal() || !progress_.is_undriven(which, polls_seen)) return false;
  Lock& lock = device_->receive_lock();
  if (!lock.try_lock()) return false;
  drive_once(clock_.look(), device::Acknowledge::kNow, kPollBudget);
  announcements_.end_round(lock);
  return true;
}

Context::Load Context::load() const noexcept {
  const PortCounters& counters = device_->counters();
  return {counters.received.packets.read() + counters.sent.packets(),
          counters.received.bytes.read() + counters.sent.bytes()};
}

// It does not look on when it has just told the application of something, which may want this very
// processor.
Driven::Found Context::drive_until_quiet() noexcept {
  Lock& lock = device_->receive_lock();
  Found found = Found::kNothing;
  TimeNs look_until = 0;
  TimeNs found_at = 0;  // in the round before, if that was little
  const std::uint32_t polls = progress_.polls();
  for (int round = 0; round < kRoundsPerTurn;) {
    if (!lock.try_lock()) return Found::kAnother;
    const TimeNs now = clock_.look();
    if (found_at != 0) progress_.note_turn(now - found_at);
    const Load before = load();
    const bool more = drive_once(now, device::Acknowledge::kUnlessAnswered, kPollBudget);
    found_at = more && load().is_little_after(before) ? now : 0;
    if (more) {
      last_found_ = now;
      found = Found::kPackets;
      ++round;
      look_until = announcements_.is_empty() ? thread_spin_.found(now) : thread_spin_.stop();
    }
    announcements_.end_round(lock);
    if (!more && now >= look_until) {
      thread_spin_.gave_up();
      break;
    }
    // The application has come for it, and found another at it.
    if (progress_.polls() != polls) {
      thread_spin_.stop();
      break;
    }
  }
  if (found == Found::kPackets) device_->set_hold(progress_.answer_time());
  return found;
}

void Context::settle_debts() noexcept {
  if (!device_->owes_anything()) return;
  const Guard guard(device_->receive_lock());
  device_->finish_receive(link::monotonic_now_ns(), device::Acknowledge::kNow);
}

// An adapter takes in what comes when it comes: an answer that is here completes its request, which
// would be flushed otherwise.
void Context::catch_up() noexcept {
  if (is_fatal()) return;
  Lock& lock = device_->receive_lock();
  bool more = true;
  for (int round = 0; more && round < kRoundsPerTurn; ++round) {
    lock.lock();
    peers_->look_at_udp();
    more = drive_once(clock_.look(), device::Acknowledge::kNow, kPollBudget);
    announcements_.end_round(lock);
  }
  // Rounds in which nothing comes leave what waits for company.
  settle_debts();
}

void Context::pause() noexcept {
  neighbourhood_.lock().lock();
  control_lock_.lock();
  device_->receive_lock().lock();
  announcements_.lock().lock();
  lock_.lock();
}

void Context::resume() noexcept {
  lock_.unlock();
  announcements_.lock().unlock();
  device_->receive_lock().unlock();
  control_lock_.unlock();
  neighbourhood_.lock().unlock();
}

void Context::resume_dead() noexcept {
  fatal_.store(true);
  progress_.abandon();
  peers_->abandon_rings();
  async_.abandon();
  for (const auto& [handle, known] : channels_) {
    if (const auto channel = known.lock()) channel->pipe.abandon();
  }
  capture_->abandon();
  std::construct_at(&visits_);  // who was inside is not here
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing >= 0) {
    // The numbers stay taken, because others close them.
    ::dup3(nothing, channel_.fd(), O_CLOEXEC);
    ::dup3(nothing, link_->wait_fd(), O_CLOEXEC);
    ::close(nothing);
  }
  resume();
}

// Whoever receives is soon done; but the process must end, whatever its other threads do.
void Context::part() noexcept {
  if (is_fatal()) return;
  Lock& lock = device_->receive_lock();
  bool is_ours = lock.try_lock();
  for (int i = 0; !is_ours && i < kTriesToPart; ++i) {
    ::sched_yield();
    is_ours = lock.try_lock();
  }
  if (is_ours) {
    device_->finish_receive(link::monotonic_now_ns(), device::Acknowledge::kNow);
    lock.unlock();
  }
}

void Context::on_datagram(const wire::RxDatagram& datagram) noexcept {
  device_->handle_datagram(now(), datagram);
}

void Context::on_train(const wire::RxTrain& train) noexcept { device_->handle_train(now(), train); }

// Who has just polled knows the time.
std::optional<TimeNs> Context::ring(Qp& qp) noexcept {
  if (is_fatal()) return std::nullopt;
  const bool is_deferred = device_->defer(*qp.pair);
  if (is_deferred && ++qp.deferred % kDeferredUntilLook != 0) return std::nullopt;
  const TimeNs now = clock_.now();
  if (is_deferred) return now;
  progress_.note_sending(true);
  device_->send_now(*qp.pair, now);
  progress_.note_sending(false);
  return now;
}

void Context::after_ring(qp::QueuePair& qp, TimeNs now) noexcept {
  // Whoever waits for no answer gets no other occasion to go on.
  if (!is_reliable(qp.transport())) {
    if (device_->has_work()) progress_.note_work();
    return;
  }
  if (posting_.goes_on(now, progress_.looks())) receive_for_poster(now);
}

// A send is as long as the answers of many others: left to the progress thread, these would have it
// and the poster wait for each other at every turn.
void Context::receive_for_poster(TimeNs now) noexcept {
  progress_.note_poll(now);
  Lock& lock = device_->receive_lock();
  if (!lock.try_lock()) return;
  if (drive_once(now, device::Acknowledge::kNowForPoster, kPollBudget)) last_found_ = now;
  announcements_.end_round(lock);
}

// Not while another thread receives: what that one leaves is looked at once more.
bool Context::prepare_wait() noexcept {
  Lock& lock = device_->receive_lock();
  if (!lock.try_lock()) return false;
  link_->silence();
  const bool may_sleep = link_->prepare_wait();
  if (may_sleep) ++sleepers_;
  lock.unlock();
  return may_sleep;
}

void Context::end_wait() noexcept {
  const Guard guard(device_->receive_lock());
  if (--sleepers_ == 0) link_->end_wait();
}

TimeNs Context::next_deadline() const noexcept {
  if (device_->has_work()) return 0;
  return std::min(device_->next_deadline(), link_->next_timeout());
}

void Context::send(wire::TxBatch& batch, Qpn flow) noexcept { link_->send(batch, flow); }

bool Context::send_short(wire::ShortPacket& packet, Qpn flow) noexcept {
  if (!is_undisturbed()) [[unlikely]]
    return false;
  return peers_->send_short(packet, flow);
}

// Neither faults nor a capture look at what passes: they are passed by.
bool Context::is_undisturbed() const noexcept {
  return link_->is_idle() && !capture_->is_running();
}

// Half a ring, because answers share it with requests. A small packet may be any one of up to 1
// KiB, and takes what such a one does.
std::uint32_t Context::capacity_packets(const wire::Destination& to,
                                        std::size_t packet_bytes) noexcept {
  const std::uint32_t by_udp = link_->capacity_packets(packet_bytes);
  const bool is_local = source_at(to.address).has_value() || is_loopback(to.address);
  if (link_choice_ == LinkChoice::kUdp || !is_local) return by_udp;
  const std::size_t largest = std::max(packet_bytes, kSmallPacket + wire::kMaxHeaders);
  return std::min(by_udp, link::SharedRing::packets_held(largest) / 2);
}

std::string Context::add_slot() {
  const auto added = ask<control::SlotAdded>(control::ExtraSlot{});
  if (!added) return added.error().text;
  device_->add_slot(added->slot);
  return {};
}

std::shared_ptr<CompletionChannel> Context::channel_of(ibv_comp_channel* channel) {
  const std::lock_guard guard(lock_);
  std::weak_ptr<CompletionChannel>& known = channels_[channel];
  if (auto alive = known.lock()) return alive;
  auto made = std::make_shared<CompletionChannel>();
  if (const int error = made->pipe.open(channel->fd); error != 0) {
    refuse(error, "ibv_create_cq: the completion channel cannot be written to (errno %d)", error);
  }
  made->pipe.set_full_pipes(&full_pipes_);
  known = made;
  offer_channel(channel->fd);
  std::erase_if(channels_, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

}  // namespace verbena::provider
