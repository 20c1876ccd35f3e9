// SPDX-License-Identifier: BSD-2-Clause
// Parses what libibverbs core itself, not the provider, says to the kernel: the bytes of write(2)
// and ioctl(2) on a uverbs descriptor. Pure: nothing is read beyond the spans, and no pointer
// inside a request is followed here.
//
// write:  {u32 command, u16 in_words, u16 out_words}, then the command's own part, which begins
//         with the u64 address of its response.
// ioctl:  {u16 length, u16 object, u16 method, u16 attributes, u64, u32 driver, u32}, then
//         attributes of 16 bytes {u16 id, u16 length, u16 flags, u16, u64 data}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

namespace verbena::preload {

inline constexpr std::uint32_t kCommandCreateCompChannel = 17;
// A command of our own. It succeeds when this library sees the caller's write() calls (its
// self-test).
inline constexpr std::uint32_t kCommandAreYouThere = 0x56425641;

inline constexpr std::size_t kIoctlHeaderSize = 24;
inline constexpr std::size_t kIoctlAttributeSize = 16;
inline constexpr std::size_t kGidEntrySize = 32;
inline constexpr std::uint16_t kAttributeOutputIsValid = 1u << 1;

// Asks for a pipe for completions. Its number goes to `response` (four bytes).
struct CreateCompChannel {
  std::uint64_t response = 0;
};
// Asks for a pipe for asynchronous events, for an imported context. `attribute` takes its number.
struct AllocateAsyncEvents {
  std::size_t attribute = 0;
};
struct QueryGidEntry {
  std::uint32_t port = 0;
  std::uint64_t index = 0;
  std::uint64_t flags = 0;
  std::uint64_t response = 0;  // kGidEntrySize bytes
  std::size_t response_attribute = 0;
};
struct QueryGidTable {
  std::uint64_t entry_size = 0;
  std::uint64_t flags = 0;
  std::uint64_t entries = 0;  // room for max_entries of entry_size
  std::uint64_t max_entries = 0;
  std::uint64_t count = 0;  // eight bytes
  std::size_t entries_attribute = 0;
  std::size_t count_attribute = 0;
};
struct AreYouThere {};
// The request fails with the errno of a kernel whose device lacks this call.
struct RefusedRequest {
  int code = 0;
};

using UverbsRequest = std::variant<RefusedRequest, AreYouThere, CreateCompChannel,
                                   AllocateAsyncEvents, QueryGidEntry, QueryGidTable>;

UverbsRequest parse_uverbs_write(std::span<const std::uint8_t> bytes);

// Returns the length in an ioctl's header, or nothing if the header is cut or inconsistent.
std::optional<std::size_t> uverbs_ioctl_length(std::span<const std::uint8_t> header);

UverbsRequest parse_uverbs_ioctl(std::span<const std::uint8_t> bytes);

}  // namespace verbena::preload
