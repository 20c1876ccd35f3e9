// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/journal.hpp"

#include <time.h>

#include <algorithm>

#include "verbena/context/status_report.hpp"
#include "verbena/control/journal_messages.hpp"

namespace verbena::provider {
namespace {

control::JournalKind kind_of(queue::Occurrence::Kind kind) {
  switch (kind) {
    case queue::Occurrence::Kind::kFailure:
      return control::JournalKind::kFailure;
    case queue::Occurrence::Kind::kTimeout:
      return control::JournalKind::kTimeout;
    case queue::Occurrence::Kind::kState:
      break;
  }
  return control::JournalKind::kState;
}

}  // namespace

Journal::Journal(DaemonClient& client)
    : client_(client), wake_(control::encode(control::JournalWritten{}, 0)) {}

void Journal::note(const queue::Occurrence& what) noexcept {
  control::JournalRecord record;
  record.kind = kind_of(what.kind);
  record.wr_id = what.id.value_or(0);
  record.has_wr_id = what.id ? 1 : 0;
  record.peer_address = what.peer_address;
  record.peer_qpn = what.peer.value();
  record.qpn = what.number.value();
  record.count = what.count;
  record.qp_type = verbs_type(what.transport);
  record.state = what.state;
  record.status = static_cast<std::uint8_t>(what.status);
  std::copy_n(what.opcode.begin(), std::min(what.opcode.size(), record.opcode.size() - 1),
              record.opcode.begin());
  put(record, what.text);
}

void Journal::note_end(control::JournalKind kind) noexcept {
  control::JournalRecord record;
  record.kind = kind;
  put(record, {});
}

void Journal::put(control::JournalRecord record, std::string_view text) noexcept {
  if (ring_ == nullptr) return;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  record.time = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                static_cast<std::uint64_t>(now.tv_nsec);
  {
    const Guard guard(lock_);
    ring_->put(record, text);
  }
  if (ring_->must_wake() && !client_.tell_packet(wake_)) ring_->could_not_wake();
}

}  // namespace verbena::provider
