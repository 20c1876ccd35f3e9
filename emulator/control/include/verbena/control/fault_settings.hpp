// SPDX-License-Identifier: BSD-2-Clause
// Faults and rules as the protocol tells them, for who carries it out: the provider and the daemon,
// which have the room `fault`; the protocol itself does without.
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

// `rule` is what the spec says. It counts into the page (null: nowhere), from 0 if it did not
// before.
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
