// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/uverbs_request.hpp"

#include <rdma/ib_user_ioctl_cmds.h>

#include <cerrno>
#include <cstring>

#include "verbena/preload/load.hpp"

namespace verbena::preload {
namespace {

constexpr std::size_t kWriteHeaderSize = 8;

struct Attribute {
  std::size_t position = 0;
  std::uint16_t length = 0;
  std::uint64_t data = 0;
};

// The attributes that follow a checked header.
class Attributes {
 public:
  explicit Attributes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::optional<Attribute> find(std::uint16_t id) const {
    for (std::size_t at = kIoctlHeaderSize, i = 0; at + kIoctlAttributeSize <= bytes_.size();
         at += kIoctlAttributeSize, ++i) {
      if (load<std::uint16_t>(bytes_, at) != id) continue;
      return Attribute{i, load<std::uint16_t>(bytes_, at + 2), load<std::uint64_t>(bytes_, at + 8)};
    }
    return std::nullopt;
  }

  // Returns an integer, which travels in the attribute itself if it has at most eight bytes.
  // Versions of rdma-core differ in its width.
  std::optional<std::uint64_t> integer(std::uint16_t id) const {
    const auto attribute = find(id);
    if (!attribute || attribute->length > 8) return std::nullopt;
    return attribute->length == 4 ? attribute->data & 0xffffffffu : attribute->data;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

UverbsRequest refuse(int code) { return RefusedRequest{code}; }

// Parses a write command that travels by ioctl: one attribute has the command, another the
// response.
UverbsRequest parse_invoked_write(const Attributes& attributes) {
  const auto command = attributes.find(UVERBS_ATTR_WRITE_CMD);
  if (!command || static_cast<std::uint32_t>(command->data) != kCommandCreateCompChannel) {
    return refuse(EPROTONOSUPPORT);
  }
  const auto out = attributes.find(UVERBS_ATTR_CORE_OUT);
  if (!out) return refuse(EINVAL);
  if (out->length < sizeof(std::uint32_t)) return refuse(ENOSPC);
  return CreateCompChannel{out->data};
}

UverbsRequest parse_query_gid_entry(const Attributes& attributes) {
  const auto port = attributes.integer(UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
  const auto index = attributes.integer(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
  const auto flags = attributes.integer(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS);
  const auto response = attributes.find(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY);
  if (!port || !index || !response) return refuse(EINVAL);
  if (response->length < kGidEntrySize) return refuse(ENOSPC);
  return QueryGidEntry{static_cast<std::uint32_t>(*port), *index, flags.value_or(0), response->data,
                       response->position};
}

UverbsRequest parse_query_gid_table(const Attributes& attributes) {
  const auto entry_size = attributes.integer(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
  const auto flags = attributes.integer(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS);
  const auto entries = attributes.find(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
  const auto count = attributes.find(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES);
  if (!entry_size || *entry_size == 0 || !entries || !count) return refuse(EINVAL);
  if (entries->length % *entry_size != 0) return refuse(EINVAL);
  if (count->length < sizeof(std::uint64_t)) return refuse(ENOSPC);
  return QueryGidTable{
      *entry_size, flags.value_or(0), entries->data,  entries->length / *entry_size,
      count->data, entries->position, count->position};
}

UverbsRequest parse_device_method(std::uint16_t method, const Attributes& attributes) {
  switch (method) {
    case UVERBS_METHOD_INVOKE_WRITE:
      return parse_invoked_write(attributes);
    case UVERBS_METHOD_QUERY_GID_ENTRY:
      return parse_query_gid_entry(attributes);
    case UVERBS_METHOD_QUERY_GID_TABLE:
      return parse_query_gid_table(attributes);
    default:
      return refuse(EPROTONOSUPPORT);
  }
}

}  // namespace

UverbsRequest parse_uverbs_write(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kWriteHeaderSize) return refuse(EINVAL);
  const auto command = load<std::uint32_t>(bytes, 0);
  if (command == kCommandAreYouThere) return AreYouThere{};
  if (command != kCommandCreateCompChannel) return refuse(EOPNOTSUPP);
  // The lengths are in words of four bytes and count the header (in) and the response (out).
  const std::size_t in_bytes = std::size_t{load<std::uint16_t>(bytes, 4)} * 4;
  const std::size_t out_bytes = std::size_t{load<std::uint16_t>(bytes, 6)} * 4;
  if (in_bytes != bytes.size()) return refuse(EINVAL);
  if (bytes.size() < kWriteHeaderSize + sizeof(std::uint64_t)) return refuse(EINVAL);
  if (out_bytes < sizeof(std::uint32_t)) return refuse(ENOSPC);
  return CreateCompChannel{load<std::uint64_t>(bytes, kWriteHeaderSize)};
}

std::optional<std::size_t> uverbs_ioctl_length(std::span<const std::uint8_t> header) {
  if (header.size() < kIoctlHeaderSize) return std::nullopt;
  const std::size_t length = load<std::uint16_t>(header, 0);
  const std::size_t attributes = load<std::uint16_t>(header, 6);
  if (length != kIoctlHeaderSize + attributes * kIoctlAttributeSize) return std::nullopt;
  return length;
}

UverbsRequest parse_uverbs_ioctl(std::span<const std::uint8_t> bytes) {
  const auto length = uverbs_ioctl_length(bytes);
  if (!length || *length > bytes.size()) return refuse(EINVAL);
  if (load<std::uint64_t>(bytes, 8) != 0 || load<std::uint32_t>(bytes, 20) != 0) {
    return refuse(EPROTONOSUPPORT);  // fields of a future header
  }
  const Attributes attributes(bytes.first(*length));
  const auto object = load<std::uint16_t>(bytes, 2);
  const auto method = load<std::uint16_t>(bytes, 4);
  if (object == UVERBS_OBJECT_DEVICE) return parse_device_method(method, attributes);
  if (object == UVERBS_OBJECT_ASYNC_EVENT && method == UVERBS_METHOD_ASYNC_EVENT_ALLOC) {
    const auto handle = attributes.find(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
    if (!handle) return refuse(EINVAL);
    return AllocateAsyncEvents{handle->position};
  }
  return refuse(EPROTONOSUPPORT);
}

}  // namespace verbena::preload
