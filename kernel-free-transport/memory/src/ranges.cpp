// SPDX-License-Identifier: BSD-2-Clause
#include "ranges.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "table.hpp"

namespace verbena::memory {

void Holes::make_room_for(std::uint64_t length) noexcept {
  constexpr std::uint64_t kBytesOfOne = 16 * 4096;
  constexpr std::uint64_t kMany = 1024;
  const auto most = static_cast<std::size_t>(std::min(length / kBytesOfOne, kMany));
  if (most <= most_) return;
  std::unique_ptr<Span[]> room(new (std::nothrow) Span[most + 1]);
  if (!room) return;
  std::ranges::copy(used(), room.get());
  many_ = std::move(room);
  most_ = most;
}

bool Holes::touch(const Span& span) const {
  return std::ranges::any_of(used(), [&](const Span& hole) { return hole.touches(span); });
}

void Holes::add(const Span& hole, const char* by) {
  if (is_empty()) by_ = by;
  Span all = hole;
  // Joins the hole with every hole that it overlaps or meets, and repeats this with the result.
  for (std::size_t i = 0; i < count_;) {
    Span& other = used()[i];
    if (other.begin > all.end || all.begin > other.end) {
      ++i;
      continue;
    }
    all = {std::min(all.begin, other.begin), std::max(all.end, other.end)};
    other = used().back();
    --count_;
    i = 0;
  }
  ++count_;
  used().back() = all;
  if (count_ <= most_) return;
  const std::span<Span> holes = used();
  std::ranges::sort(holes, {}, &Span::begin);
  std::size_t nearest = 0;
  const auto gap = [&](std::size_t i) { return holes[i + 1].begin - holes[i].end; };
  for (std::size_t i = 1; i + 1 < count_; ++i) {
    if (gap(i) < gap(nearest)) nearest = i;
  }
  holes[nearest].end = holes[nearest + 1].end;
  std::ranges::copy(holes.subspan(nearest + 2),
                    holes.begin() + static_cast<std::ptrdiff_t>(nearest) + 1);
  --count_;
}

void Holes::add_all(const Holes& others, const Span& span) {
  for (const Span& hole : others.used()) {
    if (hole.touches(span)) add(hole, others.by_);
  }
}

bool Ranges::is_before(const Node& a, const Node& b) {
  return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : &a < &b;
}

void Ranges::look_below(Node& node) {
  node.furthest = node.span.end;
  if (node.left != nullptr) node.furthest = std::max(node.furthest, node.left->furthest);
  if (node.right != nullptr) node.furthest = std::max(node.furthest, node.right->furthest);
}

void Ranges::split(Node* tree, const Node& at, Node*& before, Node*& behind) {
  if (tree == nullptr) {
    before = behind = nullptr;
    return;
  }
  if (is_before(*tree, at)) {
    split(tree->right, at, tree->right, behind);
    before = tree;
  } else {
    split(tree->left, at, before, tree->left);
    behind = tree;
  }
  look_below(*tree);
}

Ranges::Node* Ranges::join(Node* before, Node* behind) {
  if (before == nullptr) return behind;
  if (behind == nullptr) return before;
  if (before->priority > behind->priority) {
    before->right = join(before->right, behind);
    look_below(*before);
    return before;
  }
  behind->left = join(before, behind->left);
  look_below(*behind);
  return behind;
}

Ranges::Node* Ranges::without(Node* tree, Node& node) {
  if (tree == nullptr) return nullptr;
  if (tree == &node) return join(node.left, node.right);
  Node*& side = is_before(node, *tree) ? tree->left : tree->right;
  side = without(side, node);
  look_below(*tree);
  return tree;
}

void Ranges::note_bounds() {
  const Node* first = root_;
  while (first != nullptr && first->left != nullptr) first = first->left;
  first_.publish(first != nullptr ? first->span.begin : ~std::uint64_t{0});
  last_.publish(root_ != nullptr ? root_->furthest : 0);
}

void Ranges::insert(Node& node, const Node* like) {
  node.holes.make_room_for(node.span.end - node.span.begin);
  const Guard guard(lock_);
  if (like != nullptr && like != &node) node.holes.add_all(like->holes, node.span);
  if (!node.holes.is_empty()) node.slot->reach.publish(Reach::kTorn);
  node.priority = random_.next();
  node.left = node.right = nullptr;
  look_below(node);
  node.is_in = true;
  Node* before = nullptr;
  Node* behind = nullptr;
  split(root_, node, before, behind);
  root_ = join(join(before, &node), behind);
  note_bounds();
}

void Ranges::remove(Node& node) {
  const Guard guard(lock_);
  if (!node.is_in) return;
  root_ = without(root_, node);
  node.is_in = false;
  note_bounds();
}

void Ranges::tear(Node& node, const char* by) {
  const Guard guard(lock_);
  node.holes.add({0, ~std::uint64_t{0}}, by);
}

bool Ranges::is_whole(const Node& node, const Span& span) {
  const Guard guard(lock_);
  return !node.holes.touch(span);
}

const char* Ranges::taken_by(const Node& node) {
  const Guard guard(lock_);
  return node.holes.by();
}

}  // namespace verbena::memory
