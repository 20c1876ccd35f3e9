// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/fault_table.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "verbena/base/check.hpp"
#include "verbena/base/types.hpp"

namespace verbena::fabric {

using control::ChangeFault;
using control::FaultSpec;
using control::FaultValues;
using control::Outcome;

namespace {

// Calls `f` for each value, with its bit and the value in both.
template <typename A, typename B, typename F>
void with_each_value(A& a, B& b, F&& f) {
  f(control::kFaultLoss, a.loss_ppm, b.loss_ppm);
  f(control::kFaultDuplicate, a.duplicate_ppm, b.duplicate_ppm);
  f(control::kFaultReorder, a.reorder_ppm, b.reorder_ppm);
  f(control::kFaultCorrupt, a.corrupt_ppm, b.corrupt_ppm);
  f(control::kFaultDelay, a.delay_ns, b.delay_ns);
  f(control::kFaultJitter, a.jitter_ns, b.jitter_ns);
  f(control::kFaultRate, a.rate_bytes_per_second, b.rate_bytes_per_second);
}

void copy_named(FaultValues& to, const FaultValues& from, std::uint32_t named) {
  with_each_value(to, from, [named](std::uint32_t bit, auto& mine, const auto& theirs) {
    if ((named & bit) != 0) mine = theirs;
  });
}

}  // namespace

void add_counted(const control::StatsPage& page, const FaultSpec& spec, FaultTotals& totals) {
  const control::FaultPart& part = page.faults[spec.place];
  if (part.id.read() != spec.id) return;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    totals[i] += part.counters.read(static_cast<FaultCounter>(i));
  }
}

FaultTable::Fault* FaultTable::find(std::uint32_t qpn) {
  const auto found = std::ranges::find_if(
      faults_, [qpn](const Fault& fault) { return fault.spec.qpn == qpn && !fault.ended; });
  return found == faults_.end() ? nullptr : &*found;
}

// A seed alone is for what is there, so also for the faults of single queue pairs.
std::vector<std::uint32_t> FaultTable::aims_of(const ChangeFault& change) const {
  if (change.qpn != 0) return {change.qpn};
  std::vector<std::uint32_t> aims;
  if (change.data) aims.push_back(FaultSpec::kEveryQp);
  if (change.cm) aims.push_back(FaultSpec::kCm);
  if (!change.data || change.clear || change.named != control::kFaultSeed) return aims;
  for (const Fault& fault : faults_) {
    if (fault.spec.is_of_one_queue_pair() && !fault.ended) aims.push_back(fault.spec.qpn);
  }
  return aims;
}

bool FaultTable::has_room_for(const std::vector<std::uint32_t>& aims) const {
  const auto in_use =
      std::ranges::count_if(faults_, [](const Fault& fault) { return !fault.ended; });
  const auto further =
      std::ranges::count_if(aims, [this](std::uint32_t qpn) { return find(qpn) == nullptr; });
  return in_use + further <= std::ptrdiff_t{control::kFaultsMost};
}

// There must be room.
FaultTable::Fault& FaultTable::find_or_add(std::uint32_t qpn, std::uint64_t seed) {
  if (Fault* known = find(qpn)) return *known;
  if (faults_.size() == control::kFaultsMost)
    std::erase_if(faults_, [](const Fault& fault) { return fault.ended; });
  std::array<bool, control::kFaultsMost> taken{};
  for (const Fault& fault : faults_) taken[fault.spec.place] = true;
  const auto* free = std::ranges::find(taken, false);
  VERBENA_CHECK(free != taken.end());
  FaultSpec spec;
  spec.qpn = qpn;
  spec.place = static_cast<std::uint32_t>(free - taken.begin());
  spec.id = next_id_++;
  spec.seed = seed;
  const Fault* general = find(FaultSpec::kEveryQp);
  if (spec.is_of_one_queue_pair() && general != nullptr) spec.seed = general->spec.seed;
  return faults_.emplace_back(Fault{spec});
}

