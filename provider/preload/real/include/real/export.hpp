// SPDX-License-Identifier: BSD-2-Clause
// A wrapper is a C function that takes the place of the C library's. preload.map lists them all
// once more; what is missing there stays inside.
#pragma once

#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))

// A frame that a thread may be cancelled in has nothing to clean up, not even what TSan would add:
// we bring an unwinder of our own, which has no say in that.
#define VERBENA_NOTHING_TO_CLEAN_UP __attribute__((no_sanitize("thread")))

// Wrappers are defined with the names and the exact types of the C library's headers; a fortified
// build would turn those names into macros.
#if defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0
#error "the preload library is built without _FORTIFY_SOURCE"
#endif
