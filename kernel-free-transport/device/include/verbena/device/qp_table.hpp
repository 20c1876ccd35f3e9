// SPDX-License-Identifier: BSD-2-Clause
// Finds the queue pair of a number in constant time: chunks of pointers, which are allocated as
// numbers are assigned and freed only with the table. Changes and look-ups happen under the
// device's receive lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/device/number_pool.hpp"

namespace verbena::qp {
class QueuePair;
}

namespace verbena::device {

class QpTable {
 public:
  QpTable(std::uint32_t slot, UnpredictableRandom& random);
  QpTable(const QpTable&) = delete;

  // Adds a slot (16,384 numbers) that the daemon gave to this device.
  void add_slot(std::uint32_t slot, UnpredictableRandom& random);
  // Returns a free number, or nothing if all slots are full.
  std::optional<Qpn> reserve();
  void set(Qpn number, qp::QueuePair* qp);
  void release(Qpn number);
  qp::QueuePair* find(Qpn number) const noexcept;

  template <typename F>
  void for_each(F&& f) const {
    for (const Slot& slot : slots_) {
      for (const auto& chunk : slot.chunks) {
        if (!chunk) continue;
        for (qp::QueuePair* qp : *chunk) {
          if (qp != nullptr) f(*qp);
        }
      }
    }
  }
  // Visits at most `most` queue pairs behind `after`, in the order of for_each (number 0: from the
  // first). Returns true if there are more.
  template <typename F>
  bool for_each_behind(Qpn after, std::size_t most, F&& f) const {
    std::size_t visited = 0;
    bool is_behind = after == Qpn{};
    for (const Slot& slot : slots_) {
      const bool has_it = !is_behind && slot.number == after.slot();
      if (!is_behind && !has_it) continue;
      is_behind = true;
      for (std::uint32_t index = has_it ? after.index() + 1 : 0; index < NumberPool::kNumbers;
           ++index) {
        const auto& chunk = slot.chunks[index / kChunk];
        qp::QueuePair* const qp = chunk ? (*chunk)[index % kChunk] : nullptr;
        if (qp == nullptr) continue;
        if (visited++ == most) return true;
        f(*qp);
      }
    }
    return false;
  }

 private:
  // Chunks are small because consecutive numbers are spread over the slot.
  static constexpr std::uint32_t kChunk = 32;
  using Chunk = std::array<qp::QueuePair*, kChunk>;
  struct Slot {
    std::uint32_t number;
    NumberPool numbers;
    std::array<std::unique_ptr<Chunk>, NumberPool::kNumbers / kChunk> chunks;
  };
  const Slot* slot_of(Qpn number) const noexcept;
  Slot* slot_of(Qpn number) noexcept;

  std::vector<Slot> slots_;
};

}  // namespace verbena::device
