// SPDX-License-Identifier: BSD-2-Clause
// What a failed control call returns: an errno for the C side and one line for people. The line
// says what to do where something can be done.
#pragma once

#include <string>
#include <utility>

#include "verbena/base/result.hpp"

namespace verbena::control {

struct Error {
  int code = 0;
  std::string text;
};

template <typename T>
using Outcome = Result<T, Error>;

inline Failure<Error> fail(int code, std::string text) {
  return Failure<Error>{Error{code, std::move(text)}};
}

struct Done {};

}  // namespace verbena::control
