// SPDX-License-Identifier: BSD-2-Clause
// Questions about the state of all contexts, and what their askers are told.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "server.hpp"
#include "status_writers.hpp"
#include "verbena/control/status_messages.hpp"
#include "version.hpp"

namespace verbena::daemon {

using control::Incoming;

void Server::start_round(const std::string& device, StatusRound::Then then) {
  const std::uint32_t sequence = clients_.next_sequence();
  std::set<fabric::ClientId> asked;
  for (const auto& [key, session] : clients_.contexts()) {
    if (device.empty() || key.first->info().name == device) asked.insert(session->id);
  }
  Round& round = rounds_[sequence];
  round.questions = std::make_unique<StatusRound>(asked, std::move(then));
  if (asked.empty()) return finish_round(sequence);
  round.deadline = loop_.after(kStatusDeadlineNs, [this, sequence] { finish_round(sequence); });
  const control::StatusRequest question{0, control::StatusReport::kFirst,
                                        control::StatusOf::kQueuePairs};
  for (const fabric::ClientId client : asked) {
    clients_.find(client)->send_news(question, sequence);
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
  const std::uint32_t sequence = in.header.sequence;
  const auto round = rounds_.find(sequence);
  const auto stream = std::ranges::find_if(streams_, [&](const auto& entry) {
    return entry.second.stream && entry.second.stream->awaits(sequence, session.id);
  });
  if (round == rounds_.end() && stream == streams_.end()) return;  // too late
  auto report = control::decode<control::StatusReport>(in.payload);
  if (!report) spdlog::warn("pid {}: {}", session.info.pid, report.error().text);
  if (stream != streams_.end()) {
    loop_.cancel(stream->second.deadline);
    return report ? stream->second.stream->on_page(*report) : stream->second.stream->on_silence();
  }
  if (!report) return;
  round->second.questions->take(session.id, std::move(*report));
  if (round->second.questions->is_done()) finish_round(sequence);
}

// One at a time: whoever asks again and again without reading costs no more than one who reads.
void Server::start_stream(Session& session, const Incoming& in, const std::string& device,
                          std::unique_ptr<StatusWriter> writer) {
  const Session::Id asker = session.id;
  if (streams_.contains(asker)) {
    return session.refuse(in.header.sequence,
                          {EBUSY, "a question about the state of all contexts is being answered"});
  }
  streams_[asker].writer = std::move(writer);
  start_round(device, [this, asker, device](StatusRound::Answers answers) {
    const auto found = streams_.find(asker);
    if (found == streams_.end()) return;
    std::vector<const fabric::Port*> ports;
    for (const auto& port : fabric_.ports()) {
      if (device.empty() || port->info().name == device) ports.push_back(port.get());
    }
    found->second.stream = std::make_unique<StatusStream>(
        static_cast<StatusStream::Host&>(*this), asker, ports,
        contexts_of(ports, std::move(answers)), std::move(found->second.writer));
    found->second.stream->go_on();
  });
}

std::vector<ContextStatus> Server::contexts_of(const std::vector<const fabric::Port*>& ports,
                                               StatusRound::Answers answers) const {
  std::vector<ContextStatus> all;
  for (const fabric::Port* port : ports) {
    for (const auto& [key, session] : clients_.contexts()) {
      if (key.first != port) continue;
      ContextStatus context;
      context.client = session->id;
      context.port = port;
      context.slot = key.second;
      context.extra_slots = session->context->extra_slots;
      context.pid = session->info.pid;
      context.comm = session->info.comm;
      const auto answered = answers.find(session->id);
      context.responds = answered != answers.end();
      if (context.responds) {
        context.counts = answered->second.counts;
        context.qps = std::move(answered->second.qps);
        context.has_told_all = answered->second.last;
      }
      all.push_back(std::move(context));
    }
  }
  return all;
}

std::optional<std::uint32_t> Server::ask_for_page(fabric::ClientId context,
                                                  const control::StatusRequest& request) {
  Session* const found = clients_.find(context);
  if (found == nullptr || !found->context) return std::nullopt;
  const std::uint32_t sequence = clients_.next_sequence();
  found->send(request, sequence);
  return sequence;
}

void Server::go_on_when_read(fabric::ClientId asker) {
  Session* const found = clients_.find(asker);
  if (found == nullptr) return;
  found->when_read([this, asker] {
    const auto stream = streams_.find(asker);
    if (stream != streams_.end() && stream->second.stream) stream->second.stream->go_on();
  });
}

void Server::await_page(fabric::ClientId asker) {
  streams_.at(asker).deadline = loop_.after(kStatusDeadlineNs, [this, asker] {
    const auto stream = streams_.find(asker);
    if (stream != streams_.end() && stream->second.stream) stream->second.stream->on_silence();
  });
}

void Server::end_stream(fabric::ClientId asker) { streams_.erase(asker); }

// As an asker, and as one who is asked.
void Server::end_streams_of(Session::Id gone) {
  const auto own = streams_.find(gone);
  if (own != streams_.end()) {
    loop_.cancel(own->second.deadline);
    streams_.erase(own);
  }
  for (auto& [asker, entry] : streams_) {
    if (!entry.stream || !entry.stream->awaits_context(gone)) continue;
    loop_.cancel(entry.deadline);
    entry.stream->on_silence();
  }
}

void Server::on_status_query(Session& session, const Incoming& in) {
  const auto query = session.decoded<control::StatusQuery>(in);
  if (!query) return;
  EmulatorStatus status;
  status.version = kVersion;
  status.pid = static_cast<std::uint32_t>(::getpid());
  status.runtime_dir = instance_.dir();
  status.ends_when_idle = exit_when_idle_;
  const auto send = [this, asker = session.id, sequence = in.header.sequence](const auto& text) {
    Session* const found = clients_.find(asker);
    if (found != nullptr) found->send(text, sequence);
  };
  start_stream(session, in, "",
               std::make_unique<StatusTextWriter>(std::move(status), fabric_, query->resets, send));
}

void Server::on_query_resources(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::QueryResources>(in);
  if (!request) return;
  const auto send = [this, asker = session.id, sequence = in.header.sequence](const auto& part) {
    Session* const found = clients_.find(asker);
    if (found != nullptr) found->send(part, sequence);
  };
  start_stream(session, in, request->device, std::make_unique<ResourcesWriter>(send));
}

}  // namespace verbena::daemon
