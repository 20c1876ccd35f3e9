// SPDX-License-Identifier: BSD-2-Clause
// Buffers out of a receiving socket, one after the other from one sender, sound and damaged, are
// divided into packets. Each byte belongs to one piece, in order; what is called a packet has a
// right ICRC; and of a sound bundle each packet is found.
//
// The first byte chooses how many identifications are accepted (bit 0: 128, else all) and what is
// known of the buffers (bits 1 and 2). Then each buffer: a byte for how many packets (low 5 bits)
// and what happens to it (bit 5: cut off, bit 6: damaged, bit 7: the memory behind it is full of
// packets), for each packet a byte for opcode and one for its length in units of 12 bytes; then,
// where it applies, four bytes that say where it is cut off, and five for where and how it is
// damaged.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "division.hpp"
#include "input.hpp"
#include "verbena/base/check.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/opcode.hpp"

namespace {

using namespace verbena;
using namespace verbena::link;

constexpr std::size_t kBufferMost = 65'507;
constexpr std::uint8_t kCutOff = 0x20;
constexpr std::uint8_t kDamaged = 0x40;
constexpr std::uint8_t kFull = 0x80;

class Run {
 public:
  explicit Run(fuzz::Input& input) : input_(input) {
    const std::uint8_t how = input.byte();
    ids_accepted_ = (how & 1) != 0 ? 128u : 0x10000u;
    origin_.maybe_segments = (how & 2) != 0;
    origin_.maybe_bundle = (how & 4) != 0;
  }

  void divide_one() {
    const std::uint8_t how = input_.byte();
    std::vector<std::size_t> lengths;
    std::vector<std::uint8_t> bytes = bundle(how & 0x1f, lengths);
    bool is_sound = true;
    if ((how & kCutOff) != 0 && !bytes.empty()) {
      bytes.resize(input_.word() % bytes.size());
      is_sound = false;
    }
    if ((how & kDamaged) != 0 && !bytes.empty()) {
      const std::size_t at = input_.word() % bytes.size();
      bytes[at] ^= input_.byte();
      is_sound = false;
    }
    if (bytes.empty()) return;
    const std::size_t length = bytes.size();
    // What an earlier buffer may have left there must not be looked at.
    if ((how & kFull) != 0) bytes.insert(bytes.end(), last_.begin(), last_.end());
    divide(std::span(bytes).first(length), is_sound ? &lengths : nullptr);
    bytes.resize(length);
    last_ = std::move(bytes);
  }

 private:
  std::vector<std::uint8_t> bundle(std::uint8_t count, std::vector<std::size_t>& lengths) {
    std::vector<std::uint8_t> bytes;
    for (std::uint16_t n = 0; n < count; ++n) {
      wire::Bth bth;
      bth.opcode = input_.byte();
      bth.dest_qp = Qpn(0x1001);
      bth.psn = Psn(psn_++);
      const std::size_t length = wire::Bth::kSize + 12u * input_.byte() + wire::kIcrcSize;
      if (bytes.size() + length > kBufferMost) break;
      std::vector<std::uint8_t> packet(length, static_cast<std::uint8_t>(n));
      bth.write_to(packet.data());
      flow_.seal(packet, n);
      bytes.insert(bytes.end(), packet.begin(), packet.end());
      lengths.push_back(wire::row_of(bth.opcode).valid ? length : 0);
    }
    return bytes;
  }

  void divide(std::span<const std::uint8_t> buffer, const std::vector<std::size_t>* sound) {
    Cutter cutter(flow_, buffer, origin_, ids_accepted_, lengths_);
    const std::uint8_t* at = buffer.data();
    std::vector<std::size_t> found;
    while (!cutter.is_done()) {
      const Cutter::Piece piece = cutter.next();
      VERBENA_CHECK(!piece.bytes.empty() && piece.bytes.data() == at);
      at += piece.bytes.size();
      if (piece.is_packet) {
        VERBENA_CHECK(flow_.verify(piece.bytes, ids_accepted_));
        found.push_back(piece.bytes.size());
      }
    }
    VERBENA_CHECK(at == buffer.data() + buffer.size());
    // A sender of ours makes no unknown opcode.
    const bool is_ours = sound != nullptr && origin_.maybe_bundle && !origin_.maybe_segments &&
                         std::find(sound->begin(), sound->end(), 0u) == sound->end();
    if (is_ours) VERBENA_CHECK(found == *sound);
  }

  fuzz::Input& input_;
  const wire::IcrcFlow flow_{IpAddress::v4(0x7f010001), IpAddress::v4(0x7f010002), 0xc000};
  std::uint32_t ids_accepted_ = 0;
  Cutter::Origin origin_;
  PacketLengths lengths_{};
  std::vector<std::uint8_t> last_;
  std::uint32_t psn_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Run run(input);
  while (!input.empty()) run.divide_one();
  return 0;
}
