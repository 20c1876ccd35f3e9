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

// Opens our memory for the importer, which may not be allowed to look into other processes itself.
control::UniqueFd own_memory(control::Exported& reply) {
  const int fd = link::open_file("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (fd >= 0) return control::UniqueFd(fd);
  reply.code = static_cast<std::uint32_t>(-fd);
  reply.text = std::string("its owner cannot open /proc/self/mem: ") + std::strerror(-fd);
  return {};
}

control::ExportedObject exported(const Mr& mr) {
  control::ExportedObject object;
  object.domain = mr.domain->domain;
  object.address = mr.host_address;
  object.length = std::min<std::uint64_t>(mr.mr.mr.length, UserMemory::kUserSpaceEnd);
  object.base = mr.base;
  object.access = static_cast<std::uint32_t>(mr.mr.access);
  return object;
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
      reply.object = exported(*mr);
      mr->is_exported = true;
    });
    if (reply.code == 0) memory = own_memory(reply);
  }
  if (reply.code == 0) reply.text.clear();
  const int fds[] = {memory.get()};
  context_.first().client().tell(reply, 0, std::span(fds).first(memory ? 1 : 0));
}

void Imports::ask_owner(const char* verb, control::ObjectKind kind, std::uint32_t number,
                        const std::function<void(const control::ExportedObject&)>& use) {
  DaemonClient& client = context_.first().client();
  const std::lock_guard guard(client.lock());
  context_.events().follow_library();
  DaemonClient::Descriptors fds;
  const auto reply =
      client.ask_locked<control::Imported>(control::Import{owner_, kind, number}, &fds);
  if (!reply)
    refuse(reply.error().code, "%s: number %u: %s", verb, number, reply.error().text.c_str());
  if (fds[0]) context_.user_memory().foreign().adopt(std::move(fds[0]));
  use(reply->object);
}

memory::DomainId Imports::domain_of_owner(std::uint32_t number) {
  const std::lock_guard guard(context_.lock());
  const auto [known, is_new] = domains_.try_emplace(number, 0);
  if (is_new) known->second = context_.next_domain();
  return known->second;
}

memory::RegionRequest Imports::request_for(const control::ExportedObject& region) {
  memory::RegionRequest r;
  r.domain = domain_of_owner(region.domain);
  r.host_address = UserMemory::foreign_address(region.address);
  r.length = region.length;
  r.base = region.base;
  r.access = (region.access & ~memory::kZeroBased) | memory::kOnDemand;
  return r;
}

void Imports::add_region(std::uint32_t number, std::uint32_t key) {
  const std::lock_guard guard(context_.lock());
  regions_.emplace(number, key);
}

Result<bool, memory::Refusal> Imports::deregister(std::uint32_t key) {
  const std::lock_guard guard(context_.lock());
  const auto done = context_.device().memory().deregister(key);
  if (done) std::erase_if(regions_, [key](const auto& region) { return region.second == key; });
  return done;
}

void Imports::on_region_changed(const control::RegionChanged& change) {
  memory::Registry::Change to{true, true, true, {}};
  if (!change.is_gone) to.to = request_for(change.object);
  {
    const std::lock_guard guard(context_.lock());
    memory::Registry& memory = context_.device().memory();
    const auto [first, last] = regions_.equal_range(change.number);
    for (auto region = first; region != last; ++region) {
      if (change.is_gone) {
        memory.take_away(region->second, "ibv_dereg_mr in the process that owns it");
      } else if (!memory.change_region(region->second, to)) {
        memory.take_away(region->second, "ibv_rereg_mr in the process that owns it");
      }
    }
  }
  context_.tell(control::RegionFollowed{change.ticket});
}

void Imports::tell_importers(const char* verb, std::uint32_t number, const Mr* now) {
  control::RegionChanged change;
  change.number = number;
  change.is_gone = now == nullptr;
  if (now != nullptr) change.object = exported(*now);
  const auto settled = context_.ask<control::RegionSettled>(change);
  if (!settled || settled->silent.count == 0) return;
  explain(
      "%s: key 0x%x: %u process(es) that have imported this region have not answered and may still "
      "reach what was its memory when they go on: %s",
      verb, number, settled->silent.count, control::names_of(settled->silent).c_str());
}

}  // namespace verbena::provider
