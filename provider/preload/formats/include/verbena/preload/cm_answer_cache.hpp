// SPDX-License-Identifier: BSD-2-Clause
// Keeps what the emulator would answer about rdma_cm IDs (control/cm_answers.hpp), from the event
// that brings an ID until something changes the ID: that is when librdmacm asks. Each answer is
// kept with the version that came with it, and is given only to a caller with the same version,
// which the caller gets from the memory that the emulator shares (control/cm_event_page.hpp).
// Therefore the answers are those that the emulator would give. The cache has room for some
// thousand IDs and allocates memory per ID. The emulator answers what is not found here.
//
// There is no lock: a thread that reads answers takes them out meanwhile, and another thread that
// comes then asks the emulator. For a static object: its destructor frees nothing.
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
  // Returns false when the answer is not known, or is longer than the program's room for it.
  bool find(const About& about, std::uint32_t version, const control::CmQuestion& question,
            std::size_t room, CmAnswer& answer);
  // Drops the answers, because they are not true any more, and frees their memory.
  void forget(const About& about);

 private:
  struct Answers;
  using Place = std::atomic<Answers*>;
  Place& place_of(const About& about);
  static std::unique_ptr<Answers> take(Place& place);
  static void put_back(Place& place, std::unique_ptr<Answers> answers);

  // IDs that are in use together have neighbouring numbers and therefore different places.
  std::array<Place, control::kCmVersions> places_{};
};

}  // namespace verbena::preload
