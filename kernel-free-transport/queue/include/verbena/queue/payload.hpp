// SPDX-License-Identifier: BSD-2-Clause
// The bytes that a packet brings for memory: from one packet, or from several that were joined. It
// exists while one packet is handled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/memory/pin.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::queue {

class Payload {
 public:
  explicit Payload(std::span<const std::uint8_t> bytes) : bytes_(bytes), size_(bytes.size()) {}
  explicit Payload(const wire::PacketView& packet)
      : bytes_(packet.payload), size_(packet.data_length), step_(packet.payload_step) {}

  std::size_t size() const { return size_; }
  // Drops the first bytes.
  void skip(std::size_t length) {
    begin_ += length;
    size_ -= length;
  }

  // Copies `length` bytes from `offset` to the beginning of the pinned memory; the last bytes
  // arrive last. Returns false if that memory is not mapped.
  bool place(std::size_t offset, std::size_t length, const memory::Pin& to) const noexcept {
    if (step_ != 0) return place_pieces(begin_ + offset, length, to);
    return to.write(0, bytes_.data() + begin_ + offset, length);
  }

 private:
  bool place_pieces(std::size_t from, std::size_t length, const memory::Pin& to) const noexcept;

  std::span<const std::uint8_t> bytes_;  // the first piece, if there are several
  std::size_t begin_ = 0;
  std::size_t size_;
  std::size_t step_ = 0;  // distance from one piece to the next; 0: one piece
};

}  // namespace verbena::queue
