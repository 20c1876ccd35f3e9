// SPDX-License-Identifier: BSD-2-Clause
// The SRQs of a device that are found by number: those of XRC. Their numbers are made as queue
// pair numbers are. Has a lock of its own.
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
  // 16,384 numbers more.
  void add_slot(std::uint32_t slot, UnpredictableRandom& random);
  // Gives it its number; false when all are taken.
  bool add(queue::SharedReceive& shared);
  void remove(const queue::SharedReceive& shared);
  // Null: there is none of this number in the domain.
  queue::SharedReceive* find(std::uint32_t number, std::uint32_t xrc_domain) const noexcept;
  // Whether the number is in one of these slots, taken or not.
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
