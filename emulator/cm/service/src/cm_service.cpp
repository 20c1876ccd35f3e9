// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/cm_service.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "verbena/cm_service/id_status.hpp"
#include "verbena/cm_service/qp1_packet.hpp"
#include "verbena/control/cm_answers.hpp"

namespace verbena::cm_service {
namespace {

// The most datagrams in one send, which a receiver's buffer can hold.
constexpr std::size_t kBatchMads = 32;

}  // namespace

CmService::CmService(fabric::Fabric& fabric, fabric::Clients& clients, fabric::Timers& timers,
                     Clock clock, std::uint64_t seed)
    : fabric_(fabric),
      clients_(clients),
      timers_(timers),
      clock_(clock),
      ports_(fabric),
      cm_(ports_, seed),
      ucma_(cm_),
      next_psn_(static_cast<std::uint32_t>(seed)) {
  for (const auto& port : fabric_.ports()) port->set_management_sink(this);
  cm_.set_catch_up([this](cm::ChannelId channel) { settle(channel); });
}

CmService::~CmService() {
  for (const auto& [channel, open] : channels_) {
    if (has_ended_ && open.events) open.events->leave_to_programs();
  }
  // Peers elsewhere learn of the end by DREQ and REJ.
  for (const auto& [channel, open] : channels_) cm_.close_channel(clock_(), channel);
  send(cm_.take_mads());
  if (timer_ != 0) timers_.cancel(timer_);
  if (farewell_ != 0) timers_.cancel(farewell_);
  for (const auto& port : fabric_.ports()) port->set_management_sink(nullptr);
}

void CmService::refuse(fabric::ClientId client, std::uint32_t sequence,
                       const control::Error& error) {
  const control::Refused refused{static_cast<std::uint32_t>(error.code), error.text};
  clients_.send(client, control::encode(refused, sequence), {});
}

// --- clients ----------------------------------------------------------------------------------

void CmService::on_client_message(fabric::ClientId client, control::Incoming message) {
  const control::MessageType type = message.type();
  if (type == control::kOpenCmChannel) {
    open_channel(client, message);
  } else if (type == control::kCmCommand) {
    execute(client, message);
  } else if (type == control::kCmPosted) {
    execute_posted(client, message);
  } else if (type == control::kQueryCmListeners) {
    tell_listeners(client, message.header.sequence);
  } else {
    refuse(client, message.header.sequence, {EOPNOTSUPP, "not a message to the emulator"});
  }
}

void CmService::open_channel(fabric::ClientId client, const control::Incoming& message) {
  const auto request = control::decode<control::OpenCmChannel>(message.payload);
  if (!request) return refuse(client, message.header.sequence, request.error());
  if (request->channel == 0 || channels_.contains(request->channel) ||
      by_client_.contains(client)) {
    return refuse(client, message.header.sequence, {EBUSY, "this channel is open already"});
  }
  const fabric::ClientInfo* const info = clients_.info(client);
  const limits::Holder process = info == nullptr ? 0 : info->pid;
  OpenChannel& channel = channels_[request->channel];
  channel.client = client;
  if (channels_.size() <= kPagesMax) channel.events = ChannelEvents::create();
  by_client_[client] = request->channel;
  cm_.open_channel(request->channel, process);
  const control::UniqueFd memory =
      channel.events ? channel.events->release_fd() : control::UniqueFd();
  const int fds[] = {memory.get()};
  clients_.send(client, control::encode(control::CmChannelOpened{}, message.header.sequence),
                std::span(fds).first(memory ? 1 : 0));
}

void CmService::tell_listeners(fabric::ClientId client, std::uint32_t sequence) {
  control::CmListeners answer;
  for (const limits::Holder process : cm_.listening_processes()) {
    if (answer.processes.size() < control::CmListeners::kMost) answer.processes.push_back(process);
  }
  clients_.send(client, control::encode(answer, sequence), {});
}

void CmService::settle(cm::ChannelId channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || !it->second.events) return;
  it->second.used(it->second.events->settle(cm_, channel));
}

