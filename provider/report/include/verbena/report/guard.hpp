// SPDX-License-Identifier: BSD-2-Clause
// The border to C: exceptions become errno, and errno keeps its value on success.
//
//   convention         verbs                                           here
//   pointer, errno     everything that creates                         pointer_or_errno
//   returned errno     destroy, modify, query                          errno_of
//   count              poll_cq                                         cannot fail
//   *bad_wr and errno  post_send, post_recv, post_srq_recv             cannot throw
#pragma once

#include <cerrno>
#include <new>
#include <utility>

#include "verbena/link/uncancelled.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/thread_guard.hpp"

namespace verbena::provider {

// A verb is no cancellation point, although it speaks to the daemon, as does the first post to a
// peer.
using link::Uncancelled;

template <typename F>
int errno_of(F&& body) noexcept {
  const Uncancelled uncancelled;
  const int saved = errno;
  note_thread();
  int error = 0;
  try {
    std::forward<F>(body)();
  } catch (const VerbRefused& refused) {
    error = refused.error;
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  } catch (...) {
    error = EIO;
  }
  errno = error != 0 ? error : saved;
  return error;
}

template <typename F>
auto pointer_or_errno(F&& body) noexcept -> decltype(body()) {
  decltype(body()) result = nullptr;
  if (errno_of([&] { result = body(); }) != 0) return nullptr;
  return result;
}

}  // namespace verbena::provider
