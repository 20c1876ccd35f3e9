// SPDX-License-Identifier: BSD-2-Clause
#include "event_journal.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "journal_json.hpp"
#include "process_stat.hpp"

namespace verbena::daemon {

using control::Incoming;
using control::JournalKind;
using control::JournalQuery;

namespace {

// The most records of one context that are taken in one turn of the loop.
constexpr int kRecordsOfATurn = 64;

JournalSource source_of(const Session& session) {
  return {session.context->port->info().name, session.info.comm, session.info.pid};
}

// Returns how a context has ended with its process, or that the process lives on: as another
// program (execve), or without the descriptors. The kernel tells the exit code until the parent has
// collected the process.
ContextEnd end_of_process(std::uint32_t pid, const std::string& image) {
  constexpr std::size_t kFlags = 6;
  constexpr std::size_t kExitCode = 49;
  constexpr unsigned long kExiting = 4;  // PF_EXITING
  const std::vector<std::string> fields = fields_of_process(pid);
  if (fields.size() <= kExitCode) return {};
  if ((std::stoul(fields[kFlags]) & kExiting) == 0) {
    const bool is_same = !image.empty() && image_of(fields) == image;
    return {is_same ? ContextEnd::How::kLeft : ContextEnd::How::kReplaced, 0};
  }
  const int signal = std::stoi(fields[kExitCode]) & 0x7f;
  return {signal == 0 ? ContextEnd::How::kExited : ContextEnd::How::kDied, signal};
}

}  // namespace

void EventJournal::note(const std::string& event) {
  journal_.add(event);
  for (auto& [id, reader] : readers_) go_on_when_read(id, reader);
}

void EventJournal::take_in_most(Session& session, int most) {
  if (!session.context) return;
  control::JournalRing& ring = session.context->port->journal(session.context->slot);
  control::JournalReader::quieten(ring);
  control::JournalRecord record;
  std::string text;
  int taken = 0;
  while (taken < most && session.journal.take(ring, record, text)) {
    ++taken;
    if (record.kind == JournalKind::kClosed || record.kind == JournalKind::kExited) {
      session.last_words = record.kind;
    } else {
      note(json_of(source_of(session), record, text));
    }
  }
  if (const std::uint64_t lost = session.journal.take_lost(ring); lost != 0) {
    const JournalSource source = source_of(session);
    note(json_of_lost(lost, &source));
  }
  if (taken < most) return;
  timers_.at_end_of_turn([this, id = session.id] {
    Session* const found = clients_.find(id);
    if (found != nullptr) take_in(*found);
  });
}

void EventJournal::take_in(Session& context) { take_in_most(context, kRecordsOfATurn); }

void EventJournal::take_in_all() {
  for (const auto& [key, context] : clients_.contexts()) take_in(*context);
}

void EventJournal::note_opened(Session& session) {
  if (session.is_further_engine) return;
  session.image = image_of(fields_of_process(session.info.pid));
  note(json_of_opened(source_of(session), session.context->slot));
}

// Takes in all that the process has told before, by any engine, and then notes the end.
void EventJournal::note_closed(Session& session) {
  constexpr int kAll = 1 << 16;
  const std::uint32_t pid = session.info.pid;
  for (const auto& [key, other] : clients_.contexts()) {
    if (other->info.pid == pid) take_in_most(*other, kAll);
  }
  if (session.is_further_engine) return;
  ContextEnd end;
  if (session.last_words == JournalKind::kClosed) {
    end.how = ContextEnd::How::kClosed;
  } else if (session.last_words == JournalKind::kExited) {
    end.how = ContextEnd::How::kExited;
  } else {
    end = end_of_process(pid, session.image);
  }
  note(json_of_end(source_of(session), session.context->slot, end));
}

void EventJournal::on_query(Session& session, const Incoming& in) {
  const auto query = session.decoded<JournalQuery>(in);
  if (!query) return;
  asked_.push_back({session.id, in.header.sequence, *query});
  if (!is_catching_up_) catch_up_and_answer();
}

// A user who has seen a program end must also read of its end. So the messages of all contexts are
// handled first, which notes such ends, and the answer comes afterwards. If there are other
// questions among the messages, they are answered together the next time.
void EventJournal::catch_up_and_answer() {
  is_catching_up_ = true;
  const std::vector<Asked> asked = std::exchange(asked_, {});
  for (Session* const context : clients_.contexts_of("")) {
    context->catch_up(Session::CatchUp::kAll);
  }
  is_catching_up_ = false;
  timers_.at_end_of_turn([this, asked] {
    for (const Asked& one : asked) answer(one);
    if (!asked_.empty()) catch_up_and_answer();
  });
}

void EventJournal::answer(const Asked& asked) {
  const auto& [id, sequence, query] = asked;
  Session* const asker = clients_.find(id);
  if (asker == nullptr) return;
  if (readers_.contains(id)) {
    return asker->refuse(sequence, {EBUSY, "the question before is being answered"});
  }
  take_in_all();
  if (query.after == JournalQuery::kNothing) {
    return asker->send(control::JournalText{true, journal_.newest(), ""}, sequence);
  }
  // A number above the newest comes from an earlier emulator.
  const std::uint64_t after = std::min(query.after, journal_.newest());
  readers_[id] = {sequence, after, journal_.newest(), query.follows};
  // Sends a page even if it is empty: the asker then knows that it follows from here on.
  send_page(id);
}

// Sends the next page when the reader has read what it was sent before.
void EventJournal::go_on_when_read(Session::Id id, Reader& reader) {
  if (reader.waits) return;
  reader.waits = true;
  clients_.find(id)->when_read([this, id] { send_page(id); });
}

void EventJournal::send_page(Session::Id id) {
  const auto found = readers_.find(id);
  if (found == readers_.end()) return;
  Reader& reader = found->second;
  reader.waits = false;
  std::string text = journal_.read(reader.after, control::JournalText::kTextMost);
  const bool is_last = !reader.follows && reader.after >= reader.end;
  clients_.find(id)->send(control::JournalText{is_last, journal_.newest(), std::move(text)},
                          reader.sequence);
  // If the page cannot be sent, the session ends later.
  if (is_last) {
    readers_.erase(id);
  } else if (reader.after < journal_.newest()) {
    go_on_when_read(id, reader);
  }
}

void EventJournal::end(const std::string& reason) {
  take_in_all();
  note(json_of_down(reason));
  for (auto& [id, reader] : readers_) {
    if (clients_.find(id)->is_behind()) continue;
    while (reader.follows && reader.after < journal_.newest()) {
      std::string text = journal_.read(reader.after, control::JournalText::kTextMost);
      const auto packet = control::encode(
          control::JournalText{false, journal_.newest(), std::move(text)}, reader.sequence);
      if (!clients_.find(id)->send_or_drop(packet)) break;
    }
  }
}

}  // namespace verbena::daemon
