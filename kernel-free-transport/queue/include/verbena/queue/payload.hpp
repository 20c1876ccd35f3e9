// What a packet brings for memory: bytes of its packet, or of several that were joined, or, if it
// is direct, bytes that are still with their sender. Made for the handling of one packet.
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
      : bytes_(packet.payload),
        size_(packet.data_length),
        step_(packet.payload_step),
        direct_(packet.direct),
        sender_(packet.sender) {}

  std::size_t size() const { return size_; }
  // Forgets the first bytes.
  void skip(std::size_t length) {
    begin_ += length;
    size_ -= length;
  }

  enum class Placed : std::uint8_t {
    kDone,
    kNoTarget,  // the pages of the receiving side are not mapped
    kNoSource,  // the sender's memory cannot be read: as if the packet had been lost
  };
  // Copies `length` bytes from `offset` on to the first bytes that are pinned; the end arrives last.
  Placed place(std::size_t offset, std::size_t length, const memory::Pin& to) const noexcept {
    if (direct_ != nullptr) return fetch_to(offset, length, to);
    if (step_ != 0) return place_pieces(begin_ + offset, length, to);
    return to.write(0, bytes_.data() + begin_ + offset, length) ? Placed::kDone
                                                                : Placed::kNoTarget;
  }
  // The same to memory of our own. False: kNoSource.
  [[gnu::noinline]] bool copy(std::size_t offset, std::span<std::uint8_t> to) const noexcept;

 private:
  [[gnu::noinline]] Placed fetch_to(std::size_t offset, std::size_t length,
                                    const memory::Pin& to) const noexcept;
  [[gnu::noinline]] Placed place_pieces(std::size_t from, std::size_t length,
                                        const memory::Pin& to) const noexcept;
  bool fetch(std::size_t offset, std::size_t length,
             std::span<const wire::FetchTarget> to) const noexcept;

  std::span<const std::uint8_t> bytes_;  // the first piece, where there are several
  std::size_t begin_ = 0;
  std::size_t size_;
  std::size_t step_ = 0;                 // from one piece to the next; 0: there is one
  const wire::DirectPayload* direct_ = nullptr;
  wire::SenderMemory* sender_ = nullptr;
};

}  // namespace verbena::queue
