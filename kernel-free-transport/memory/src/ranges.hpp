// SPDX-License-Identifier: BSD-2-Clause
// Where the memory of regions and bound windows lies in this process, so that whoever hears that a
// piece of it was unmapped finds what that concerns. A search tree by first byte, whose nodes know
// the last byte below them, balanced by random priorities; a node belongs to a slot for ever.
//
// It has a lock of its own, which nobody holds for longer than a walk down the tree, or while a
// slot is drained of its pins for a moment: memory is unmapped by allocators that hold locks, too,
// so nothing is allocated here, and no other lock taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "verbena/base/lock.hpp"
#include "verbena/base/random.hpp"
#include "verbena/memory/registry.hpp"

namespace verbena::memory {

// [begin, end) of the process's addresses.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool touches(const Span& other) const { return begin < other.end && other.begin < end; }
};

// What was taken away of a slot's memory.
class Holes {
 public:
  bool is_empty() const { return count_ == 0; }
  bool touch(const Span& span) const;
  // `by`: how, in words that last. Where there are too many, the two that are nearest to each other
  // become one, with all in between.
  void add(const Span& hole, const char* by);
  void clear() { count_ = 0; }
  // How the first of it was. What comes to lie there may be taken away again, by other calls.
  const char* by() const { return by_; }

 private:
  static constexpr std::size_t kMost = 4;
  std::array<Span, kMost + 1> holes_;
  std::size_t count_ = 0;
  const char* by_ = "";
};

class Ranges {
 public:
  struct Node {
    Span span;
    Holes holes;
    Registry::Slot* slot = nullptr;

   private:
    friend class Ranges;
    Node* left = nullptr;
    Node* right = nullptr;
    std::uint64_t furthest = 0;  // end, of this one and all below
    std::uint64_t priority = 0;
    bool is_in = false;
  };

  // Of a length that is not 0. `like`: null, or one that it lies in, whose holes it has, too.
  void insert(Node& node, const Node* like);
  // No matter whether it is in.
  void remove(Node& node);
  // Takes all of it away. No matter whether it is in.
  void tear(Node& node, const char* by);
  // Whether nothing was taken away of this part of the node's.
  bool is_whole(const Node& node, const Span& span);
  // How a part of it was taken away.
  const char* taken_by(const Node& node);

  // For how long whoever hears of unmapped memory waits for others: tens of milliseconds.
  static constexpr std::uint32_t kLooks = 1u << 20;
  // Whether it may be that some node touches this. Without the lock.
  bool may_touch(const Span& span) const noexcept {
    return span.begin < last_.read() && first_.read() < span.end;
  }
  // `visit(node)` for each that does. Does nothing if others have the lock for too long: who unmaps
  // memory in a signal handler may have interrupted one of them.
  template <typename F>
  void for_each(const Span& span, F&& visit) {
    if (!lock_.lock_within(kLooks)) return;
    walk(root_, span, visit);
    lock_.unlock();
  }

 private:
  template <typename F>
  static void walk(Node* node, const Span& span, F& visit) {
    while (node != nullptr && node->furthest > span.begin) {
      walk(node->left, span, visit);
      if (node->span.begin >= span.end) return;
      if (node->span.end > span.begin) visit(*node);
      node = node->right;
    }
  }
  static bool is_before(const Node& a, const Node& b);
  static void look_below(Node& node);
  static void split(Node* tree, const Node& at, Node*& before, Node*& behind);
  static Node* join(Node* before, Node* behind);
  static Node* without(Node* tree, Node& node);
  void note_bounds();

  Lock lock_;
  Node* root_ = nullptr;
  Random random_{1};
  // Of all nodes.
  Published<std::uint64_t> first_{~std::uint64_t{0}};
  Published<std::uint64_t> last_{0};
};

}  // namespace verbena::memory
