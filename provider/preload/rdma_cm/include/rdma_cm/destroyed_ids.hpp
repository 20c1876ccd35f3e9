// SPDX-License-Identifier: BSD-2-Clause
// Which threads wait in rdma_destroy_id. The emulator has destroyed the ID by then, and answered
// how many of its events the program has read; librdmacm compares that with what was acknowledged,
// and sleeps on a condition variable in its own memory of the ID. So a thread that has destroyed an
// ID and sleeps on a futex in that memory waits there, and no other does.
#pragma once

#include <cstdint>

namespace verbena::preload::destroyed_ids {

// This thread has destroyed an ID that librdmacm has there, of which so many events were read.
void note(std::uint64_t address, std::uint32_t events) noexcept;

}  // namespace verbena::preload::destroyed_ids
