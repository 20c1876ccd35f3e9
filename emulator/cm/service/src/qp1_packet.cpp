// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/qp1_packet.hpp"

#include <algorithm>

#include "verbena/wire/bth.hpp"
#include "verbena/wire/deth.hpp"

namespace verbena::cm_service {
namespace {

constexpr std::uint8_t kUdSendOnly = 0x64;
static_assert(wire::Bth::kSize + wire::Deth::kSize + cm::kMadSize == kQp1PacketSize);

}  // namespace

bool write_qp1_packet(wire::TxBatch& batch, const cm::MadBytes& mad,
                      const wire::Destination& destination, Psn psn) {
  std::uint8_t* out = batch.begin(kQp1PacketSize);
  if (out == nullptr) return false;
  wire::Bth bth;
  bth.opcode = kUdSendOnly;
  bth.dest_qp = kManagementQpn;
  bth.psn = psn;
  bth.write_to(out);
  wire::Deth{cm::kManagementQkey, kManagementQpn}.write_to(out + wire::Bth::kSize);
  std::copy(mad.begin(), mad.end(), out + wire::Bth::kSize + wire::Deth::kSize);
  batch.commit(kQp1PacketSize, destination);
  return true;
}

std::optional<std::span<const std::uint8_t>> mad_of_packet(std::span<const std::uint8_t> packet) {
  if (packet.size() != kQp1PacketSize) return std::nullopt;
  const wire::BthView bth(packet.data());
  const wire::Deth deth = wire::Deth::read_from(packet.data() + wire::Bth::kSize);
  if (bth.opcode() != kUdSendOnly || bth.version() != 0 || bth.pad() != 0 ||
      !(bth.dest_qp() == kManagementQpn) || deth.qkey != cm::kManagementQkey ||
      !(deth.source_qp == kManagementQpn)) {
    return std::nullopt;
  }
  return packet.subspan(wire::Bth::kSize + wire::Deth::kSize);
}

}  // namespace verbena::cm_service
