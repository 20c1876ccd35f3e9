// SPDX-License-Identifier: BSD-2-Clause
#include "status_questions.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::daemon {

using control::Incoming;

namespace {

// Returns the function that sends the answers to this request, as long as the asker is there.
auto sender_to(const ClientTable& clients, const Session& asker, const Incoming& in) {
  return [&clients, id = asker.id, sequence = in.header.sequence](const auto& message) {
    if (Session* const session = clients.find(id)) session->send(message, sequence);
  };
}

}  // namespace

void StatusQuestions::on_status_query(Session& asker, const Incoming& in, EmulatorStatus emulator,
                                      fabric::Extension* extension) {
  const auto query = asker.decoded<control::StatusQuery>(in);
  if (!query) return;
  begin_round(
      asker, in, {},
      std::make_unique<StatusTextWriter>(std::move(emulator), fabric_, query->resets,
                                         cm_ids_of(extension), sender_to(clients_, asker, in)));
}

CmIdPages StatusQuestions::cm_ids_of(fabric::Extension* extension) const {
  return CmIdPages([this, extension](std::uint32_t number) {
    std::vector<CmIdOfProcess> page;
    if (extension == nullptr) return page;
    for (fabric::CmIdStatus& id :
         extension->cm_ids_behind(number, control::StatusReport::kMostInOne)) {
      CmIdOfProcess& of = page.emplace_back();
      of.id = std::move(id);
      if (const Session* const owner = clients_.find(of.id.owner)) {
        of.pid = owner->info.pid;
        of.comm = owner->info.comm;
      }
    }
    return page;
  });
}

void StatusQuestions::on_query_resources(Session& asker, const Incoming& in,
                                         fabric::Extension* extension) {
  const auto request = asker.decoded<control::QueryResources>(in);
  if (!request) return;
  begin_round(asker, in, {request->of != control::ResourcesOf::kCmIds, request->device},
              std::make_unique<ResourcesWriter>(*request, cm_ids_of(extension),
                                                sender_to(clients_, asker, in)));
}

// Answers one question of an asker at a time: an asker that asks again and again without reading
// costs no more than one that reads.
void StatusQuestions::begin_round(Session& asker, const Incoming& in, Asked asked,
                                  std::unique_ptr<StatusWriter> writer) {
  if (questions_.contains(asker.id)) {
    return asker.refuse(in.header.sequence,
                        {EBUSY, "a question about the state of all contexts is being answered"});
  }
  Question& question = questions_[asker.id];
  question.asked = std::move(asked);
  question.sequence = clients_.next_sequence();
  question.writer = std::move(writer);
  const control::StatusRequest request{0, control::StatusReport::kFirst, control::StatusOf::kAll};
  if (question.asked.contexts) {
    for (Session* const context : clients_.contexts_of(question.asked.device)) {
      question.awaited.insert(context->id);
      context->send_news(request, question.sequence);
    }
  }
  if (question.awaited.empty()) return begin_stream(asker.id);
  question.deadline = timers_.after(kDeadlineNs, [this, id = asker.id] { begin_stream(id); });
}

void StatusQuestions::on_report(const Session& context, const Incoming& in) {
  const std::uint32_t sequence = in.header.sequence;
  const auto found = std::ranges::find_if(questions_, [&](const auto& entry) {
    const Question& question = entry.second;
    return question.stream ? question.stream->awaits(sequence, context.id)
                           : question.sequence == sequence;
  });
  if (found == questions_.end()) return;  // the report came too late
  auto report = control::decode<control::StatusReport>(in.payload);
  if (!report) spdlog::warn("pid {}: {}", context.info.pid, report.error().text);
  Question& question = found->second;
  if (question.stream) {
    timers_.cancel(question.deadline);
    return continue_stream(found->first, [&report](StatusStream& stream) {
      report ? stream.on_page(*report) : stream.on_silence();
    });
  }
  if (!report || question.awaited.erase(context.id) == 0) return;
  question.answers[context.id] = std::move(*report);
  if (question.awaited.empty()) begin_stream(found->first);
}

void StatusQuestions::begin_stream(Session::Id asker) {
  Question& question = questions_.at(asker);
  timers_.cancel(question.deadline);
  const auto& [with_contexts, device] = question.asked;
  std::vector<const fabric::Port*> ports;
  for (const auto& port : fabric_.ports()) {
    if (with_contexts && (device.empty() || port->info().name == device)) {
      ports.push_back(port.get());
    }
  }
  question.stream = std::make_unique<StatusStream>(
      static_cast<StatusStream::Host&>(*this), asker, ports,
      contexts_of(ports, std::move(question.answers)), std::move(question.writer));
  continue_stream(asker, [](StatusStream& stream) { stream.go_on(); });
}

// If the answer cannot be put together, for lack of memory, the asker must not wait for its rest.
void StatusQuestions::continue_stream(Session::Id asker,
                                      const std::function<void(StatusStream&)>& step) {
  const auto found = questions_.find(asker);
  if (found == questions_.end() || !found->second.stream) return;
  try {
    step(*found->second.stream);
  } catch (const std::exception& e) {
    if (Session* const session = clients_.find(asker)) {
      session->end({EIO, std::string("the answer about the state failed: ") + e.what()});
    }
  }
}

std::vector<ContextStatus> StatusQuestions::contexts_of(
    const std::vector<const fabric::Port*>& ports, Answers answers) const {
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
      context.first.counts.contexts = session->is_further_engine ? 0 : 1;
      if (context.responds) context.first = std::move(answered->second);
      all.push_back(std::move(context));
    }
  }
  return all;
}

std::optional<std::uint32_t> StatusQuestions::ask_for_page(Session::Id context,
                                                           const control::StatusRequest& request) {
  Session* const found = clients_.find(context);
  if (found == nullptr || !found->context) return std::nullopt;
  const std::uint32_t sequence = clients_.next_sequence();
  found->send(request, sequence);
  return sequence;
}

void StatusQuestions::go_on_when_read(Session::Id asker) {
  Session* const session = clients_.find(asker);
  if (session == nullptr) return;
  session->when_read(
      [this, asker] { continue_stream(asker, [](StatusStream& stream) { stream.go_on(); }); });
}

void StatusQuestions::await_page(Session::Id asker) {
  Question& question = questions_.at(asker);
  question.deadline = timers_.after(kDeadlineNs, [this, asker] {
    continue_stream(asker, [](StatusStream& stream) { stream.on_silence(); });
  });
}

void StatusQuestions::end_stream(Session::Id asker) { questions_.erase(asker); }

void StatusQuestions::on_client_gone(Session::Id gone) {
  const auto own = questions_.find(gone);
  if (own != questions_.end()) {
    timers_.cancel(own->second.deadline);
    questions_.erase(own);
  }
  for (auto& [asker, question] : questions_) {
    if (!question.stream) {
      if (question.awaited.erase(gone) != 0 && question.awaited.empty()) begin_stream(asker);
    } else if (question.stream->awaits_context(gone)) {
      timers_.cancel(question.deadline);
      continue_stream(asker, [](StatusStream& stream) { stream.on_silence(); });
    }
  }
}

}  // namespace verbena::daemon
