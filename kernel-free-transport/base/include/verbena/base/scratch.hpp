// Room on the stack for up to N plain elements, which nobody clears first: for the paths where
// clearing would cost more than the work.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>

namespace verbena {

template <typename T, std::size_t N>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  static constexpr std::size_t size() noexcept { return N; }
  T* data() noexcept { return std::launder(reinterpret_cast<T*>(room_)); }
  const T* data() const noexcept { return std::launder(reinterpret_cast<const T*>(room_)); }
  std::span<T> first(std::size_t count) noexcept { return {data(), count}; }
  std::span<const T> first(std::size_t count) const noexcept { return {data(), count}; }
  T& operator[](std::size_t i) noexcept { return data()[i]; }

 private:
  alignas(T) std::byte room_[N * sizeof(T)];
};

}  // namespace verbena
