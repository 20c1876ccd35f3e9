// Descriptors that a thread sleeps on again and again. The kernel keeps them, so that to fall
// asleep takes one look at what was readable last, and not one at each of them. Owned by a
// completion channel; made and slept on by the thread that attends.
#pragma once

#include <initializer_list>

#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

class WaitSet {
 public:
  struct Member {
    int fd;                // negative: none
    bool by_edge = false;  // reported each time it becomes readable, not as long as it is
  };
  explicit operator bool() const noexcept { return static_cast<bool>(set_); }
  // False: no descriptor is left for it.
  bool make(std::initializer_list<Member> members) noexcept;
  // For epoll_wait, which reports members by their numbers.
  int fd() const noexcept { return set_.get(); }

 private:
  control::UniqueFd set_;
};

}  // namespace verbena::provider
