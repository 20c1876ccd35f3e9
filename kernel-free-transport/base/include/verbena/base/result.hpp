// SPDX-License-Identifier: BSD-2-Clause
// Either a value or the reason why there is none. C++20 has no std::expected yet.
#pragma once

#include <utility>
#include <variant>

#include "verbena/base/check.hpp"

namespace verbena {

template <typename E>
struct Failure {
  E error;
};
template <typename E>
Failure(E) -> Failure<E>;

template <typename T, typename E>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure<E> failure) : state_(std::in_place_index<1>, std::move(failure.error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    VERBENA_CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    VERBENA_CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    VERBENA_CHECK(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  const E& error() const {
    VERBENA_CHECK(!ok());
    return *std::get_if<1>(&state_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, E> state_;
};

}  // namespace verbena
