// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes single numbers at any alignment, in network order unless the name says
// otherwise. The caller has checked the length; nothing here can fail.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace verbena::wire {

namespace detail {
template <typename T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store(std::uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
constexpr std::uint16_t swap(std::uint16_t v) { return __builtin_bswap16(v); }
constexpr std::uint32_t swap(std::uint32_t v) { return __builtin_bswap32(v); }
constexpr std::uint64_t swap(std::uint64_t v) { return __builtin_bswap64(v); }
template <typename T>
constexpr T network(T value) {
  return std::endian::native == std::endian::little ? swap(value) : value;
}
template <typename T>
constexpr T little(T value) {
  return std::endian::native == std::endian::little ? value : swap(value);
}
}  // namespace detail

inline std::uint16_t load_be16(const std::uint8_t* at) {
  return detail::network(detail::load<std::uint16_t>(at));
}
inline std::uint32_t load_be32(const std::uint8_t* at) {
  return detail::network(detail::load<std::uint32_t>(at));
}
inline std::uint64_t load_be64(const std::uint8_t* at) {
  return detail::network(detail::load<std::uint64_t>(at));
}
// Returns the lower three bytes of the 32-bit word at `at`.
inline std::uint32_t load_low24(const std::uint8_t* at) { return load_be32(at) & 0xffffff; }
inline std::uint32_t load_le32(const std::uint8_t* at) {
  return detail::little(detail::load<std::uint32_t>(at));
}
inline std::uint64_t load_le64(const std::uint8_t* at) {
  return detail::little(detail::load<std::uint64_t>(at));
}
// Copies four bytes unchanged, for values that are only passed on.
inline std::uint32_t load_raw32(const std::uint8_t* at) { return detail::load<std::uint32_t>(at); }

inline void store_be16(std::uint8_t* at, std::uint16_t value) {
  detail::store(at, detail::network(value));
}
inline void store_be32(std::uint8_t* at, std::uint32_t value) {
  detail::store(at, detail::network(value));
}
inline void store_be64(std::uint8_t* at, std::uint64_t value) {
  detail::store(at, detail::network(value));
}
inline void store_le32(std::uint8_t* at, std::uint32_t value) {
  detail::store(at, detail::little(value));
}
inline void store_le64(std::uint8_t* at, std::uint64_t value) {
  detail::store(at, detail::little(value));
}
inline void store_raw32(std::uint8_t* at, std::uint32_t value) { detail::store(at, value); }

}  // namespace verbena::wire
