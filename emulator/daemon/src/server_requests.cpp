// SPDX-License-Identifier: BSD-2-Clause
// Carries out each message of a client.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "journal_json.hpp"
#include "server.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/control/printable.hpp"
#include "verbena/control/ring_messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "version.hpp"

namespace verbena::daemon {

using control::Incoming;
using control::MessageType;

void Server::on_message(Session& session, Incoming in) {
  if (!check_hello_and_version(session, in)) return;
  const bool is_for_extension = extension_ != nullptr && extension_->takes(in.type());
  // A client that asks for more now learns of the end by the hang-up. The extension still answers.
  if (ending_ && !is_for_extension) return;
  if (in.type() == MessageType::kHello) return on_hello(session, in);
  if (is_for_extension) {
    return extension_->on_client_message(session.id, std::move(in));
  }
  dispatch(session, in);
}

bool Server::check_hello_and_version(Session& session, const Incoming& in) {
  if (in.type() == MessageType::kDown) return true;
  if (in.header.version != control::kProtocolVersion) {
    const auto hello = control::decode<control::Hello>(in.payload);
    const std::string program = hello ? " of verbena " + hello->version.substr(0, 64) : "";
    session.refuse(in.header.sequence,
                   {EPROTONOSUPPORT,
                    "the emulator is of verbena " + std::string(kVersion) + " (protocol " +
                        std::to_string(control::kProtocolVersion) + "), this program" + program +
                        " (protocol " + std::to_string(in.header.version) +
                        "): end the emulator (verbena down) and start one of the same version"});
    return false;
  }
  if (session.greeted || in.type() == MessageType::kHello) return true;
  session.refuse(in.header.sequence, {EPROTO, "the first message must be Hello"});
  return false;
}

void Server::dispatch(Session& session, const Incoming& in) {
  switch (in.type()) {
    case MessageType::kOpenDevice:
      return on_open_device(session, in);
    case MessageType::kExtraSlot:
      return on_extra_slot(session, in);
    case MessageType::kOpenAddress:
      return on_open_address(session, in);
    case MessageType::kAttachMulticast:
      return on_attach(session, in);
    case MessageType::kDetachMulticast:
      return on_detach(session, in);
    case MessageType::kStatusReport:
      return status_.on_report(session, in);
    case MessageType::kHold:
      return lifetime_.on_hold(session, in);
    case MessageType::kStay:
      lifetime_.stay();
      return session.answer(in.header.sequence, control::Done{});
    case MessageType::kStatusQuery:
      return on_status_query(session, in);
    case MessageType::kQueryResources:
      return status_.on_query_resources(session, in, extension_);
    case MessageType::kSetPort:
      return on_set_port(session, in);
    case MessageType::kAnnounce:
      return on_announce(session, in);
    case MessageType::kChangeFault:
      return faults_.on_request(session, in);
    case MessageType::kFaultsInForce:
      return faults_.on_in_force(session, in);
    case MessageType::kQueuePairFound:
      return faults_.on_queue_pair_found(session, in);
    case MessageType::kQueuePairGone:
      return faults_.on_queue_pair_gone(session, in);
    case MessageType::kJournalWritten:
      return journal_.take_in(session);
    case MessageType::kJournalQuery:
      return journal_.on_query(session, in);
    case MessageType::kCapture:
      return captures_.on_request(session, in);
    case MessageType::kRefreshCounters:
      return on_refresh_counters(session, in);
    case MessageType::kQueryCounters:
      return on_query_counters(session, in);
    case MessageType::kRingRequest:
      return on_ring_request(session, in);
    case MessageType::kRingAccepted:
      return on_ring_accepted(session, in);
    case MessageType::kPeerQuestion:
      return peers_.on_question(session, in);
    case MessageType::kQpAnswer:
      return peers_.on_answer(session, in);
    case MessageType::kImport:
      return imports_.on_import(session, in);
    case MessageType::kExported:
      return imports_.on_exported(session, in);
    case MessageType::kRegionChanged:
      return imports_.on_region_changed(session, in);
    case MessageType::kRegionFollowed:
      return imports_.on_region_followed(session, in);
    case MessageType::kOpenDomain:
    case MessageType::kCloseDomain:
    case MessageType::kProxyWanted:
    case MessageType::kProxyAnswer:
    case MessageType::kProxiesReleased:
    case MessageType::kReceiverCall:
    case MessageType::kReceiverAnswer:
    case MessageType::kReceiverEvent:
      return xrc_.on_message(session, in);
    case MessageType::kDown:
      return on_down(session, in);
    case MessageType::kRaiseEvent:
      return raised_events_.on_request(session, in);
    case MessageType::kAck:
    case MessageType::kRefused:
      if (rule_events_.on_answer(session, in)) return;
      return raised_events_.on_answer(session, in);
    default:
      session.refuse(in.header.sequence,
                     {EOPNOTSUPP, std::string("the emulator takes no message of type ") +
                                      control::message_name(in.type())});
  }
}

void Server::on_hello(Session& session, const Incoming& in) {
  auto hello = session.decoded<control::Hello>(in);
  if (!hello) return;
  session.greeted = true;
  session.info.kind = hello->kind;
  hello->comm.resize(std::min<std::size_t>(hello->comm.size(), 64));
  session.info.comm = std::move(hello->comm);
  session.send(
      control::Welcome{static_cast<std::uint32_t>(::getpid()), kVersion, fabric_.devices()},
      in.header.sequence);
}

void Server::on_open_device(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::OpenDevice>(in);
  if (!request) return;
  if (session.context) {
    return session.refuse(in.header.sequence, {EBUSY, "this connection has a context already"});
  }
  fabric::Port* port = fabric_.find(request->name);
  if (port == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->name));
  }
  const auto slot = port->add_context(session.info.pid);
  if (!slot) {
    spdlog::warn("no slot for pid {}: {}", session.info.pid, slot.error().text);
    return session.refuse(in.header.sequence, slot.error());
  }
  std::vector<control::UniqueFd> senders;
  static const std::uint64_t own_network = control::network_namespace();
  const bool is_elsewhere = request->network != own_network;
  if (is_elsewhere) {
    auto opened = port->open_senders(port->info().address);
    if (!opened) {
      port->remove_context(*slot);
      return session.refuse(in.header.sequence, opened.error());
    }
    senders = std::move(*opened);
  }
  session.context = Session::Context{port, *slot, {}, is_elsewhere};
  clients_.add_context(session);
  session.is_further_engine = request->is_further;
  journal_.note_opened(session);
  std::vector<int> fds{port->receive_fd(*slot), port->stats_fd(*slot)};
  for (const control::UniqueFd& sender : senders) fds.push_back(sender.get());
  const auto capture = captures_.on_context_opened(session);
  if (capture) fds.push_back(capture->ring.get());
  session.send(control::DeviceOpened{*slot, port->info(), port->faults().in_force(),
                                     static_cast<std::uint8_t>(senders.size()),
                                     capture ? capture->order : control::CaptureOrder{},
                                     fabric_.rules().in_force()},
               in.header.sequence, fds);
  rule_events_.follow();
  spdlog::info("{} slot {} to pid {} ({})", port->info().name, *slot, session.info.pid,
               control::printable(session.info.comm));
}

