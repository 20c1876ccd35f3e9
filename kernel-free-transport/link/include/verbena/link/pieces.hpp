// SPDX-License-Identifier: BSD-2-Clause
// The kernel keeps a datagram's bytes in one piece of memory or in pages. One piece costs less
// where it is small; but a kernel that empties memory before it is had empties one of 8 KiB for a
// datagram of a little more than 4 KiB, and there pages do. Which it is, is measured. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/wire/datagram.hpp"

namespace verbena::link {

// Datagrams of so many bytes at most cost less in one piece. The first question takes as long as
// some fifty messages, once per process.
std::size_t in_one_piece_most() noexcept;

// The same, from the least times of a datagram of 4 KiB in one piece and in pages; 0: not known.
std::size_t in_one_piece_most(std::uint64_t in_one_piece, std::uint64_t in_pages) noexcept;

// It is one of these: pages cost more up to there where nothing is emptied, and where all is.
inline constexpr std::size_t kInOnePieceMost = 10 * 1024;
inline constexpr std::size_t kInOnePieceLeast = 3584;
// What the kernel takes pages for: segments, though there be but one, which is longer than all.
inline constexpr std::size_t kUncut = wire::TxBatch::kRunBytes;

}  // namespace verbena::link
