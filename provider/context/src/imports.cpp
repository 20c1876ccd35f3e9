// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/imports.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

#include "verbena/context/context.hpp"
#include "verbena/control/import_messages.hpp"
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

void Imports::set_owner(std::string name) {
  owner_ = std::move(name);
  context_.device().memory().leave_lower_keys();
}

void Imports::on_query(const control::ExportQuery& query) {
  control::Exported reply;
  reply.ticket = query.ticket;
  reply.code = ENOENT;
  reply.text = "its context has no such object";
  control::UniqueFd memory;
  if (query.kind == control::ObjectKind::kDomain) {
    context_.exports().domains.with(query.number, [&](Pd* pd) {
      if (pd != nullptr) reply.code = 0;
    });
    reply.object.domain = query.number;
  } else if (query.kind == control::ObjectKind::kRegion) {
    context_.exports().regions.with(query.number, [&](Mr* mr) {
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
  context_.first().client().tell(reply, 0, std::span(fds).first(memory ? 1 : 0));
}

control::ExportedObject Imports::ask_owner(const char* verb, control::ObjectKind kind,
                                           std::uint32_t number) {
  DaemonClient& client = context_.first().client();
  const std::lock_guard guard(client.lock());
  context_.events().follow_library();
  DaemonClient::Descriptors fds;
  const auto reply =
      client.ask_locked<control::Imported>(control::Import{owner_, kind, number}, &fds);
  if (!reply)
    refuse(reply.error().code, "%s: number %u: %s", verb, number, reply.error().text.c_str());
  if (fds[0]) context_.user_memory().foreign().adopt(std::move(fds[0]));
  return reply->object;
}

memory::DomainId Imports::domain_of_owner(std::uint32_t number) {
  const std::lock_guard guard(context_.lock());
  const auto [known, is_new] = domains_.try_emplace(number, 0);
  if (is_new) known->second = context_.next_domain();
  return known->second;
}

}  // namespace verbena::provider
