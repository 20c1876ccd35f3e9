// SPDX-License-Identifier: BSD-2-Clause
// Where the memory of regions and bound windows is in this process, so that code that learns of
// unmapped memory finds the slots that it concerns. A search tree by first byte, balanced by random
// priorities; each node knows the last byte below it. A node belongs to one slot forever.
//
// The tree has its own lock, which is held only for a walk down the tree, or for the moment in
// which a slot's pins end. Allocators unmap memory while they hold locks, so nothing is allocated
// under the lock and no other lock is taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "verbena/base/lock.hpp"
#include "verbena/base/random.hpp"
#include "verbena/memory/registry.hpp"

namespace verbena::memory {

// The range [begin, end) of the process's addresses.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool touches(const Span& other) const { return begin < other.end && other.begin < end; }
};

// The parts of a slot's memory that were taken away.
class Holes {
 public:
  // Makes room for as many holes as memory of this length may have, one for each 16 pages, from 4
  // to 1,024. Nothing else allocates. Without memory for it there is as much room as before.
  void make_room_for(std::uint64_t length) noexcept;
  bool is_empty() const { return count_ == 0; }
  bool touch(const Span& span) const;
  // Adds a hole. `by` says how it was made (text that lives forever). If there is no room, the two
  // nearest become one, with everything between them.
  void add(const Span& hole, const char* by);
  // Adds the holes of another slot's memory that lie within `span`.
  void add_all(const Holes& others, const Span& span);
  void clear() { count_ = 0; }
  // Returns how the first hole was made. Memory that was mapped there since may have been taken
  // away by other calls.
  const char* by() const { return by_; }

 private:
  static constexpr std::size_t kFew = 4;
  std::span<Span> used() { return {many_ ? many_.get() : few_.data(), count_}; }
  std::span<const Span> used() const { return {many_ ? many_.get() : few_.data(), count_}; }

  std::array<Span, kFew + 1> few_;
  std::unique_ptr<Span[]> many_;  // has room for most_ + 1, if there is more than few_ holds
  std::size_t most_ = kFew;
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
    std::uint64_t furthest = 0;  // the greatest end of this node and all below
    std::uint64_t priority = 0;
    bool is_in = false;
  };

  // Inserts a node whose length is not 0. `like` is null or a node that contains it, whose holes it
  // gets.
  void insert(Node& node, const Node* like);
  // Removes a node, if it is in the tree.
  void remove(Node& node);
  // Takes all memory of the node away, whether or not it is in the tree.
  void tear(Node& node, const char* by);
  // Says whether no part of this range of the node was taken away.
  bool is_whole(const Node& node, const Span& span);
  // Returns how the node's memory was taken away.
  const char* taken_by(const Node& node);

  // How many times code that learns of unmapped memory looks for a free lock or gate before it goes
  // on: tens of milliseconds.
  static constexpr std::uint32_t kLooks = 1u << 20;
  // Says whether some node may touch this range. Needs no lock.
  bool may_touch(const Span& span) const noexcept {
    return span.begin < last_.read() && first_.read() < span.end;
  }
  // Calls `visit(node)` for each node that touches the range. Does nothing if other threads hold
  // the lock for too long: a signal handler that unmaps memory may have interrupted one of them.
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
  // The bounds of all nodes.
  Published<std::uint64_t> first_{~std::uint64_t{0}};
  Published<std::uint64_t> last_{0};
};

}  // namespace verbena::memory
