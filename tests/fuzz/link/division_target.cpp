// SPDX-License-Identifier: BSD-2-Clause
// Divides buffers from a receiving socket, sound and damaged, one after the other from one sender.
// Each byte except those of a table belongs to one piece, in order. Each packet of a sound bundle
// is found.
//
// The first byte chooses what is known of the buffers (bit 1: the kernel says how long segments
// are; bit 2: they may be bundles). Then comes each buffer: a byte for the number of packets (low 5
// bits) and for what happens to it (bit 5: cut off, bit 6: damaged, bit 7: the memory behind it is
// full of packets); for each packet a byte for its length in units of 12 bytes; then, if it is cut
// off, four bytes for the place, and if it is damaged, five for the place and the change.
#include <cstdint>
#include <span>
#include <vector>

#include "division.hpp"
#include "input.hpp"
#include "verbena/base/check.hpp"
#include "verbena/wire/bth.hpp"

namespace {

using namespace verbena;
using namespace verbena::link;

constexpr std::uint8_t kCutOff = 0x20;
constexpr std::uint8_t kDamaged = 0x40;
constexpr std::uint8_t kFull = 0x80;

class Run {
 public:
  explicit Run(fuzz::Input& input) : input_(input) {
    const std::uint8_t how = input.byte();
    segment_bytes_ = (how & 2) != 0 ? 64 : 0;
    maybe_bundle_ = (how & 4) != 0;
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
    // Bytes that an earlier buffer may have left there must be ignored.
    if ((how & kFull) != 0) bytes.insert(bytes.end(), last_.begin(), last_.end());
    divide(std::span(bytes).first(length), is_sound ? &lengths : nullptr);
    bytes.resize(length);
    last_ = std::move(bytes);
  }

 private:
  std::vector<std::uint8_t> bundle(std::uint8_t count, std::vector<std::size_t>& lengths) {
    std::vector<std::uint8_t> bytes;
    std::vector<wire::TxBatch::Packet> packets;
    for (std::uint16_t n = 0; n < count; ++n) {
      const std::size_t length = wire::Bth::kSize + 12u * input_.byte();
      const std::size_t sealed = length + wire::kIcrcSize;
      if (bytes.size() + sealed > kBundleBytes) break;
      bytes.insert(bytes.end(), sealed, static_cast<std::uint8_t>(n));
      packets.emplace_back().length = static_cast<std::uint32_t>(length);
      lengths.push_back(sealed);
    }
    const std::size_t end = bytes.size();
    bytes.resize(end + wire::TxBatch::kRoomBehind);
    bytes.resize(end + write_bundle_table(packets, bytes.data() + end));
    return bytes;
  }

  void divide(std::span<const std::uint8_t> buffer, const std::vector<std::size_t>* sound) {
    Cutter cutter(buffer, segment_bytes_, maybe_bundle_);
    const bool is_bundle = cutter.follows_table();
    const std::uint8_t* at = buffer.data();
    std::vector<std::size_t> found;
    while (!cutter.is_done()) {
      const auto piece = cutter.next();
      VERBENA_CHECK(piece.data() == at);
      at += piece.size();
      found.push_back(piece.size());
    }
    const std::uint8_t* const end = buffer.data() + buffer.size();
    VERBENA_CHECK(is_bundle ? at < end : at == end);
    if (sound != nullptr && sound->size() > 1 && maybe_bundle_ && segment_bytes_ == 0) {
      VERBENA_CHECK(is_bundle && found == *sound);
    }
  }

  fuzz::Input& input_;
  std::size_t segment_bytes_ = 0;
  bool maybe_bundle_ = false;
  std::vector<std::uint8_t> last_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Run run(input);
  while (!input.empty()) run.divide_one();
  return 0;
}
