#include "verbena/device/qp_table.hpp"

#include "verbena/base/check.hpp"

namespace verbena::device {

QpTable::QpTable(std::uint32_t slot) { add_slot(slot); }

void QpTable::add_slot(std::uint32_t slot) {
  Slot s;
  s.number = slot;
  // The lowest numbers of slot 0 are the management queue pairs.
  s.next = slot == 0 ? 16 : 0;
  s.taken.resize(kPerSlot);
  slots_.push_back(std::move(s));
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
    if (slot.used == kPerSlot) continue;
    while (slot.taken[slot.next]) slot.next = (slot.next + 1) % kPerSlot;
    const std::uint32_t index = slot.next;
    slot.taken[index] = true;
    ++slot.used;
    slot.next = (index + 1) % kPerSlot;
    ++count_;
    return Qpn::from(slot.number, index);
  }
  return std::nullopt;
}

void QpTable::set(Qpn number, qp::QueuePair* qp) {
  Slot* slot = slot_of(number);
  VERBENA_CHECK(slot != nullptr && slot->taken[number.index()]);
  auto& chunk = slot->chunks[number.index() / kChunk];
  if (!chunk) chunk = std::make_unique<Chunk>();
  (*chunk)[number.index() % kChunk] = qp;
}

void QpTable::release(Qpn number) {
  Slot* slot = slot_of(number);
  VERBENA_CHECK(slot != nullptr && slot->taken[number.index()]);
  auto& chunk = slot->chunks[number.index() / kChunk];
  if (chunk) (*chunk)[number.index() % kChunk] = nullptr;
  slot->taken[number.index()] = false;
  --slot->used;
  --count_;
}

qp::QueuePair* QpTable::find(Qpn number) const noexcept {
  const Slot* slot = slot_of(number);
  if (slot == nullptr) return nullptr;
  const auto& chunk = slot->chunks[number.index() / kChunk];
  return chunk ? (*chunk)[number.index() % kChunk] : nullptr;
}

}  // namespace verbena::device