void Server::on_extra_slot(Session& session, const Incoming& in) {
  if (!session.context) {
    return session.refuse(in.header.sequence, {EINVAL, "this connection has no context"});
  }
  Session::Context& context = *session.context;
  const auto slot = context.port->add_extra_slot(context.slot);
  if (!slot) return session.refuse(in.header.sequence, slot.error());
  context.extra_slots.push_back(*slot);
  captures_.on_extra_slot(session, *slot);
  session.send(control::SlotAdded{*slot}, in.header.sequence);
}

void Server::on_open_address(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::OpenAddress>(in);
  if (!request) return;
  if (!session.context) {
    return session.refuse(in.header.sequence, {EINVAL, "this connection has no context"});
  }
  const auto& [port, slot, extra, is_elsewhere] = *session.context;
  const auto socket = port->socket_at(request->address, slot, extra);
  if (!socket) return session.refuse(in.header.sequence, socket.error());
  std::vector<int> fds{*socket};
  std::vector<control::UniqueFd> senders;
  if (is_elsewhere) {
    auto opened = port->open_senders(request->address);
    if (!opened) return session.refuse(in.header.sequence, opened.error());
    senders = std::move(*opened);
  }
  for (const control::UniqueFd& sender : senders) fds.push_back(sender.get());
  session.send(control::AddressOpened{request->address}, in.header.sequence, fds);
  rings_.on_address_opened(session, request->address);
}

void Server::on_attach(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::AttachMulticast>(in);
  if (!request) return;
  if (!session.context) {
    return session.refuse(in.header.sequence, {EINVAL, "this connection has no context"});
  }
  session.answer(in.header.sequence,
                 session.context->port->join(request->mgid, session.context->slot, request->qpn));
}

