// SPDX-License-Identifier: BSD-2-Clause
// A fault as the protocol tells it, for who carries it out: the provider and the daemon, which have
// the room `fault`; the protocol itself does without.
#pragma once

#include "verbena/control/messages.hpp"
#include "verbena/fault/fate.hpp"

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

}  // namespace verbena::control
