// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/capture/recorder.hpp"

#include <algorithm>
#include <cstdio>
#include <queue>
#include <utility>

#include "verbena/wire/bth.hpp"

namespace verbena::capture {
namespace {

using link::CaptureRecord;

// How many conversations are remembered as explained. When there are more, all are explained again.
constexpr std::size_t kExplainedMost = 65536;
// How often a larger count of left-out packets is written.
constexpr TimeNs kSayEvery = 1'000'000'000;

std::string process_of(const Recorder::Origin& origin) {
  return origin.program + "[" + std::to_string(origin.pid) + "]";
}

std::string queue_pair(std::uint32_t qpn) {
  char text[16];
  std::snprintf(text, sizeof text, "QP 0x%06x", qpn);
  return text;
}

const char* words_for(CaptureRecord::Fate fate) {
  switch (fate) {
    case CaptureRecord::Fate::kCarried:
      return "";
    case CaptureRecord::Fate::kLost:
      return "lost: an injected fault took this packet";
    case CaptureRecord::Fate::kDamaged:
      return "damaged by an injected fault: its receiver drops it";
    case CaptureRecord::Fate::kRuled:
      return "changed, repeated or held back by an injected rule";
    case CaptureRecord::Fate::kWithheld:
      return "not sent again: an injected rule still holds this packet back";
  }
  return "";
}

}  // namespace

Recorder::Recorder(const std::string& application, link::Clock clock, link::Clock wall_clock)
    : clock_(clock), wall_offset_(wall_clock() - clock()) {
  file_.begin_section(application);
}

void Recorder::add(const Origin& origin, link::CaptureRing ring) {
  Interface& interface = interfaces_[origin.pid];
  if (interface.sources++ == 0) {
    interface.number = next_interface_++;
    interface.begin = clock_();
    file_.add_interface(process_of(origin), "what process " + std::to_string(origin.pid) + " (" +
                                                origin.program +
                                                ") sends, and what it gets from other hosts");
  }
  slots_[{origin.address, origin.slot}] = origin;
  sources_.push_back({.origin = origin, .reader = link::CaptureReader(std::move(ring))});
}

void Recorder::add_slot(std::uint32_t number, std::uint32_t slot) {
  for (const Source& source : sources_) {
    if (source.origin.number == number) slots_[{source.origin.address, slot}] = source.origin;
  }
}

void Recorder::end(std::uint32_t number) {
  const auto is_ended = [](const Source& source) { return source.is_ended; };
  for (Source& source : sources_) {
    if (source.origin.number == number) source.is_ended = true;
  }
  while (std::count_if(sources_.begin(), sources_.end(), is_ended) >
         static_cast<std::ptrdiff_t>(kEndedMost)) {
    remove(std::find_if(sources_.begin(), sources_.end(), is_ended));
  }
}

// Returns the time up to which all records of the source are in its ring, as seen at `now`.
TimeNs Recorder::look_at(Source& source, TimeNs now) {
  const std::uint32_t activity = source.reader.activity();
  const bool is_at_rest = activity % 2 == 0;
  if (activity != source.activity) {
    // The record that it is writing was begun after the previous look.
    source.complete = source.looked;
    source.changed = now;
  }
  if (is_at_rest || source.is_ended || now > source.changed + kPatience) source.complete = now;
  source.activity = activity;
  source.looked = now;
  return source.complete;
}

Recorder::Found Recorder::read(TimeNs until) {
  const TimeNs now = clock_();
  TimeNs complete = now;
  for (Source& source : sources_) complete = std::min(complete, look_at(source, now));
  const std::size_t read = add_records(now, std::min(complete, until));
  const bool has_room = buffer_.size() < kBufferBytes;
  remove_drained();
  say_changes(now);
  if (read != 0) return Found::kSome;
  return complete >= until && has_room ? Found::kAll : Found::kNothing;
}

// Adds the oldest record of all rings first. Returns the number of records.
std::size_t Recorder::add_records(TimeNs now, TimeNs until) {
  using Next = std::pair<TimeNs, Source*>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto queue = [&](Source& source) {
    const CaptureRecord* const record = source.reader.front();
    if (record == nullptr) return;
    const TimeNs time = std::min(record->time, now);
    if (time <= until) next.emplace(time, &source);
  };
  for (Source& source : sources_) queue(source);
  std::size_t count = 0;
  for (; !next.empty() && buffer_.size() < kBufferBytes; ++count) {
    const auto [time, source] = next.top();
    next.pop();
    last_time_ = std::max(last_time_, time);
    add_record(*source);
    queue(*source);
  }
  return count;
}

// Writes changed statistics for readers of a file that still grows or has no end.
void Recorder::say_changes(TimeNs now) {
  if (now < said_at_ + kSayEvery || buffer_.size() >= kBufferBytes) return;
  said_at_ = now;
  for (const auto& [pid, interface] : interfaces_) {
    if (dropped_at(pid) != interface.dropped_said) say_statistics(pid);
  }
}

// A record that comes too late, because its writer was stopped, gets the time of the packet before
// it in the file.
void Recorder::add_record(Source& source) {
  const CaptureRecord record = *source.reader.front();
  source.reader.copy_packet(frame_.room_for(record));
  source.reader.pop();
  ++source.taken;
  if (!frame_.complete(record)) return;
  const std::string comment = comment_on(source, record);
  file_.add_packet({interfaces_[source.origin.pid].number, last_time_ + wall_offset_,
                    frame_.bytes(), frame_.length(), record.direction, comment});
  ++packets_;
}

// Returns a packet's comment. The first packet of each conversation names the processes, and a
// packet that met a fault says so.
std::string Recorder::comment_on(const Source& source, const CaptureRecord& record) {
  std::string comment = words_for(record.fate);
  const std::uint32_t receiver = wire::BthView(frame_.packet(record).data()).dest_qp().value();
  const auto owner = slots_.find({record.destination, Qpn(receiver).slot()});
  const std::uint32_t owner_number = owner == slots_.end() ? 0 : owner->second.number;
  if (explained_.size() >= kExplainedMost) explained_.clear();
  const bool is_first = explained_
                            .emplace(source.origin.number, record.sender, record.source,
                                     record.destination, receiver, owner_number)
                            .second;
  if (!is_first) return comment;
  if (!comment.empty()) comment += '\n';
  const bool is_ours = record.direction == CaptureRecord::Direction::kOutbound;
  comment += is_ours ? queue_pair(record.sender) + " of " + process_of(source.origin)
                     : "from " + record.source.to_string();
  return comment + " to " + describe(record.destination, receiver);
}

std::string Recorder::describe(const IpAddress& address, std::uint32_t qpn) const {
  if (address.is_multicast()) return "multicast group " + address.to_string();
  const auto owner = slots_.find({address, Qpn(qpn).slot()});
  if (owner == slots_.end()) return queue_pair(qpn) + " at " + address.to_string();
  return queue_pair(qpn) + " of " + process_of(owner->second);
}

std::size_t Recorder::bytes_to_finish() const {
  return interfaces_.size() * Pcapng::kStatisticsBytes;
}

void Recorder::finish() {
  for (const auto& [pid, interface] : interfaces_) say_statistics(pid);
}

void Recorder::say_statistics(std::uint32_t pid) {
  Interface& interface = interfaces_.at(pid);
  std::uint64_t received = interface.received;
  for (const Source& source : sources_) {
    if (source.origin.pid == pid) received += source.reader.recorded() + source.reader.dropped();
  }
  interface.dropped_said = dropped_at(pid);
  file_.add_statistics({interface.number, interface.begin + wall_offset_, clock_() + wall_offset_,
                        received, interface.dropped_said});
}

// Counts records that will not be read as left out.
std::uint64_t Recorder::dropped_by(const Source& source) const {
  const std::uint64_t recorded = source.reader.recorded();
  return source.reader.dropped() + (recorded - std::min(recorded, source.taken));
}

std::uint64_t Recorder::dropped_at(std::uint32_t pid) const {
  std::uint64_t dropped = interfaces_.at(pid).dropped;
  for (const Source& source : sources_) {
    if (source.origin.pid == pid) dropped += source.reader.dropped();
  }
  return dropped;
}

std::uint64_t Recorder::dropped() const {
  std::uint64_t dropped = dropped_;
  for (const auto& [pid, interface] : interfaces_) dropped += dropped_at(pid);
  return dropped;
}

void Recorder::remove_drained() {
  for (auto at = sources_.begin(); at != sources_.end();) {
    const auto source = at++;
    if (source->is_ended && source->reader.front() == nullptr) remove(source);
  }
}

void Recorder::remove(std::list<Source>::iterator source) {
  const std::uint32_t pid = source->origin.pid;
  Interface& interface = interfaces_.at(pid);
  interface.received += source->reader.recorded() + source->reader.dropped();
  interface.dropped += dropped_by(*source);
  sources_.erase(source);
  if (--interface.sources != 0) return;
  // The process ID may be reused.
  say_statistics(pid);
  dropped_ += interface.dropped;
  interfaces_.erase(pid);
}

std::span<const std::uint8_t> Recorder::blocks() const {
  return std::span(buffer_).subspan(written_);
}

void Recorder::written(std::size_t bytes) {
  written_ += bytes;
  if (written_ != buffer_.size()) return;
  buffer_.clear();
  written_ = 0;
}

void Recorder::give_up_blocks() {
  for (const std::uint32_t number : interfaces_of_packets(blocks())) {
    const auto theirs =
        std::find_if(interfaces_.begin(), interfaces_.end(),
                     [&](const auto& entry) { return entry.second.number == number; });
    ++(theirs != interfaces_.end() ? theirs->second.dropped : dropped_);
    --packets_;
  }
  written(buffer_.size() - written_);
}

}  // namespace verbena::capture
