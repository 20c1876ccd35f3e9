// SPDX-License-Identifier: BSD-2-Clause
// Objects that cross a border between processes: what this context has made and another process
// imports, and what it imports itself (ibv_import_device of a descriptor that came from another
// process). The daemon carries the question; the bytes themselves are reached through the kernel
// (foreign_memory.hpp). Owned by the context; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "verbena/control/import_messages.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/memory/registry.hpp"

namespace verbena::provider {

class Context;

class Imports {
 public:
  explicit Imports(Context& context) : context_(context) {}

  // The context was opened with that one's descriptor, whose socket has this name.
  // The keys of what it has registered are to be had here.
  void set_owner(std::string name);
  bool are_from_another() const { return !owner_.empty(); }
  // Asks the other process. Throws VerbRefused.
  control::ExportedObject ask_owner(const char* verb, control::ObjectKind kind,
                                    std::uint32_t number);
  // One domain here for each over there.
  memory::DomainId domain_of_owner(std::uint32_t number);

  // Another process imports from here; under the client's lock.
  void on_query(const control::ExportQuery& query);

 private:
  Context& context_;
  std::string owner_;
  std::map<std::uint32_t, memory::DomainId> domains_;  // under the context's lock
};

}  // namespace verbena::provider
