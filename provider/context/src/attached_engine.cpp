// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/attached_engine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbena/base/standard_streams.hpp"
#include "verbena/context/context.hpp"
#include "verbena/context/program_name.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/link/seed.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/objects/memory_guard.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

AttachedEngine::AttachedEngine(Context& owner, control::Channel channel, const char* device,
                               AttachedEngine* first)
    : owner_(owner), is_first_(first == nullptr), client_(std::move(channel), *this) {
  const auto welcome = control::say_hello(client_.channel(), control::ClientKind::kProvider);
  if (!welcome) refuse(welcome.error().code, "ibv_open_device: %s", welcome.error().text.c_str());
  DaemonClient::Descriptors fds;
  auto opened = client_.channel().call<control::DeviceOpened>(
      control::OpenDevice{device, control::network_namespace(), !is_first_},
      control::kDefaultTimeoutMs, &fds);
  if (!opened) refuse(opened.error().code, "ibv_open_device: %s", opened.error().text.c_str());
  port_.open(opened->device);
  if (fds[1]) stats_ = control::map_stats(fds[1].get());
  if (stats_) journal_.attach(stats_->journal);
  EngineOptions options = options_for(opened->slot, first);
  options.links.receiver = std::move(fds[0]);
  // Sockets to send from come if this process is in another network namespace than the emulator.
  const std::size_t senders = std::min<std::size_t>(opened->senders, fds.size() - 3);
  options.links.senders = std::span(fds).subspan(2, senders);
  EngineHost& host = *this;
  engine_ = std::make_unique<Engine>(host, std::move(options));
  engine_->device().set_port_active(opened->device.port_state == control::PortState::kActive);
  port_.attach(*engine_);
  rings_.attach(engine_->links().peers());
  orders_.attach(*engine_, port_.info().name, stats_ ? &stats_->page : nullptr,
                 is_first_ ? &owner_.failing_calls() : nullptr);
  // Orders take effect before the first packet.
  if (opened->capture.is_on) orders_.on_capture(std::move(opened->capture), fds[2 + senders]);
  orders_.on_faults(opened->faults, opened->rules);
}

AttachedEngine::~AttachedEngine() {
  if (engine_) stop();
}

EngineOptions AttachedEngine::options_for(std::uint32_t slot, AttachedEngine* first) {
  const control::DeviceInfo info = port_.info();
  EngineOptions options;
  device::DeviceOptions& d = options.device;
  d.slot = slot;
  d.address = info.address;
  d.plan.infiniband = info.persona == control::Persona::kInfiniBand;
  d.plan.subnet = info.subnet.is_v4() ? info.subnet.v4_host_order() : 0;
  d.plan.prefix_length = info.prefix_length;
  d.limits.pkeys = static_cast<std::uint16_t>(info.pkeys.size());
  d.limits.gids = static_cast<std::uint16_t>(info.gids.size());
  d.limits.active_mtu = static_cast<Mtu>(info.active_mtu);
  d.limits.max_rd_atomic = kMaxRdAtomic;
  d.limits.max_dest_rd_atomic = kMaxRdAtomic;
  d.limits.ethernet = !d.plan.infiniband;
  d.limits.lid = info.lid;
  d.memory_port = &owner_.user_memory();
  if (first != nullptr) d.memory = &first->engine().device().memory();
  d.max_regions = kMaxMr + kMaxMw;
  if (stats_) d.counters = &stats_->page.counters;
  d.seed = link::random_seed();
  options.has_rings = rings_.choice() != LinkChoice::kUdp;
  options.links.self = {info.address, slot};
  options.links.udp = port_.udp_options();
  options.links.program = program_name_hash();
  if (first != nullptr) options.links.lines = first->engine().links().faults().lines();
  return options;
}

void AttachedEngine::start() {
  guard_memory();
  if (const int error = engine_->start(); error != 0) {
    refuse(error, "ibv_open_device: the progress thread cannot be started (errno %d)", error);
  }
}

void AttachedEngine::stop() noexcept {
  engine_->stop();
  engine_->device().destroy_left();
  if (is_first_ && !has_failed()) journal_.note_end(control::JournalKind::kClosed);
}

void AttachedEngine::on_own_descriptors_closed() noexcept {
  client_.cut_off();
  engine_->cut_off();
  on_lost("the program has closed descriptors of the device");
}

void AttachedEngine::on_destroyed(Qpn number) noexcept {
  if (orders_.names_queue_pairs()) client_.tell(control::QueuePairGone{number.value()});
}

void AttachedEngine::part() noexcept {
  engine_->part();
  if (is_first_ && !has_failed()) journal_.note_end(control::JournalKind::kExited);
}

void AttachedEngine::check_alive(const char* verb) const {
  if (!has_failed()) return;
  if (owner_.has_lost_descriptors()) {
    refuse(EIO, "%s: the program has closed descriptors of the device; open it again", verb);
  }
  refuse(EIO,
         is_parents_ ? "%s: the parent of this process has opened the device; open it here as well"
                     : "%s: the emulator is gone; close the device and open it again",
         verb);
}

std::string AttachedEngine::add_slot() {
  const auto added = client_.ask<control::SlotAdded>(control::ExtraSlot{});
  if (!added) return added.error().text;
  engine_->device().add_slot(added->slot);
  return {};
}

// --- around a fork -----------------------------------------------------------------------------

void AttachedEngine::pause() noexcept {
  client_.lock().lock();
  engine_->pause();
}

void AttachedEngine::resume() noexcept {
  engine_->resume();
  client_.lock().unlock();
}

void AttachedEngine::abandon() noexcept {
  is_parents_ = true;
  engine_->abandon();
  const int nothing = beyond_streams(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (nothing >= 0) {
    // The descriptor numbers stay taken, because their owners close them.
    ::dup3(nothing, client_.fd(), O_CLOEXEC);
    ::close(nothing);
  }
  engine_->links().peers().leave_sockets();
}

// --- EngineHost --------------------------------------------------------------------------------

void AttachedEngine::on_completion_event(void* cq) noexcept {
  owner_.on_completion_event(*static_cast<Cq*>(cq));
}

void AttachedEngine::on_async_event(queue::AsyncEvent event, void* cookie) noexcept {
  owner_.on_async_event(event, cookie);
}

void AttachedEngine::on_proxy_wanted(const queue::ProxyQp& wanted) noexcept {
  owner_.shared_domains().want(wanted);
}

void AttachedEngine::on_proxies_released(Qpn receiver) noexcept {
  owner_.shared_domains().release(receiver);
}

void AttachedEngine::on_descriptors_closed() noexcept { owner_.on_descriptors_closed(); }

void AttachedEngine::ask_about(const IpAddress& address, Qpn qp) noexcept {
  client_.tell(control::PeerQuestion{address, qp.value()});
}

}  // namespace verbena::provider