std::vector<fabric::CmIdStatus> CmService::cm_ids_behind(std::uint32_t number, std::size_t most) {
  std::set<cm::ChannelId> channels;
  for (const cm::RdmaId* id : cm_.ids_behind(number, most)) channels.insert(id->channel);
  for (const cm::ChannelId channel : channels) settle(channel);
  std::vector<fabric::CmIdStatus> all;
  for (const cm::RdmaId* id : cm_.ids_behind(number, most)) {
    fabric::CmIdStatus& status = all.emplace_back(
        status_of(*id, cm_.agent().connection(id->comm), cm_.agent().sidr(id->comm)));
    const auto open = channels_.find(id->channel);
    if (open != channels_.end()) status.owner = open->second.client;
    if (id->device) status.device = fabric_.ports()[FabricPorts::port_of(*id->device)]->info().name;
    status.unread_events = cm_.pending_events(id->channel);
  }
  return all;
}

void CmService::prepare(cm::ChannelId channel, std::span<const std::uint8_t> command) {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || !it->second.events) return;
  ChannelEvents& events = *it->second.events;
  settle(channel);
  if (cm::Ucma::is_get_event(command)) it->second.used(events.take_back_first(cm_, channel));
  if (const auto id = control::id_changed_by(command)) events.outdate_answers(*id);
  if (const auto number = control::id_withdrawn_by(command)) {
    it->second.used(events.take_back_from(cm_, channel, *number));
  }
}

std::uint32_t CmService::announcements_for(const OpenChannel& open, cm::ChannelId channel) const {
  const std::size_t laid_out = open.events ? open.events->size() : 0;
  const std::size_t others = cm_.pending_events(channel) - laid_out;
  if (!open.events) return std::min(static_cast<std::uint32_t>(others), kReadyAhead);
  // One announcement is enough for all events that are not laid out: when the client asks for the
  // first of them, the next are laid out.
  return static_cast<std::uint32_t>(open.events->to_be_announced() + (others > 0 ? 1 : 0));
}

std::uint32_t CmService::take_back(cm::ChannelId channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end()) return 0;
  OpenChannel& open = it->second;
  const std::uint32_t back =
      open.announced - std::min(open.announced, announcements_for(open, channel));
  open.announced -= back;
  return back;
}

void CmService::execute(fabric::ClientId client, const control::Incoming& message) {
  const auto request = control::decode<control::CmCommand>(message.payload);
  if (!request) return refuse(client, message.header.sequence, request.error());
  catch_up(request->channel);
  if (request->other != 0) catch_up(request->other);
  const auto channel = channels_.find(request->channel);
  if (channel == channels_.end()) {
    return refuse(client, message.header.sequence, {EBADF, "no such event channel"});
  }
  if (const auto error = ruled_calls_.judge(client, request->command, clock_())) {
    return refuse(client, message.header.sequence, *error);
  }
  prepare(request->channel, request->command);
  if (request->other != 0 && request->other != request->channel) {
    prepare(request->other, request->command);
  }
  if (cm::Ucma::is_get_event(request->command)) channel->second.used(1);
  cm::UcmaReply done = ucma_.execute(clock_(), request->channel, request->command,
                                     request->attached, request->other);
  if (const std::string reason = cm_.take_reason(); !reason.empty() && done.error != 0) {
    return refuse(client, message.header.sequence, {done.error, reason});
  }
  control::CmReply reply;
  reply.code = static_cast<std::uint32_t>(done.error);
  reply.response_address = done.response_address;
  reply.response = std::move(done.response);
  reply.destroyed_at = done.destroyed_uid;
  reply.destroyed_events = done.destroyed_events;
  // A client that fetches one event after the other finds the next one announced. An event that was
  // announced together with a withdrawn one has no message, and can be read once the client has the
  // reply. So it is announced before, and the messages are counted after that.
  const bool withdraws = control::id_withdrawn_by(request->command).has_value();
  if (withdraws || cm::Ucma::is_get_event(request->command)) announce(request->channel);
  if (withdraws) {
    // A migrated ID takes its events along, and the events behind them stay on the other channel.
    const cm::ChannelId left = request->other != 0 ? request->other : request->channel;
    if (left != request->channel) announce(left);
    reply.withdrawn = take_back(left);
  }
  clients_.send(client, control::encode(reply, message.header.sequence), {});
  announce_soon(request->channel);
  flush_soon();
  if (told_ && cm::Ucma::is_get_event(request->command)) await_fetch();
  end_if_all_are_told();
}

