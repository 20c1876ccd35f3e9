// SPDX-License-Identifier: BSD-2-Clause
// Where the events of this process's rdma_cm channels lie ready (control/cm_event_page.hpp), by the
// random number that names a channel. A channel that is not found here, because another process
// opened it or there are too many, is served by asking the emulator. No lock: whoever looks into a
// page holds it for so long. Memory of channels that are gone goes as others are opened.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/control/cm_event_page.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::preload::event_pages {

// `fd` is the descriptor of the channel itself, by which one that is gone is noticed.
void adopt(std::uint64_t channel, int fd, const control::UniqueFd& memory);

// The channel's next event, if there is one here that may be had with a message off the channel, or
// without (cm_event_page.hpp).
bool take(std::uint64_t channel, bool holds_message, control::CmEventCopy& out);

// With which answers about this ID are true. Nothing when the channel is not here.
std::optional<std::uint32_t> version(std::uint64_t channel, std::uint32_t id);

// Makes answers about the ID untrue that are true with `version`. False when somebody else did.
bool outdate(std::uint64_t channel, std::uint32_t id, std::uint32_t version);

}  // namespace verbena::preload::event_pages
