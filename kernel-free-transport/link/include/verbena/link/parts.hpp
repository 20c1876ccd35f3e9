// Where the bytes of one send are: pieces of memory, in order. What lies back to back is one.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/check.hpp"

namespace verbena::link {

// iovec as the kernel wants it, which only reads what is sent.
inline iovec part_of(std::span<const std::uint8_t> bytes) noexcept {
  return {const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

// `kMost` pieces that are not back to back.
template <std::size_t kMost>
class Parts {
 public:
  void add(std::span<const std::uint8_t> bytes) noexcept {
    if (bytes.data() == end_) {
      parts_[count_ - 1].iov_len += bytes.size();
    } else {
      VERBENA_CHECK(count_ < kMost);
      parts_[count_++] = part_of(bytes);
    }
    end_ = bytes.data() + bytes.size();
  }
  std::span<const iovec> all() const noexcept { return {parts_.data(), count_}; }

 private:
  std::array<iovec, kMost> parts_;
  std::size_t count_ = 0;
  const std::uint8_t* end_ = nullptr;
};

}  // namespace verbena::link
