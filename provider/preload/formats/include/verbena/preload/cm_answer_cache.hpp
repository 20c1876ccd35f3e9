// SPDX-License-Identifier: BSD-2-Clause
// What the emulator would answer about rdma_cm IDs (control/cm_answers.hpp), from the event that
// brings an ID until something changes it: that is when librdmacm asks. Answers are kept with the
// version that came with them, and given only to who brings the same, from the memory that the
// emulator shares (control/cm_event_page.hpp): so they are as true as if it had been asked. Some
// thousand IDs, each with memory of its own for so long; what is not here is asked for.
//
// No lock: who looks at answers has them to himself for so long, and another thread that comes
// meanwhile asks the emulator. For a static object: what is kept at the end stays.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "verbena/control/cm_answers.hpp"
#include "verbena/control/cm_event_page.hpp"

namespace verbena::preload {

struct CmAnswer {
  std::array<std::uint8_t, 512> bytes;
  std::size_t size = 0;
};

class CmAnswerCache {
 public:
  struct About {
    std::uint64_t channel = 0;
    std::uint32_t id = 0;
    bool operator==(const About&) const = default;
  };

  void keep(const About& about, std::uint32_t version, std::span<const std::uint8_t> answers);
  // False when it is not known, or longer than the room that the program has for it.
  bool find(const About& about, std::uint32_t version, const control::CmQuestion& question,
            std::size_t room, CmAnswer& answer);
  // They are not true any more, and take no memory.
  void forget(const About& about);

 private:
  struct Answers;
  using Place = std::atomic<Answers*>;
  Place& place_of(const About& about);
  static std::unique_ptr<Answers> take(Place& place);
  static void put_back(Place& place, std::unique_ptr<Answers> answers);

  // An ID's neighbours are those that are in use with it: they do not fall together.
  std::array<Place, control::kCmVersions> places_{};
};

}  // namespace verbena::preload
