// From a queue pair number to the queue pair, in constant time and without a lock: chunks of
// pointers, allocated as numbers are given out and never freed before the table is. Numbers are
// given out round robin, so that a number rests a while before it is used again. Changes are made
// under the device's receive lock, which is also held by whoever looks up to deliver.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/base/types.hpp"

namespace verbena::qp {
class QueuePair;
}

namespace verbena::device {

class QpTable {
 public:
  explicit QpTable(std::uint32_t slot);
  QpTable(const QpTable&) = delete;

  // One more slot (16,384 numbers) that the daemon gave to this device.
  void add_slot(std::uint32_t slot);
  // A free number, or nothing when all slots are full.
  std::optional<Qpn> reserve();
  void set(Qpn number, qp::QueuePair* qp);
  void release(Qpn number);
  qp::QueuePair* find(Qpn number) const noexcept;
  std::uint32_t size() const { return count_; }

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

 private:
  static constexpr std::uint32_t kPerSlot = 1u << Qpn::kIndexBits;
  static constexpr std::uint32_t kChunk = 256;
  using Chunk = std::array<qp::QueuePair*, kChunk>;
  struct Slot {
    std::uint32_t number = 0;
    std::uint32_t used = 0;
    std::uint32_t next = 0;
    std::vector<bool> taken;
    std::array<std::unique_ptr<Chunk>, kPerSlot / kChunk> chunks;
  };
  const Slot* slot_of(Qpn number) const noexcept;
  Slot* slot_of(Qpn number) noexcept;

  std::vector<Slot> slots_;
  std::uint32_t count_ = 0;
};

}  // namespace verbena::device
