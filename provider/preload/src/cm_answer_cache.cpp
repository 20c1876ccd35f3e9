#include "verbena/preload/cm_answer_cache.hpp"

#include <algorithm>
#include <memory>
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

bool CmAnswerCache::find(const About& about, std::uint32_t version,
                         const control::CmQuestion& question, std::size_t room, CmAnswer& answer) {
  Place& place = place_of(about);
  if (place.load(std::memory_order_relaxed) == nullptr) return false;
  std::unique_ptr<Answers> answers(place.exchange(nullptr, std::memory_order_acquire));
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
  // What somebody else has put there meanwhile stays.
  Answers* none = nullptr;
  if (place.compare_exchange_strong(none, answers.get(), std::memory_order_release)) {
    (void)answers.release();
  }
  return found;
}

}  // namespace verbena::preload
