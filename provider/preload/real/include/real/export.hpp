// SPDX-License-Identifier: BSD-2-Clause
// A wrapper is a C function that takes the place of the C library's. preload.map lists all of them;
// a function that is not listed there is not exported.
#pragma once

#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))
// Follows the declaration of another name of a wrapper, which must be in the same file.
#define VERBENA_ALIAS_OF(wrapper) __attribute__((alias(#wrapper)))

// A frame in which a thread may be cancelled must have nothing to clean up, not even what TSan
// would add: this library contains its own unwinder, which takes no part in the cancellation.
#define VERBENA_NOTHING_TO_CLEAN_UP __attribute__((no_sanitize("thread")))

// Wrappers are defined with the names and the exact types of the C library's headers. A fortified
// build would turn these names into macros.
#if defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0
#error "the preload library is built without _FORTIFY_SOURCE"
#endif