void CmService::execute_posted(fabric::ClientId client, const control::Incoming& message) {
  const auto request = control::decode<control::CmPosted>(message.payload);
  const auto own = by_client_.find(client);
  if (!request || own == by_client_.end()) return;
  const auto promised = control::parse_cm_promised(request->command);
  if (!promised) return;
  prepare(own->second, request->command);
  const cm::UcmaReply done = ucma_.execute(clock_(), own->second, request->command);
  if (done.error != 0) cm_.break_promise(own->second, promised->id, promised->uid, done.error);
  flush_soon();
}

// Does nothing while it already runs: a client may send other commands where only posted ones
// belong, and each of these would call it again.
void CmService::catch_up(cm::ChannelId channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || !it->second.events) return;
  if (std::exchange(is_catching_up_, true)) return;
  clients_.catch_up(it->second.client);
  is_catching_up_ = false;
}

void CmService::outdate_answers(const cm::Wakeup& change) {
  const auto it = channels_.find(change.channel);
  if (it != channels_.end() && it->second.events) {
    it->second.events->outdate_answers(change.changed);
  }
}

void CmService::on_client_closed(fabric::ClientId client) {
  ruled_calls_.forget(client);
  const auto it = by_client_.find(client);
  if (it == by_client_.end()) return;
  const cm::ChannelId channel = it->second;
  by_client_.erase(it);
  channels_.erase(channel);
  cm_.close_channel(clock_(), channel);
  flush_soon();
  end_if_all_are_told();
}

void CmService::announce(cm::ChannelId channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end()) return;
  if (it->second.events) {
    ChannelEvents& events = *it->second.events;
    it->second.used(events.settle(cm_, channel));
    it->second.used(events.lay_out(ucma_, cm_, channel));
  }
  const std::uint32_t wanted = announcements_for(it->second, channel);
  while (it->second.announced < wanted) {
    ++it->second.announced;
    clients_.send(it->second.client,
                  control::encode(control::CmEventReady{}, control::kDaemonSequence), {});
  }
}

// --- devices ------------------------------------------------------------------------------------

void CmService::on_port_changed(const fabric::Port& port) {
  if (port.info().port_state == control::PortState::kActive) return;
  for (const cm::DeviceId number : ports_.numbers_of(place_of(port))) cm_.handle_port_down(number);
  flush();
}

void CmService::on_addresses_changed(const fabric::Port& port) {
  for (const cm::DeviceId number : ports_.numbers_of(place_of(port))) {
    cm_.handle_address_change(number);
  }
  flush();
}

void CmService::on_attributes_changed(const fabric::Port&) { ports_.refresh(); }

// A promised call is carried out whatever a rule says. So a call that a rule names is not promised,
// and promises that were given are withdrawn.
void CmService::on_rules_changed() {
  ruled_calls_.follow_rules(clock_());
  const bool may_fail = ruled_calls_.names("rdma_connect") || ruled_calls_.names("rdma_accept");
  ucma_.set_promising(!may_fail);
  if (!may_fail) return;
  for (const auto& [channel, open] : channels_) {
    if (open.events) open.events->outdate_all_answers();
  }
}

void CmService::on_ending(std::function<void()> told) {
  told_ = std::move(told);
  has_ended_ = true;
  for (std::size_t i = 0; i < fabric_.ports().size(); ++i) {
    for (const cm::DeviceId number : ports_.numbers_of(i)) cm_.remove_device(clock_(), number);
  }
  for (const auto& [channel, open] : channels_) announce(channel);
  flush();
  await_fetch();
  end_if_all_are_told();
}

void CmService::await_fetch() {
  if (farewell_ != 0) timers_.cancel(farewell_);
  farewell_ = timers_.after(kFarewell, [this] {
    farewell_ = 0;
    std::exchange(told_, nullptr)();
  });
}

