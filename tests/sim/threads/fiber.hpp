// SPDX-License-Identifier: BSD-2-Clause
// A function with a stack of its own, which runs from resume() until it pauses. All fibers of a
// test share its one real thread, so no two of them ever run at once.
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

  // Called from outside. Returns when the fiber pauses or has ended.
  void resume();
  // Called from inside the fiber.
  void pause();
  bool has_ended() const { return has_ended_; }

 private:
  static void begin(unsigned upper, unsigned lower);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  bool has_ended_ = false;
  // What sanitizers need to know; unused without one.
  [[maybe_unused]] void* tsan_inside_ = nullptr;
  [[maybe_unused]] void* tsan_outside_ = nullptr;
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* outside_stack_ = nullptr;
  [[maybe_unused]] std::size_t outside_size_ = 0;
};

}  // namespace verbena::threads
