// SPDX-License-Identifier: BSD-2-Clause
// What the preload library offers to the plugin, which finds it by name: reads of a descriptor by
// the application come to a function of the plugin's.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace verbena::control {

// Whether the descriptor is still the file that was noted, and a read of it may block (no
// O_NONBLOCK). A system call; keeps errno.
using MayBlock = int(int fd);
// As read(2), on a descriptor that was noted. May block if `may_block` says so, and may be
// cancelled then.
using ChannelReader = ssize_t(int fd, void* bytes, std::size_t size, MayBlock* may_block);
// What it returns when the read shall be an ordinary one.
inline constexpr ssize_t kReadPlainly = -2;

// Notes that reads of this descriptor, as long as it is the same file, go to `reader`.
using OfferChannelReader = void(int fd, ChannelReader* reader);
inline constexpr const char* kOfferChannelReader = "verbena_offer_channel_reader";

}  // namespace verbena::control
