// SPDX-License-Identifier: BSD-2-Clause
// The interface by which the preload library hands the application's reads of a descriptor to the
// plugin. The plugin finds it by name.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace verbena::control {

// Returns true if the descriptor is still the file that was offered and a read of it may block (no
// O_NONBLOCK). Makes a system call and keeps errno.
using MayBlock = int(int fd);
// Reads from an offered descriptor, as read(2) does. May block, and may then be cancelled, if
// `may_block` allows it.
using ChannelReader = ssize_t(int fd, void* bytes, std::size_t size, MayBlock* may_block);
// The reader returns this if an ordinary read is to take place.
inline constexpr ssize_t kReadPlainly = -2;

// Ends what the calling thread has begun in a ChannelReader, because it leaves it by longjmp.
// Called in a signal's handler. A reader that is not left after all, but returned to, reads
// plainly.
using LeaveChannel = void();

// Makes reads of this descriptor go to `reader` as long as it is the same file.
using OfferChannelReader = void(int fd, ChannelReader* reader, LeaveChannel* leave);
inline constexpr const char* kOfferChannelReader = "verbena_offer_channel_reader";

}  // namespace verbena::control
