// SPDX-License-Identifier: BSD-2-Clause
// Why a socket could not be opened: the errno, and a sentence for people that says what to do.
#pragma once

#include <string>

namespace verbena::link {

struct SocketError {
  int error = 0;  // errno
  std::string text;
};

}  // namespace verbena::link
