// SPDX-License-Identifier: BSD-2-Clause
// Objects that cross a border between processes: what this context has made and another process
// imports, and what it imports itself (ibv_import_device of a descriptor that came from another
// process). The daemon carries the question; the bytes themselves are reached through the kernel
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

  // The context was opened with that one's descriptor, whose socket has this name.
  // The keys of what it has registered are to be had here.
  void set_owner(std::string name);
  bool are_from_another() const { return !owner_.empty(); }
  // Asks the other process, and calls with its answer before anything more is heard of there.
  // Throws VerbRefused.
  void ask_owner(const char* verb, control::ObjectKind kind, std::uint32_t number,
                 const std::function<void(const control::ExportedObject&)>& use);
  // One domain here for each over there.
  memory::DomainId domain_of_owner(std::uint32_t number);
  memory::RegionRequest request_for(const control::ExportedObject& region);
  // Its region of this number is known here by this key, until the key is deregistered.
  void add_region(std::uint32_t number, std::uint32_t key);
  Result<bool, memory::Refusal> deregister(std::uint32_t key);
  // Under the client's lock.
  void on_region_changed(const control::RegionChanged& change);

  // Another process imports from here; under the client's lock.
  void on_query(const control::ExportQuery& query);
  // Tells those who have imported the region that it is gone, or what it is now. When this returns
  // none of them reaches any more what it was, but for one that has not answered for a while: it is
  // stopped, or in a debugger. When it goes on, that one ends the access that it had begun, and
  // may begin others before it has read of this. It reaches our memory by address, so it meets what
  // lies there by then. The application is told whom to fear.
  void tell_importers(const char* verb, std::uint32_t number, const Mr* now);

 private:
  Context& context_;
  std::string owner_;
  // Both under the context's lock.
  std::map<std::uint32_t, memory::DomainId> domains_;
  std::multimap<std::uint32_t, std::uint32_t> regions_;  // keys, by the owner's number
};

}  // namespace verbena::provider
