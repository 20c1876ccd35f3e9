// SPDX-License-Identifier: BSD-2-Clause
// The memory that holds the events of this process's rdma_cm channels (control/cm_event_page.hpp),
// found by the random number that identifies a channel. A channel may be missing here, because
// another process opened it or there are too many channels; then the emulator is asked. There is no
// lock: a thread that looks into a page counts as its user, which keeps it mapped. Memory of closed
// channels is freed when other channels are opened.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/control/cm_event_page.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::preload::event_pages {

// Maps the channel's memory. `fd` is the channel's own descriptor, by which a closed one is
// noticed.
void adopt(std::uint64_t channel, int fd, const control::UniqueFd& memory);

// Takes the channel's next event, if there is one here for a caller that holds a message from the
// channel, or that holds none (cm_event_page.hpp).
bool take(std::uint64_t channel, bool holds_message, control::CmEventCopy& out);

// Returns the version with which answers about this ID are true, or nothing when the channel is not
// here.
std::optional<std::uint32_t> version(std::uint64_t channel, std::uint32_t id);

// Makes answers about the ID that have `version` untrue. Returns false when they already are.
bool outdate(std::uint64_t channel, std::uint32_t id, std::uint32_t version);

}  // namespace verbena::preload::event_pages
