// SPDX-License-Identifier: BSD-2-Clause
#include "ranges.hpp"

#include <algorithm>

#include "table.hpp"

namespace verbena::memory {

bool Holes::touch(const Span& span) const {
  return std::any_of(holes_.begin(), holes_.begin() + count_,
                     [&](const Span& hole) { return hole.touches(span); });
}

void Holes::add(const Span& hole, const char* by) {
  if (is_empty()) by_ = by;
  Span all = hole;
  // Joins the hole with every hole that it overlaps or meets, and repeats this with the result.
  for (std::size_t i = 0; i < count_;) {
    const Span& other = holes_[i];
    if (other.begin > all.end || all.begin > other.end) {
      ++i;
      continue;
    }
    all = {std::min(all.begin, other.begin), std::max(all.end, other.end)};
    holes_[i] = holes_[--count_];
    i = 0;
  }
  holes_[count_++] = all;
  if (count_ <= kMost) return;
  const auto used = holes_.begin() + count_;
  std::sort(holes_.begin(), used, [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::size_t nearest = 0;
  const auto gap = [this](std::size_t i) { return holes_[i + 1].begin - holes_[i].end; };
  for (std::size_t i = 1; i + 1 < count_; ++i) {
    if (gap(i) < gap(nearest)) nearest = i;
  }
  holes_[nearest].end = holes_[nearest + 1].end;
  std::copy(holes_.begin() + nearest + 2, used, holes_.begin() + nearest + 1);
  --count_;
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
  const Guard guard(lock_);
  if (like != nullptr) node.holes = like->holes;
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
