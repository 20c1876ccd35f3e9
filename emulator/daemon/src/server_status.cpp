// Questions about the state of all contexts, and the answers put together.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "server.hpp"
#include "version.hpp"

namespace verbena::daemon {

using control::Incoming;

namespace {

// Queue pairs in one Resources message, well below the size of a packet.
constexpr std::size_t kQpsPerMessage = 128;

void send_text(Session& session, std::uint32_t sequence, const std::string& text) {
  constexpr std::size_t kPart = control::StatusText::kPartSize;
  for (std::size_t at = 0;; at += kPart) {
    const bool last = at + kPart >= text.size();
    session.send(control::StatusText{last, text.substr(at, kPart)}, sequence);
    if (last) return;
  }
}

}  // namespace

void Server::start_round(const std::string& device, StatusRound::Then then) {
  const std::uint32_t sequence = control::kDaemonSequence | next_sequence_++;
  std::set<fabric::ClientId> asked;
  for (const auto& [key, session] : by_slot_) {
    if (device.empty() || key.first->info().name == device) asked.insert(session->id);
  }
  Round& round = rounds_[sequence];
  round.questions = std::make_unique<StatusRound>(asked, std::move(then));
  if (asked.empty()) return finish_round(sequence);
  round.deadline = loop_.after(kStatusDeadlineNs, [this, sequence] { finish_round(sequence); });
  for (const fabric::ClientId client : asked) {
    sessions_.at(client)->send(control::StatusRequest{}, sequence);
  }
}

void Server::finish_round(std::uint32_t sequence) {
  const auto found = rounds_.find(sequence);
  if (found == rounds_.end()) return;
  const Round round = std::move(found->second);
  rounds_.erase(found);
  loop_.cancel(round.deadline);
  round.questions->finish();
}

void Server::on_status_report(Session& session, const Incoming& in) {
  const auto found = rounds_.find(in.header.sequence);
  if (found == rounds_.end()) return;  // too late
  auto report = control::decode<control::StatusReport>(in.payload);
  if (!report) {
    spdlog::warn("pid {}: {}", session.info.pid, report.error().text);
    return;
  }
  found->second.questions->take(session.id, std::move(*report));
  if (found->second.questions->is_done()) finish_round(in.header.sequence);
}

void Server::on_status_query(Session& session, const Incoming& in) {
  const auto query = decoded<control::StatusQuery>(session, in);
  if (!query) return;
  const Session::Id asker = session.id;
  const std::uint32_t sequence = in.header.sequence;
  start_round("", [this, asker, sequence, resets = query->resets](const auto& reports) {
    const auto found = sessions_.find(asker);
    if (found == sessions_.end()) return;
    send_text(*found->second, sequence, to_json(status_with(reports, resets)));
  });
}

EmulatorStatus Server::status_with(const StatusRound::Reports& reports, bool resets) {
  EmulatorStatus status;
  status.version = kVersion;
  status.pid = static_cast<std::uint32_t>(::getpid());
  status.runtime_dir = instance_.dir();
  status.ends_when_idle = exit_when_idle_;
  for (const auto& port : fabric_.ports()) {
    DeviceStatus device;
    device.info = port->info();
    device.totals = resets ? port->take_totals() : port->totals();
    for (const fabric::FaultTable::Fault& fault : port->faults().all()) {
      device.faults.push_back(
          {port->faults().in_force(fault), fault.ended, port->totals_of(fault)});
    }
    for (const auto& [key, session] : by_slot_) {
      if (key.first != port.get()) continue;
      ContextStatus context;
      context.slot = key.second;
      context.extra_slots = session->context->extra_slots;
      context.pid = session->info.pid;
      context.comm = session->info.comm;
      const auto report = reports.find(session->id);
      if (report != reports.end()) context.report = report->second;
      device.contexts.push_back(std::move(context));
    }
    status.devices.push_back(std::move(device));
  }
  return status;
}

void Server::on_query_resources(Session& session, const Incoming& in) {
  const auto request = decoded<control::QueryResources>(session, in);
  if (!request) return;
  const Session::Id asker = session.id;
  const std::uint32_t sequence = in.header.sequence;
  start_round(request->device, [this, asker, sequence](const StatusRound::Reports& reports) {
    const auto found = sessions_.find(asker);
    if (found == sessions_.end()) return;
    for (const auto& [client, report] : reports) {
      const auto context = sessions_.find(client);
      if (context == sessions_.end() || !context->second->context) continue;
      control::ContextResources part;
      part.device = context->second->context->port->info().name;
      part.pid = context->second->info.pid;
      part.comm = context->second->info.comm;
      part.counts = report.counts;
      std::size_t at = 0;
      do {
        const std::size_t end = std::min(at + kQpsPerMessage, report.qps.size());
        part.qps.assign(report.qps.begin() + static_cast<std::ptrdiff_t>(at),
                        report.qps.begin() + static_cast<std::ptrdiff_t>(end));
        found->second->send(control::Resources{false, {part}}, sequence);
        at = end;
      } while (at < report.qps.size());
    }
    found->second->send(control::Resources{}, sequence);
  });
}

}  // namespace verbena::daemon