Outcome<Seeds> FaultTable::change(const ChangeFault& change, std::uint64_t fresh_seed) {
  const std::vector<std::uint32_t> aims = aims_of(change);
  const bool takes_all = change.clear && change.qpn == 0 && change.data;
  if (change.clear) {
    std::erase_if(faults_, [&](const Fault& fault) {
      return std::ranges::count(aims, fault.spec.qpn) != 0 ||
             (takes_all && fault.spec.is_of_one_queue_pair());
    });
    forget_what_does_nothing();
    return Seeds{};
  }
  const bool only_seed = change.named == control::kFaultSeed;
  if (!only_seed && !has_room_for(aims)) {
    return control::fail(ENOSPC, "a device may have " + std::to_string(control::kFaultsMost) +
                                     " faults at a time; take some away: verbena fault --clear");
  }
  for (const std::uint32_t qpn : aims) {
    if (only_seed && find(qpn) == nullptr) continue;
    Fault& fault = find_or_add(qpn, fresh_seed);
    fault.named |= change.named & ~std::uint32_t{control::kFaultSeed};
    copy_named(fault.spec.values, change.values, change.named);
    if ((change.named & control::kFaultSeed) != 0) fault.spec.seed = change.seed;
  }
  forget_what_does_nothing();
  Seeds seeds;
  for (const std::uint32_t qpn : aims) {
    if (const Fault* fault = find(qpn)) seeds.insert(fault->spec.seed);
  }
  if (only_seed && seeds.empty()) {
    return control::fail(ENOENT,
                         "no fault is set that this seed could be for; name one with it, as "
                         "--loss 1%");
  }
  return seeds;
}

// Forgets values of 0, except where they differ from those for every queue pair, and then faults
// without values.
void FaultTable::forget_what_does_nothing() {
  const Fault* general = find(FaultSpec::kEveryQp);
  const FaultValues everybodys = general != nullptr ? general->spec.values : FaultValues{};
  for (Fault& fault : faults_) {
    const FaultValues background = fault.spec.is_of_one_queue_pair() ? everybodys : FaultValues{};
    with_each_value(fault.spec.values, background,
                    [&fault](std::uint32_t bit, const auto& mine, const auto& theirs) {
                      if (mine == 0 && theirs == 0) fault.named &= ~bit;
                    });
  }
  std::erase_if(faults_, [](const Fault& fault) { return fault.named == 0; });
}

FaultSpec FaultTable::in_force(const Fault& fault) const {
  FaultSpec spec = fault.spec;
  const Fault* general = find(FaultSpec::kEveryQp);
  if (spec.is_of_one_queue_pair()) {
    spec.values = general != nullptr ? general->spec.values : FaultValues{};
    spec.has_own_line = (fault.named & control::kFaultRate) != 0;
  }
  copy_named(spec.values, fault.spec.values, fault.named);
  return spec;
}

std::vector<FaultSpec> FaultTable::in_force() const {
  std::vector<FaultSpec> list;
  for (const Fault& fault : faults_) {
    if (!fault.ended) list.push_back(in_force(fault));
  }
  return list;
}

void FaultTable::retire(const control::StatsPage& page) {
  for (Fault& fault : faults_) add_counted(page, fault.spec, fault.retired);
}

void FaultTable::end_queue_pairs_of(std::uint32_t slot) {
  for (Fault& fault : faults_) {
    if (fault.spec.is_of_one_queue_pair() && Qpn(fault.spec.qpn).slot() == slot) fault.ended = true;
  }
}

bool FaultTable::end_queue_pair(std::uint32_t qpn) {
  Fault* const fault = find(qpn);
  if (fault == nullptr || !fault->spec.is_of_one_queue_pair()) return false;
  fault->ended = true;
  return true;
}

}  // namespace verbena::fabric
