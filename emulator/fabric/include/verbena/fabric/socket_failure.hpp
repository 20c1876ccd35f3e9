// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "verbena/control/error.hpp"
#include "verbena/link/socket_error.hpp"

namespace verbena::fabric {

// Makes the error that a client gets if a socket could not be opened.
inline Failure<control::Error> failure_of(const link::SocketError& error) {
  return control::fail(error.error, error.text);
}

}  // namespace verbena::fabric
