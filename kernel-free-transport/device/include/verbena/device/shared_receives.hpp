// SPDX-License-Identifier: BSD-2-Clause
// The SRQs of a device that are found by number, which are those of XRC. Their numbers are assigned
// like queue pair numbers. It has its own lock.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/base/unpredictable.hpp"
#include "verbena/device/number_pool.hpp"
#include "verbena/queue/shared_receive.hpp"

namespace verbena::device {

class SharedReceives {
 public:
  // Adds 16,384 numbers.
  void add_slot(std::uint32_t slot, UnpredictableRandom& random);
  // Assigns the SRQ its number. Returns false if all are taken.
  bool add(queue::SharedReceive& shared);
  void remove(const queue::SharedReceive& shared);
  // Returns null if the domain has no SRQ with this number.
  queue::SharedReceive* find(std::uint32_t number, std::uint32_t xrc_domain) const noexcept;
  // Says whether the number is in one of these slots, taken or not.
  bool is_own(std::uint32_t number) const noexcept;

 private:
  struct Slot {
    std::uint32_t number;
    NumberPool numbers;
  };

  mutable Lock lock_;
  std::vector<Slot> slots_;
  std::unordered_map<std::uint32_t, queue::SharedReceive*> all_;
};

}  // namespace verbena::device
