// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/device/qp_table.hpp"

#include "verbena/base/check.hpp"

namespace verbena::device {

QpTable::QpTable(std::uint32_t slot, UnpredictableRandom& random) { add_slot(slot, random); }

void QpTable::add_slot(std::uint32_t slot, UnpredictableRandom& random) {
  // The lowest numbers of slot 0 belong to the management queue pairs.
  slots_.push_back({slot, NumberPool(random, slot == 0 ? 16 : 0), {}});
}

const QpTable::Slot* QpTable::slot_of(Qpn number) const noexcept {
  for (const Slot& slot : slots_) {
    if (slot.number == number.slot()) return &slot;
  }
  return nullptr;
}

QpTable::Slot* QpTable::slot_of(Qpn number) noexcept {
  return const_cast<Slot*>(static_cast<const QpTable*>(this)->slot_of(number));
}

std::optional<Qpn> QpTable::reserve() {
  for (Slot& slot : slots_) {
    const auto index = slot.numbers.take();
    if (index) return Qpn::from(slot.number, *index);
  }
  return std::nullopt;
}

void QpTable::set(Qpn number, qp::QueuePair* qp) {
  Slot* slot = slot_of(number);
  VERBENA_CHECK(slot != nullptr && slot->numbers.is_taken(number.index()));
  auto& chunk = slot->chunks[number.index() / kChunk];
  if (!chunk) chunk = std::make_unique<Chunk>();
  (*chunk)[number.index() % kChunk] = qp;
}

void QpTable::release(Qpn number) {
  Slot* slot = slot_of(number);
  VERBENA_CHECK(slot != nullptr);
  auto& chunk = slot->chunks[number.index() / kChunk];
  if (chunk) (*chunk)[number.index() % kChunk] = nullptr;
  slot->numbers.give_back(number.index());
}

qp::QueuePair* QpTable::find(Qpn number) const noexcept {
  const Slot* slot = slot_of(number);
  if (slot == nullptr) return nullptr;
  const auto& chunk = slot->chunks[number.index() / kChunk];
  return chunk ? (*chunk)[number.index() % kChunk] : nullptr;
}

}  // namespace verbena::device
