// SPDX-License-Identifier: BSD-2-Clause
// Objects that processes share: what this context has made and another process imports, and what
// this context itself imports (ibv_import_device of a descriptor that came from another process).
// The daemon carries the question. The bytes themselves are accessed through the kernel
// (foreign_memory.hpp). Owned by the context; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "verbena/control/import_messages.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/memory/registry.hpp"

namespace verbena::provider {

class Context;
struct Mr;

class Imports {
 public:
  explicit Imports(Context& context) : context_(context) {}

  // The context was opened with the descriptor of a context in another process, whose socket has
  // this name. Keeps the lower keys free for those of the regions that the owner has registered.
  void set_owner(std::string name);
  bool are_from_another() const { return !owner_.empty(); }
  // Asks the other process, and calls `use` with its answer before any further message about the
  // object is handled. Throws VerbRefused.
  void ask_owner(const char* verb, control::ObjectKind kind, std::uint32_t number,
                 const std::function<void(const control::ExportedObject&)>& use);
  // Returns the domain that stands for the owner's domain of this number.
  memory::DomainId domain_of_owner(std::uint32_t number);
  memory::RegionRequest request_for(const control::ExportedObject& region);
  // The owner's region of this number has this key here, until the key is deregistered.
  void add_region(std::uint32_t number, std::uint32_t key);
  Result<bool, memory::Refusal> deregister(std::uint32_t key);
  // Called under the client's lock.
  void on_region_changed(const control::RegionChanged& change);

  // Answers another process that imports from this one; under the client's lock.
  void on_query(const control::ExportQuery& query);
  // Tells the processes that have imported the region that it is gone, or what it is now. When this
  // returns, none of them accesses the old region any more, except one that has not answered for a
  // while because it is stopped or in a debugger. When that one goes on, it ends the access that it
  // had begun, and may begin others before it has read the message. It accesses our memory by
  // address, so it finds whatever is there by then. The explanation to the application names such
  // processes.
  void tell_importers(const char* verb, std::uint32_t number, const Mr* now);

 private:
  Context& context_;
  std::string owner_;
  // Both maps are under the context's lock.
  std::map<std::uint32_t, memory::DomainId> domains_;
  std::multimap<std::uint32_t, std::uint32_t> regions_;  // keys, by the owner's number
};

}  // namespace verbena::provider
