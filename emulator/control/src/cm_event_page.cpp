// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/cm_event_page.hpp"

#include <algorithm>

namespace verbena::control {
namespace {

enum State : std::uint64_t { kNone = 0, kReady = 1, kTaken = 2, kDone = 3, kAnnounced = 4 };

constexpr bool is_to_be_had(State state) { return state == kReady || state == kAnnounced; }

constexpr std::uint64_t word_of(std::uint64_t sequence, std::size_t place, State state) {
  return sequence << 16 | static_cast<std::uint64_t>(place) << 8 | state;
}
constexpr std::uint64_t sequence_in(std::uint64_t word) { return word >> 16; }
constexpr std::size_t place_in(std::uint64_t word) { return word >> 8 & 0xff; }
constexpr State state_in(std::uint64_t word) { return static_cast<State>(word & 0xff); }

constexpr std::uint64_t with_state(std::uint64_t word, State state) {
  return (word & ~std::uint64_t{0xff}) | state;
}

std::atomic<std::uint64_t>& ticket(CmEventPage& page, std::uint64_t sequence) {
  return page.tickets[sequence % kCmTickets];
}

// Returns the state of an event. An event whose ticket is used for another one, or overwritten with
// nonsense, is done.
State state_of(const CmEventPage& page, std::uint64_t sequence) {
  const std::uint64_t word = page.tickets[sequence % kCmTickets].load(std::memory_order_acquire);
  return sequence_in(word) == sequence ? state_in(word) : kDone;
}

void copy(const CmEventPlace& place, CmEventCopy& out) {
  out.id = place.id;
  out.event_size = std::min<std::uint32_t>(place.event_size, kCmPlaceBytes);
  out.answers_size = std::min<std::uint32_t>(place.answers_size, kCmPlaceBytes - out.event_size);
  out.version = place.version;
  std::copy_n(place.bytes.begin(), out.event_size + out.answers_size, out.bytes.begin());
}

}  // namespace

bool take_cm_event(CmEventPage& page, bool holds_message, CmEventCopy& out) {
  const State wanted = holds_message ? kAnnounced : kReady;
  // Only a reader that meets nonsense or is passed by others looks more often than there are
  // tickets.
  for (std::size_t looks = 0; looks < 4 * kCmTickets; ++looks) {
    std::uint64_t next = page.next.load(std::memory_order_acquire);
    std::atomic<std::uint64_t>& mine = ticket(page, next);
    std::uint64_t word = mine.load(std::memory_order_acquire);
    if (sequence_in(word) < next || state_in(word) == kNone) return false;
    const bool is_ready = sequence_in(word) == next && is_to_be_had(state_in(word));
    if (is_ready && (place_in(word) >= kCmTickets || state_in(word) != wanted)) return false;
    const bool is_mine = is_ready && mine.compare_exchange_strong(word, with_state(word, kTaken),
                                                                  std::memory_order_acq_rel);
    if (is_ready && !is_mine) continue;
    page.next.compare_exchange_strong(next, next + 1, std::memory_order_acq_rel);
    if (!is_mine) continue;
    copy(page.places[place_in(word)], out);
    mine.store(with_state(word, kDone), std::memory_order_release);
    return true;
  }
  return false;
}

std::uint32_t version_of(const CmEventPage& page, std::uint32_t id) {
  return page.versions[id % kCmVersions].load(std::memory_order_acquire);
}

bool outdate_answers(CmEventPage& page, std::uint32_t id, std::uint32_t version) {
  return page.versions[id % kCmVersions].compare_exchange_strong(version, version + 1,
                                                                 std::memory_order_acq_rel);
}

void CmEventWriter::reclaim() {
  for (; oldest_ < next_ && state_of(page_, oldest_) == kDone; ++oldest_) {
    used_.reset(place_of_[oldest_ % kCmTickets]);
  }
}

bool CmEventWriter::has_room() {
  reclaim();
  return next_ - oldest_ < kCmTickets;
}

std::optional<CmEventWriter::Sequence> CmEventWriter::push(std::uint32_t id,
                                                           std::span<const std::uint8_t> event,
                                                           std::span<const std::uint8_t> answers) {
  if (event.size() > kCmPlaceBytes || !has_room()) return std::nullopt;
  // Finds the first free place. There is one: as many are used as events between oldest_ and next_.
  std::uint8_t place = 0;
  while (used_.test(place)) ++place;
  if (event.size() + answers.size() > kCmPlaceBytes) answers = {};
  CmEventPlace& to = page_.places[place];
  to.id = id;
  to.event_size = static_cast<std::uint32_t>(event.size());
  to.answers_size = static_cast<std::uint32_t>(answers.size());
  to.version = version_of(page_, id);
  std::copy(answers.begin(), answers.end(),
            std::copy(event.begin(), event.end(), to.bytes.begin()));
  used_.set(place);
  place_of_[next_ % kCmTickets] = place;
  ticket(page_, next_).store(word_of(next_, place, kReady), std::memory_order_release);
  return next_++;
}

bool CmEventWriter::announce(Sequence sequence) { return move(sequence, kAnnounced); }

bool CmEventWriter::take_back(Sequence sequence) { return move(sequence, kDone); }

bool CmEventWriter::move(Sequence sequence, std::uint64_t to) {
  std::atomic<std::uint64_t>& word = ticket(page_, sequence);
  std::uint64_t seen = word.load(std::memory_order_acquire);
  return sequence_in(seen) == sequence && is_to_be_had(state_in(seen)) &&
         word.compare_exchange_strong(seen, with_state(seen, static_cast<State>(to)),
                                      std::memory_order_acq_rel);
}

bool CmEventWriter::is_handed_out(Sequence sequence) const {
  return !is_to_be_had(state_of(page_, sequence));
}

void CmEventWriter::outdate_all_answers() {
  for (auto& version : page_.versions) version.fetch_add(1, std::memory_order_release);
}

void CmEventWriter::outdate_answers(std::uint32_t id) {
  page_.versions[id % kCmVersions].fetch_add(1, std::memory_order_release);
}

}  // namespace verbena::control
