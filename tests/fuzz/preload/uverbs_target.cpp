// SPDX-License-Identifier: BSD-2-Clause
// What a program writes to an uverbs descriptor (even first byte), or gives to ioctl (odd first
// byte). An accepted request names existing attributes, and asks for no more room than it has.
#include <cstddef>
#include <cstdint>

#include "verbena/base/check.hpp"
#include "verbena/preload/uverbs_request.hpp"

namespace {

using namespace verbena::preload;

struct Judge {
  std::size_t attributes;  // how many the request has

  void operator()(const RefusedRequest& r) const { VERBENA_CHECK(r.code > 0); }
  void operator()(const AreYouThere&) const {}
  void operator()(const CreateCompChannel&) const {}
  void operator()(const AllocateAsyncEvents& r) const { VERBENA_CHECK(r.attribute < attributes); }
  void operator()(const QueryGidEntry& r) const {
    VERBENA_CHECK(r.response_attribute < attributes);
  }
  void operator()(const QueryGidTable& r) const {
    VERBENA_CHECK(r.entries_attribute < attributes && r.count_attribute < attributes);
    VERBENA_CHECK(r.entry_size > 0 && r.max_entries <= 0xffff / r.entry_size);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    std::visit(Judge{0}, parse_uverbs_write(bytes));
    return 0;
  }
  const auto length = uverbs_ioctl_length(bytes);
  const std::size_t attributes = length ? (*length - kIoctlHeaderSize) / kIoctlAttributeSize : 0;
  std::visit(Judge{attributes}, parse_uverbs_ioctl(bytes));
  return 0;
}
