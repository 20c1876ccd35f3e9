// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fault/fate.hpp"

#include "verbena/base/random.hpp"
#include "verbena/fault/hash.hpp"

namespace verbena::fault {

// Each question draws its own number, even if its chance is 0: adding a fault leaves the others
// unchanged.
Fate decide(const Settings& s, const PacketName& name, std::uint32_t losses) {
  Random random(hash_of({s.seed, name.sender, static_cast<std::uint64_t>(name.direction), name.says,
                         name.number, losses}));
  Fate fate;
  fate.is_lost = random.chance(s.drop_ppm);
  const bool is_damaged = random.chance(s.corrupt_ppm);
  const auto bit = static_cast<std::uint32_t>(random.next());
  fate.is_doubled = random.chance(s.duplicate_ppm);
  fate.is_reordered = random.chance(s.reorder_ppm);
  fate.delay_ns = s.delay_ns + random.below(s.jitter_ns + 1);
  if (is_damaged && !fate.is_lost) fate.damaged_bit = bit;
  return fate;
}

}  // namespace verbena::fault
