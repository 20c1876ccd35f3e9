// SPDX-License-Identifier: BSD-2-Clause
// Translates faults and rules from the protocol's form into that of the room `fault`. The provider
// and the daemon, which carry them out, include this; the protocol itself does not use that room.
#pragma once

#include <utility>

#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/fault/fate.hpp"
#include "verbena/fault/script.hpp"

namespace verbena::control {

inline fault::Settings settings_of(const FaultSpec& spec) {
  fault::Settings s;
  s.drop_ppm = spec.values.loss_ppm;
  s.corrupt_ppm = spec.values.corrupt_ppm;
  s.duplicate_ppm = spec.values.duplicate_ppm;
  s.reorder_ppm = spec.values.reorder_ppm;
  s.delay_ns = spec.values.delay_ns;
  s.jitter_ns = spec.values.jitter_ns;
  s.bytes_per_second = spec.values.rate_bytes_per_second;
  s.seed = spec.seed;
  return s;
}

// Activates `rule`, which is the parsed text of the spec. Its counters are those of the page (null:
// none), from 0 if the entry counted another rule before.
inline fault::ActiveRule activate(const RuleSpec& spec, fault::Rule rule, TimeNs now,
                                  StatsPage* page) {
  fault::ActiveRule active = fault::activate(spec.id, std::move(rule), spec.seed, now);
  if (page == nullptr) return active;
  RulePart& part = page->rules[spec.place];
  active.counters = &part.counters;
  active.starts_counting = part.id.read() != spec.id;
  part.id.set(spec.id);
  return active;
}

}  // namespace verbena::control
