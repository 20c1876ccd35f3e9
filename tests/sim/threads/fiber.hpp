// SPDX-License-Identifier: BSD-2-Clause
// A function with a stack of its own, which runs when somebody resumes it and until it pauses. All
// fibers of a test are on its one real thread, so nothing ever runs beside anything else.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace verbena::threads {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // From outside: returns when it pauses or has ended.
  void resume();
  // From inside.
  void pause();
  bool has_ended() const { return has_ended_; }

 private:
  static void begin(unsigned upper, unsigned lower);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  bool has_ended_ = false;
  // What sanitizers want to know; nobody reads it without one.
  [[maybe_unused]] void* tsan_inside_ = nullptr;
  [[maybe_unused]] void* tsan_outside_ = nullptr;
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* outside_stack_ = nullptr;
  [[maybe_unused]] std::size_t outside_size_ = 0;
};

}  // namespace verbena::threads
