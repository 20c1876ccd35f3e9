// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/cm_answer_cache.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace verbena::preload {

struct CmAnswerCache::Answers {
  About about;
  std::uint32_t version;
  std::vector<std::uint8_t> bytes;
};

CmAnswerCache::Place& CmAnswerCache::place_of(const About& about) {
  return places_[(about.channel + about.id) % places_.size()];
}

void CmAnswerCache::keep(const About& about, std::uint32_t version,
                         std::span<const std::uint8_t> answers) {
  auto kept = std::make_unique<Answers>(Answers{about, version, {answers.begin(), answers.end()}});
  const std::unique_ptr<Answers> former(
      place_of(about).exchange(kept.release(), std::memory_order_acq_rel));
}

// Returns null when another thread has the answers, or when the place is empty.
std::unique_ptr<CmAnswerCache::Answers> CmAnswerCache::take(Place& place) {
  if (place.load(std::memory_order_relaxed) == nullptr) return nullptr;
  return std::unique_ptr<Answers>(place.exchange(nullptr, std::memory_order_acquire));
}

// If another thread has filled the place meanwhile, its answers stay.
void CmAnswerCache::put_back(Place& place, std::unique_ptr<Answers> answers) {
  Answers* none = nullptr;
  if (place.compare_exchange_strong(none, answers.get(), std::memory_order_release)) {
    (void)answers.release();
  }
}

bool CmAnswerCache::find(const About& about, std::uint32_t version,
                         const control::CmQuestion& question, std::size_t room, CmAnswer& answer) {
  Place& place = place_of(about);
  std::unique_ptr<Answers> answers = take(place);
  if (!answers) return false;
  const bool is_it = answers->about == about;
  if (is_it && answers->version != version) return false;
  bool found = false;
  if (is_it) {
    const auto bytes = control::find_answer(answers->bytes, question);
    found = bytes && bytes->size() <= std::min(room, answer.bytes.size());
    if (found) answer.size = bytes->size();
    if (found) std::copy(bytes->begin(), bytes->end(), answer.bytes.begin());
  }
  put_back(place, std::move(answers));
  return found;
}

void CmAnswerCache::forget(const About& about) {
  Place& place = place_of(about);
  std::unique_ptr<Answers> answers = take(place);
  if (answers && answers->about != about) put_back(place, std::move(answers));
}

}  // namespace verbena::preload