// Events in the memory that programs have mapped outlive the emulator. The others must be fetched.
void CmService::end_if_all_are_told() {
  if (!told_ || farewell_ == 0) return;
  const bool all = std::all_of(channels_.begin(), channels_.end(), [this](const auto& channel) {
    const auto& [number, open] = channel;
    return open.events ? open.events->has_all(cm_, number) : cm_.pending_events(number) == 0;
  });
  if (!all) return;
  timers_.cancel(std::exchange(farewell_, 0));
  std::exchange(told_, nullptr)();
}

std::size_t CmService::place_of(const fabric::Port& port) const {
  const auto& all = fabric_.ports();
  const auto own = std::find_if(all.begin(), all.end(),
                                [&](const auto& candidate) { return candidate.get() == &port; });
  return static_cast<std::size_t>(own - all.begin());
}

// --- the network and the clock ----------------------------------------------------------------

void CmService::on_management_datagram(fabric::Port& port,
                                       const wire::RxDatagram& datagram) noexcept {
  const std::optional<std::span<const std::uint8_t>> mad = mad_of_packet(datagram.bytes);
  if (!mad) return;
  const std::optional<std::uint8_t> source = port.source_at(datagram.destination);
  if (!source) return;
  const cm::DeviceId device = FabricPorts::number_of(place_of(port), *source);
  cm_.handle_mad(clock_(), device, datagram.source, *mad);
  flush_soon();
}

// Does nothing: the connections of a dead process end with its event channels, which the kernel
// closes as well. A program that only closes its device keeps them, as with an adapter.
void CmService::on_context_closed(fabric::Port&, std::uint32_t) noexcept {}

// Sends datagrams of one device in batches. Those to one peer usually follow each other and go out
// in one send. What the socket does not take is lost, as on any network; the CM sends it again.
void CmService::send(std::span<const cm::OutMad> mads) {
  std::array<std::uint8_t, kBatchMads*(kQp1PacketSize + wire::kIcrcSize)> buffer;
  wire::TxBatch batch(buffer);
  while (!mads.empty()) {
    const cm::DeviceId device = mads.front().device;
    while (!mads.empty() && mads.front().device == device &&
           write_qp1_packet(
               batch, mads.front().bytes,
               {.address = mads.front().destination, .source = FabricPorts::source_of(device)},
               next_psn_)) {
      ++next_psn_;
      mads = mads.subspan(1);
    }
    fabric_.ports()[FabricPorts::port_of(device)]->send(batch, kManagementQpn);
    batch.clear();
  }
}

void CmService::flush_soon() {
  if (std::exchange(is_flush_due_, true)) return;
  timers_.at_end_of_turn([this] {
    is_flush_due_ = false;
    flush();
  });
}

void CmService::announce_soon(cm::ChannelId channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || std::exchange(it->second.is_due, true)) return;
  due_.push_back(channel);
}

void CmService::flush() {
  const std::vector<cm::OutMad> mads = cm_.take_mads();
  send(mads);
  for (const cm::Wakeup& wakeup : cm_.take_wakeups()) {
    if (wakeup.changed != 0) outdate_answers(wakeup);
    announce_soon(wakeup.channel);
  }
  for (const cm::ChannelId channel : std::exchange(due_, {})) {
    const auto it = channels_.find(channel);
    if (it == channels_.end()) continue;
    it->second.is_due = false;
    announce(channel);
  }
  set_timer();
}

void CmService::set_timer() {
  TimeNs deadline = cm_.next_deadline();
  for (const auto& port : fabric_.ports()) deadline = std::min(deadline, port->next_due());
  // A timer that comes early does no harm. It is replaced only if it would come too late.
  if (timer_ != 0 && timer_at_ <= deadline) return;
  if (timer_ != 0) timers_.cancel(timer_);
  timer_ = 0;
  timer_at_ = deadline;
  if (deadline == kNever) return;
  const TimeNs now = clock_();
  timer_ = timers_.after(deadline > now ? deadline - now : 0, [this] {
    timer_ = 0;
    timer_at_ = kNever;
    for (const auto& port : fabric_.ports()) port->send_due();
    cm_.handle_timeout(clock_());
    flush();
  });
}

}  // namespace verbena::cm_service