void Server::on_detach(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::DetachMulticast>(in);
  if (!request) return;
  if (!session.context) {
    return session.refuse(in.header.sequence, {EINVAL, "this connection has no context"});
  }
  session.answer(in.header.sequence,
                 session.context->port->leave(request->mgid, session.context->slot, request->qpn));
}

void Server::on_set_port(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::SetPort>(in);
  if (!request) return;
  fabric::Port* port = fabric_.find(request->device);
  if (port == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  set_port_state(*port, request->up);
  session.answer(in.header.sequence, control::Done{});
}

void Server::set_port_state(fabric::Port& port, bool up) {
  const control::PortEvent event = fabric_.set_port_state(port, up);
  if (event.changes == 0) return;
  journal_.note(json_of_port(event));
  const std::string& name = port.info().name;
  spdlog::info("{} is {}", name, up ? "up" : "down");
  clients_.tell_contexts(name, event);
  if (extension_ != nullptr) extension_->on_port_changed(port);
}

void Server::on_rules_changed() {
  rule_events_.follow();
  if (extension_ != nullptr) extension_->on_rules_changed();
}

void Server::follow_interfaces() {
  const auto interfaces = fabric::list_interfaces();
  // The next change of an address reports this one as well.
  if (!interfaces) return spdlog::warn("{}", interfaces.error().text);
  const auto events = fabric_.follow_interfaces(*interfaces);
  // This comes before a program can send from a new address.
  captures_.follow_addresses();
  for (const control::PortEvent& event : events) {
    const std::string& name = event.device.name;
    journal_.note(json_of_port(event));
    if ((event.changes & control::kGidsChanged) != 0) {
      spdlog::info("{}: the addresses of {} have changed", name, event.device.if_name);
    }
    clients_.tell_contexts(name, event);
    if (extension_ != nullptr) extension_->on_attributes_changed(*fabric_.find(name));
  }
}

void Server::on_announce(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::Announce>(in);
  if (!request) return;
  const fabric::Port* port = fabric_.find(request->device);
  if (port == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  control::PortEvent event;
  event.changes = request->changes & ~std::uint32_t{control::kPortStateChanged};
  event.device = port->info();
  journal_.note(json_of_port(event));
  clients_.tell_contexts(request->device, event);
  if (extension_ != nullptr && (event.changes & control::kGidsChanged) != 0) {
    extension_->on_addresses_changed(*port);
  }
  session.answer(in.header.sequence, control::Done{});
}

void Server::on_status_query(Session& session, const Incoming& in) {
  status_.on_status_query(session, in,
                          {kVersion, static_cast<std::uint32_t>(::getpid()), instance_.dir(),
                           lifetime_.ends_when_idle()},
                          extension_);
}

void Server::on_refresh_counters(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::RefreshCounters>(in);
  if (!request) return;
  fabric_.refresh_counters(request->device);
  session.answer(in.header.sequence, control::Done{});
}

void Server::on_query_counters(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::QueryCounters>(in);
  if (!request) return;
  const fabric::Port* port = fabric_.find(request->device);
  if (port == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  const fabric::Totals totals = port->totals();
  session.send(control::Counters{{totals.port.begin(), totals.port.end()},
                                 {totals.drops.begin(), totals.drops.end()}},
               in.header.sequence);
}

// A malformed request is dropped, because its sender waits for no answer. A request for a ring to a
// peer that has ended meanwhile is dropped as well, since its end is no reason why packets go by
// UDP.
void Server::on_ring_request(Session& session, const Incoming& in) {
  const auto request = control::decode<control::RingRequest>(in.payload);
  if (!request || !session.context || !session.context->port->has_address(request->own)) return;
  Session* const reader = clients_.context_of(request->address, request->slot);
  const bool is_ours = std::ranges::any_of(
      fabric_.ports(), [&](const auto& port) { return port->has_address(request->address); });
  if (reader == nullptr && is_ours) return;
  rings_.on_request(session, reader, *request);
}

void Server::on_ring_accepted(Session& session, const Incoming& in) {
  const auto accepted = control::decode<control::RingAccepted>(in.payload);
  if (!accepted || !session.context) return;
  Session* const writer = clients_.context_of(accepted->address, accepted->slot);
  if (writer != nullptr) rings_.on_accepted(*writer, session, *accepted, in.fds[0]);
}

void Server::on_down(Session& session, const Incoming& in) {
  // The asker learns from the end of its connection that the emulator is gone. This answer says
  // that the request was heard.
  session.answer(in.header.sequence, control::Done{});
  shut_down("pid " + std::to_string(session.info.pid) + " asked for it");
}

}  // namespace verbena::daemon
