// SPDX-License-Identifier: BSD-2-Clause
// Objects that cross a border between processes: what this context has made and another process
// imports, and what it imports itself (ibv_import_device of a descriptor that came from another
// process). The daemon carries the question; the bytes themselves are reached through the kernel
// (foreign_memory.hpp).
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbena/context/context.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

// For the importer, who could open it only where the kernel lets it look into other processes.
control::UniqueFd own_memory(control::Exported& reply) {
  const int fd = link::open_file("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (fd >= 0) return control::UniqueFd(fd);
  reply.code = static_cast<std::uint32_t>(-fd);
  reply.text = std::string("its owner cannot open /proc/self/mem: ") + std::strerror(-fd);
  return {};
}

}  // namespace

// Under control_lock_, as all that handles messages.
void Context::handle_export_query(const control::ExportQuery& query) {
  control::Exported reply;
  reply.ticket = query.ticket;
  reply.code = ENOENT;
  reply.text = "its context has no such object";
  control::UniqueFd memory;
  if (query.kind == control::ObjectKind::kDomain) {
    exports_.domains.with(query.number, [&](Pd* pd) {
      if (pd != nullptr) reply.code = 0;
    });
    reply.object.domain = query.number;
  } else if (query.kind == control::ObjectKind::kRegion) {
    exports_.regions.with(query.number, [&](Mr* mr) {
      if (mr == nullptr || mr->foreign || mr->mr.type != abi::kMrOrdinary) return;
      reply.code = 0;
      reply.object.domain = mr->domain->domain;
      reply.object.address = mr->host_address;
      reply.object.length = std::min<std::uint64_t>(mr->mr.mr.length, UserMemory::kUserSpaceEnd);
      reply.object.base = mr->base;
      reply.object.access = static_cast<std::uint32_t>(mr->mr.access);
    });
    if (reply.code == 0) memory = own_memory(reply);
  }
  if (reply.code == 0) reply.text.clear();
  const int fds[] = {memory.get()};
  (void)control::send_packet(channel_.fd(), control::encode(reply, 0),
                             std::span(fds).first(memory ? 1 : 0), MSG_DONTWAIT);
}

control::ExportedObject Context::ask_owner(const char* verb, control::ObjectKind kind,
                                           std::uint32_t number) {
  const std::lock_guard guard(control_lock_);
  // libibverbs has made a channel for events of its own, after this context was made.
  if (own_async_fd_ < 0 && public_context_->async_fd != async_.read_end()) {
    own_async_fd_ = async_.read_end();
    async_.open(public_context_->async_fd);
    ::close(own_async_fd_);
  }
  std::array<control::UniqueFd, control::kMaxFds> fds;
  const auto reply = channel_.call<control::Imported>(
      control::Import{owner_, kind, number}, control::kDefaultTimeoutMs, &fds,
      [this](control::Incoming&& message) { handle_message(std::move(message)); });
  if (!reply)
    refuse(reply.error().code, "%s: number %u: %s", verb, number, reply.error().text.c_str());
  if (fds[0]) memory_.foreign().adopt(std::move(fds[0]));
  return reply->object;
}

memory::DomainId Context::domain_of_owner(std::uint32_t number) {
  const std::lock_guard guard(lock_);
  const auto [known, is_new] = owner_domains_.try_emplace(number, 0);
  if (is_new) known->second = next_domain();
  return known->second;
}

}  // namespace verbena::provider
