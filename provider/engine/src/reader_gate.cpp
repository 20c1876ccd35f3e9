// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/engine/reader_gate.hpp"

#include <sched.h>
#include <sys/eventfd.h>

#include <cstdint>
#include <memory>

#include "verbena/base/standard_streams.hpp"
#include "verbena/link/system_calls.hpp"

namespace verbena::provider {
namespace {

bool may_run_on_one_only() noexcept {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

}  // namespace

bool ReaderGate::open() noexcept {
  if (!closing_) {
    closing_.reset(beyond_streams(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)));
    has_one_processor_ = may_run_on_one_only();
  }
  return static_cast<bool>(closing_);
}

void ReaderGate::close() noexcept {
  is_closing_.publish(true);
  const std::uint64_t one = 1;
  if (closing_) link::write_bytes(closing_.get(), &one, sizeof one);
  visits_.close_and_wait();
}

// The descriptor is the parent's as well, whose readers would wake up by it.
void ReaderGate::abandon() noexcept {
  std::construct_at(&visits_);
  closing_.reset();
}

}  // namespace verbena::provider
