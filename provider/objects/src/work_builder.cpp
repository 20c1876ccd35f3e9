// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/work_builder.hpp"

#include <cerrno>
#include <new>

#include "verbena/base/guarded_copy.hpp"

namespace verbena::provider {

void WorkBuilder::clear() noexcept {
  error_ = 0;
  pending_.clear();
  sges_.clear();
  bytes_.clear();
  addresses_.clear();
}

queue::SendRequest* WorkBuilder::add() noexcept {
  try {
    return &pending_.emplace_back().request;
  } catch (const std::bad_alloc&) {
    fail(ENOMEM);
    return nullptr;
  }
}

void WorkBuilder::set_sges(const queue::Sge* sges, std::size_t count) noexcept {
  if (pending_.empty()) return fail(EINVAL);
  Pending& p = pending_.back();
  try {
    p.sge_begin = static_cast<std::uint32_t>(sges_.size());
    p.sge_count = static_cast<std::uint32_t>(count);
    sges_.insert(sges_.end(), sges, sges + count);
  } catch (const std::bad_alloc&) {
    fail(ENOMEM);
  }
}

void WorkBuilder::begin_inline() noexcept {
  if (pending_.empty()) return fail(EINVAL);
  Pending& p = pending_.back();
  p.request.flags |= queue::kInline;
  p.inline_begin = static_cast<std::uint32_t>(bytes_.size());
  p.inline_length = 0;
}

void WorkBuilder::add_inline(const void* bytes, std::size_t length) noexcept {
  if (pending_.empty() || (bytes == nullptr && length != 0)) return fail(EINVAL);
  Pending& p = pending_.back();
  try {
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + length);
    if (!guarded_copy(bytes_.data() + begin, bytes, length)) return fail(EFAULT);
    p.inline_length += static_cast<std::uint32_t>(length);
  } catch (const std::bad_alloc&) {
    fail(ENOMEM);
  }
}

void WorkBuilder::set_address(const queue::AddressVector& address) noexcept {
  if (pending_.empty()) return fail(EINVAL);
  Pending& p = pending_.back();
  try {
    p.address = static_cast<std::uint32_t>(addresses_.size());
    addresses_.push_back(address);
    p.has_address = true;
  } catch (const std::bad_alloc&) {
    fail(ENOMEM);
  }
}

}  // namespace verbena::provider
