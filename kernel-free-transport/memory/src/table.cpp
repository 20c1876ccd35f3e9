// SPDX-License-Identifier: BSD-2-Clause
#include "table.hpp"

#include <algorithm>
#include <utility>

#include "verbena/base/check.hpp"

namespace verbena::memory {

std::optional<Refusal> Registry::Slot::check(const AccessRequest& request) const {
  if (key != request.key) [[unlikely]]
    return Refusal::kNoSuchKey;
  if (!bound) [[unlikely]]
    return Refusal::kInvalidated;
  if (domain != request.domain) [[unlikely]]
    return Refusal::kForeignDomain;
  if (role == Role::kWindow2 && qpn != request.qpn) [[unlikely]]
    return Refusal::kForeignQp;
  if (!contains(request.address, request.length) && !request.at_any_address) [[unlikely]]
    return Refusal::kOutOfRange;
  if ((request.need & ~access) != 0) [[unlikely]]
    return Refusal::kNoPermission;
  // Windows are for peers: their keys are no local keys.
  if (is_window() && (request.need & kRemoteRights) == 0) [[unlikely]] {
    return Refusal::kNoPermission;
  }
  if ((request.need & kRemoteAtomic) != 0 &&
      ((request.address | translate(request.address)) & 7) != 0) [[unlikely]] {
    return Refusal::kMisaligned;
  }
  return std::nullopt;
}

RegionRequest Registry::Slot::describe() const {
  RegionRequest request;
  request.domain = domain;
  request.host_address = host;
  request.length = length;
  request.base = start;
  request.access = access;
  request.implicit = whole && reach.read() == Reach::kOnDemand;
  request.null = reach.read() == Reach::kNull;
  request.device_memory = device_memory;
  return request;
}

void Registry::Slot::become(const RegionRequest& request) {
  role = Role::kRegion;
  bound = true;
  domain = request.domain;
  access = request.access;
  device_memory = request.device_memory;
  whole = request.implicit || request.null;
  reach.publish(request.null                        ? Reach::kNull
                : (request.access & kOnDemand) != 0 ? Reach::kOnDemand
                                                    : Reach::kDirect);
  host = whole ? 0 : request.host_address;
  start = whole || (access & kZeroBased) != 0 ? 0 : request.base;
  length = whole ? 0 : request.length;
  // The owner of null memory may write to it: there is nothing to protect.
  if (request.null) access |= kLocalWrite;
}

Registry::Table::Table(MemoryPort& of_owner, std::uint32_t max_slots, std::uint64_t seed)
    : random(seed),
      max_index(std::min(max_slots, kMaxIndex)),
      directory(std::make_unique<Published<Chunk*>[]>(max_index / Chunk::kSlots + 1)) {
  port = &of_owner;
  // Sattolo's shuffle turns the identity into one cycle.
  for (unsigned i = 0; i < bytes_after.size(); ++i) bytes_after[i] = static_cast<std::uint8_t>(i);
  for (unsigned i = 255; i > 0; --i) std::swap(bytes_after[i], bytes_after[random.below(i)]);
}

Registry::Table::~Table() {
  for (std::uint32_t i = 0; i <= max_index / Chunk::kSlots; ++i) delete directory[i].read();
}

Registry::Slot* Registry::Table::find_key(std::uint32_t key) const {
  Slot* slot = find(index_of(key));
  return slot != nullptr && slot->role != Slot::Role::kFree && slot->key == key ? slot : nullptr;
}

Registry::Slot* Registry::Table::find_region(std::uint32_t key) const {
  Slot* slot = find_key(key);
  return slot != nullptr && slot->role == Slot::Role::kRegion ? slot : nullptr;
}

Registry::Slot* Registry::Table::find_window(std::uint32_t key, Slot::Role role) const {
  Slot* slot = find(index_of(key));
  return slot != nullptr && slot->role == role ? slot : nullptr;
}

Registry::Slot& Registry::Table::make(std::uint32_t index) {
  Published<Chunk*>& chunk = directory[index / Chunk::kSlots];
  if (chunk.read_relaxed() == nullptr) chunk.publish(new Chunk);
  Slot& slot = *find(index);
  auto& node = chunk.read_relaxed()->nodes[index % Chunk::kSlots];
  if (node == nullptr) {
    node = std::make_unique<Ranges::Node>();
    node->slot = &slot;
  }
  return slot;
}

// Removes the node first, because Registry::withdraw opens the gate of slots whose nodes it finds.
void Registry::Table::shut(Slot& slot) {
  ranges.remove(node_of(slot));
  slot.gate.close_and_wait();
}

void Registry::Table::open(Slot& slot, const Ranges::Node* like) {
  Ranges::Node& node = node_of(slot);
  if (like != &node) node.holes.clear();
  const Reach reach = slot.reach.read();
  const bool is_plain = reach == Reach::kDirect || reach == Reach::kTorn;
  if (slot.bound && is_plain && !slot.device_memory && slot.length != 0) {
    node.span = {slot.host, slot.host + slot.length};
    ranges.insert(node, like);
  }
  slot.gate.reopen();
}

void Registry::Table::tear(Slot& slot, const char* by) noexcept {
  slot.gate.close_and_wait();
  ranges.tear(node_of(slot), by);
  slot.reach.publish(Reach::kTorn);
  slot.gate.reopen();
}

Registry::Slot* Registry::Table::allocate() {
  // Skips slots that have been used for requested keys.
  while (fresh <= max_index && find(fresh) != nullptr && find(fresh)->key != 0) ++fresh;
  const bool has_fresh = fresh <= max_index;
  if (free_slots != 0 && (free_slots >= kResting || !has_fresh)) {
    Slot* slot = find(oldest_free);
    oldest_free = slot->next;
    if (--free_slots == 0) newest_free = 0;
    slot->next = 0;
    return slot;
  }
  if (!has_fresh) return nullptr;
  Slot& slot = make(fresh);
  slot.key = fresh++ << kKeyByteBits | random.below(1u << kKeyByteBits);
  return &slot;
}

Registry::Slot* Registry::Table::allocate(std::uint32_t key) {
  const std::uint32_t index = index_of(key);
  if (index == 0 || index > max_index) return nullptr;
  Slot& slot = make(index);
  if (slot.role != Slot::Role::kFree) return nullptr;
  if (slot.key != 0) unlink_free(slot);
  slot.next = 0;
  slot.key = key;
  return &slot;
}

void Registry::Table::unlink_free(const Slot& slot) {
  const std::uint32_t index = index_of(slot.key);
  std::uint32_t before = 0;
  for (std::uint32_t at = oldest_free; at != index; at = find(at)->next) before = at;
  if (before == 0) {
    oldest_free = slot.next;
  } else {
    find(before)->next = slot.next;
  }
  if (newest_free == index) newest_free = before;
  --free_slots;
}

void Registry::Table::release(Slot& slot) {
  VERBENA_CHECK(slot.role != Slot::Role::kFree && slot.windows == 0 && slot.parent == 0);
  slot.role = Slot::Role::kFree;
  slot.bound = false;
  slot.key = successor(slot.key);
  slot.next = 0;
  const std::uint32_t index = index_of(slot.key);
  if (free_slots++ == 0) {
    oldest_free = index;
  } else {
    find(newest_free)->next = index;
  }
  newest_free = index;
}

}  // namespace verbena::memory
