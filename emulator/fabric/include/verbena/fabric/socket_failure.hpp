// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "verbena/control/error.hpp"
#include "verbena/link/socket_error.hpp"

namespace verbena::fabric {

// A socket that could not be had, as a client is told.
inline Failure<control::Error> failure_of(const link::SocketError& error) {
  return control::fail(error.error, error.text);
}

}  // namespace verbena::fabric
