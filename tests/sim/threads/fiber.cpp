// SPDX-License-Identifier: BSD-2-Clause
#include "fiber.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define VERBENA_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define VERBENA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VERBENA_ASAN 1
#elif __has_feature(thread_sanitizer)
#define VERBENA_TSAN 1
#endif
#endif

#if defined(VERBENA_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(VERBENA_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace verbena::threads {
namespace {

constexpr std::size_t kStack = 128 * 1024;

// Stacks of ended fibers. Making a new stack costs more than many scenes do.
std::vector<std::unique_ptr<std::byte[]>>& old_stacks() {
  static std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

std::unique_ptr<std::byte[]> take_stack() {
  auto& stacks = old_stacks();
  if (stacks.empty()) return std::unique_ptr<std::byte[]>(new std::byte[kStack]);
  auto stack = std::move(stacks.back());
  stacks.pop_back();
  return stack;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  ::getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStack;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::begin), 2,
                static_cast<unsigned>(std::uint64_t{self} >> 32), static_cast<unsigned>(self));
#if defined(VERBENA_TSAN)
  tsan_inside_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(VERBENA_TSAN)
  __tsan_destroy_fiber(tsan_inside_);
#endif
  old_stacks().push_back(std::move(stack_));
}

void Fiber::begin(unsigned upper, unsigned lower) {
  auto* self =
      reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>((std::uint64_t{upper} << 32) | lower));
#if defined(VERBENA_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_size_);
#endif
  self->body_();
  self->has_ended_ = true;
  self->pause();
}

void Fiber::resume() {
#if defined(VERBENA_TSAN)
  tsan_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
#if defined(VERBENA_ASAN)
  void* own_fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&own_fake_stack, stack_.get(), kStack);
#endif
  ::swapcontext(&outside_, &inside_);
#if defined(VERBENA_ASAN)
  __sanitizer_finish_switch_fiber(own_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::pause() {
#if defined(VERBENA_TSAN)
  __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
#if defined(VERBENA_ASAN)
  __sanitizer_start_switch_fiber(has_ended_ ? nullptr : &fake_stack_, outside_stack_,
                                 outside_size_);
#endif
  ::swapcontext(&inside_, &outside_);
#if defined(VERBENA_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack_, &outside_stack_, &outside_size_);
#endif
}

}  // namespace verbena::threads
