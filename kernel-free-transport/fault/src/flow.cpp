// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fault/flow.hpp"

#include <algorithm>

#include "verbena/fault/hash.hpp"
#include "verbena/wire/aeth.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/deth.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::fault {
namespace {

constexpr std::size_t kMadAt = wire::Bth::kSize + wire::Deth::kSize;
constexpr std::size_t kMadHeader = 24;

bool is_mad(const wire::BthView& bth, std::span<const std::uint8_t> packet) {
  return bth.dest_qp() == kManagementQpn && packet.size() >= kMadAt + kMadHeader &&
         bth.opcode() == static_cast<std::uint8_t>(wire::Opcode::kUdSendOnly);
}

// Returns the operation and the content of an AETH. It ignores the opcode, because that of a READ
// response depends on where the READ was repeated.
std::uint32_t what_it_says(const wire::OpcodeRow& row, std::span<const std::uint8_t> packet) {
  const auto operation = static_cast<std::uint32_t>(row.operation) << 16;
  if (row.operation != wire::Operation::kAcknowledge || packet.size() < row.header_bytes) {
    return operation;
  }
  const auto aeth = wire::Aeth::read_from(packet.data() + row.aeth_at);
  const bool is_nak = aeth.kind() == wire::AethKind::kNak;
  return operation | static_cast<std::uint32_t>(aeth.kind()) << 8 |
         (is_nak ? std::uint32_t{aeth.value()} : 0u);
}

}  // namespace

std::uint64_t Flow::count_on(Side& side, std::uint32_t relative_psn) {
  const Psn newest(static_cast<std::uint32_t>(side.newest) & kMask24);
  const std::int64_t number =
      static_cast<std::int64_t>(side.newest) + Psn(relative_psn).distance_from(newest);
  if (!side.has_begun || number < 0) {
    side.newest = std::max(side.newest, std::uint64_t{relative_psn});
    side.has_begun = true;
    return relative_psn;
  }
  side.newest = std::max(side.newest, static_cast<std::uint64_t>(number));
  return static_cast<std::uint64_t>(number);
}

void Flow::forget_old(Side& side) {
  while (!side.losses.empty() && side.losses.begin()->first.first + kRemembered < side.newest) {
    side.losses.erase(side.losses.begin());
  }
}

PacketName Flow::name_of_mad(std::span<const std::uint8_t> mad) {
  PacketName name;
  name.direction = Direction::kManagement;
  name.says =
      std::uint32_t{mad[1]} << 24 | std::uint32_t{mad[3]} << 16 | wire::load_be16(mad.data() + 16);
  const std::uint64_t id = wire::load_be64(mad.data() + 8);
  const auto is_same = [&](const Transaction& t) { return t.says == name.says && t.id == id; };
  const auto newest = std::find_if(transactions_.rbegin(), transactions_.rend(), is_same);
  if (newest != transactions_.rend()) {
    name.number = newest->number;
    return name;
  }
  name.number = transactions_seen_[name.says]++;
  transactions_.push_back({name.says, id, name.number});
  if (transactions_.size() > kTransactions) transactions_.erase(transactions_.begin());
  return name;
}

PacketName Flow::name_of(const wire::Origin& origin, std::span<const std::uint8_t> packet) {
  const wire::BthView bth(packet.data());
  const wire::OpcodeRow& row = wire::row_of(bth.opcode());
  PacketName name;
  if (is_mad(bth, packet)) {
    name = name_of_mad(packet.subspan(kMadAt));
  } else if (row.response) {
    name.direction = Direction::kResponse;
    name.says = what_it_says(row, packet);
  }
  name.sender = hash_of({program_, origin.created, origin.lives});
  Side& side = side_of(name);
  if (name.direction == Direction::kManagement) {
    side.newest = std::max(side.newest, name.number);
    return name;
  }
  const Psn first =
      name.direction == Direction::kRequest ? origin.first_request : origin.first_response;
  const std::uint32_t relative = (bth.psn().value() - first.value()) & kMask24;
  name.number = count_on(side, relative);
  return name;
}

PacketName Flow::name(const wire::Origin& origin, std::span<const std::uint8_t> packet) {
  if (!(origin == origin_)) {
    // In another life of the queue pair its packets are other packets.
    if (origin.created != origin_.created || origin.lives != origin_.lives) {
      for (Side& side : sides_) side = {};
    }
    origin_ = origin;
  }
  return name_of(origin, packet);
}

Fate Flow::judge(const Settings& settings, const PacketName& name) {
  Side& side = side_of(name);
  const std::pair key{name.number, name.says};
  const auto known = side.losses.find(key);
  const Fate fate = decide(settings, name, known == side.losses.end() ? 0 : known->second);
  if (!fate.arrives()) ++side.losses[key];
  forget_old(side);
  return fate;
}

Flow::Judged Flow::judge(const Settings& settings, const wire::Origin& origin,
                         std::span<const std::uint8_t> packet) {
  const PacketName named = name(origin, packet);
  return {named, judge(settings, named)};
}

}  // namespace verbena::fault
