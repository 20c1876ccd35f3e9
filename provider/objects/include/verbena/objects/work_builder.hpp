// SPDX-License-Identifier: BSD-2-Clause
// Requests that a program builds with ibv_wr_*: they collect here from ibv_wr_start on, and
// ibv_wr_complete posts them together. Each queue pair has one builder. From start to complete or
// abort it belongs to the thread that started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::provider {

class WorkBuilder {
 public:
  void start() noexcept {
    lock_.lock();
    clear();
  }
  void finish() noexcept { lock_.unlock(); }

  // Adds a request and returns it, or null if there is no memory (which is remembered).
  queue::SendRequest* add() noexcept;
  // These set parts of the request that was added last.
  void set_sges(const queue::Sge* sges, std::size_t count) noexcept;
  void begin_inline() noexcept;
  void add_inline(const void* bytes, std::size_t length) noexcept;
  void set_address(const queue::AddressVector& address) noexcept;
  queue::SendRequest* last() noexcept {
    return pending_.empty() ? nullptr : &pending_.back().request;
  }
  void fail(int error) noexcept {
    if (error_ == 0) error_ = error;
  }

  int error() const noexcept { return error_; }
  std::size_t size() const noexcept { return pending_.size(); }
  // Calls `post` for each request, with its pointers filled in, until it returns an errno other
  // than 0.
  template <typename F>
  int for_each(F&& post) noexcept {
    for (Pending& p : pending_) {
      queue::Sge whole{reinterpret_cast<std::uintptr_t>(bytes_.data() + p.inline_begin),
                       p.inline_length, 0};
      p.request.sges = (p.request.flags & queue::kInline) != 0
                           ? std::span<const queue::Sge>(&whole, 1)
                           : std::span<const queue::Sge>(sges_.data() + p.sge_begin, p.sge_count);
      if (p.has_address) p.request.address = &addresses_[p.address];
      if (const int error = post(p.request); error != 0) return error;
    }
    return 0;
  }

 private:
  struct Pending {
    queue::SendRequest request;
    std::uint32_t sge_begin = 0;
    std::uint32_t sge_count = 0;
    std::uint32_t inline_begin = 0;
    std::uint32_t inline_length = 0;
    std::uint32_t address = 0;
    bool has_address = false;
  };
  void clear() noexcept;

  Lock lock_;
  int error_ = 0;
  std::vector<Pending> pending_;
  std::vector<queue::Sge> sges_;
  std::vector<std::byte> bytes_;
  std::vector<queue::AddressVector> addresses_;
};

}  // namespace verbena::provider
