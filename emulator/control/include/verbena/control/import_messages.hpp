// SPDX-License-Identifier: BSD-2-Clause
// Messages about objects of one context that another process of the user imports.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/message.hpp"
#include "verbena/control/silent_processes.hpp"

namespace verbena::control {

// An object of one context that another process of the user may import (ibv_import_pd, _mr). For a
// region, descriptor [0] is the memory of its owner (/proc/PID/mem).
struct ExportedObject {
  std::uint32_t domain = 0;   // number of its protection domain
  std::uint64_t address = 0;  // a region's address in the process of its owner
  std::uint64_t length = 0;
  std::uint64_t base = 0;  // address by which keys reach it
  std::uint32_t access = 0;
  bool operator==(const ExportedObject&) const = default;
  VERBENA_FIELDS { a(m.domain, m.address, m.length, m.base, m.access); }
};
enum class ObjectKind : std::uint8_t { kDomain = 1, kRegion = 2 };

// An importer's request for an object. `owner` is the abstract name that the context's connection
// has at the context's end; a process that was given the socket finds it there. The daemon answers
// with Imported when the owner has answered. A context imports only from the first owner that it
// names; what it imported lasts until OwnerGone.
struct Import {
  std::string owner;
  ObjectKind kind = ObjectKind::kDomain;
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kImport) { a(m.owner, m.kind, m.number); }
};
struct Imported {
  ExportedObject object;
  VERBENA_MESSAGE(kImported) { a(m.object); }
};
// The daemon passes the question to the owner with this message, and the owner answers with
// Exported.
struct ExportQuery {
  std::uint32_t ticket = 0;
  ObjectKind kind = ObjectKind::kDomain;
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kExportQuery) { a(m.ticket, m.kind, m.number); }
};
struct Exported {
  std::uint32_t ticket = 0;
  std::uint32_t code = 0;  // errno
  std::string text;        // explanation of the errno, in one line
  ExportedObject object;
  VERBENA_MESSAGE(kExported) { a(m.ticket, m.code, m.text, m.object); }
};
// Tells the importer that the context from which it imports is gone.
struct OwnerGone {
  VERBENA_MESSAGE(kOwnerGone) {}
};

// Sent by the owner of a region that others have imported: the region is gone, or is `object` from
// now on. The daemon passes it on, with a ticket, to all contexts that import from this owner. Each
// answers with RegionFollowed as soon as none of its accesses meets the old region. When all have
// answered, or some have not in time, the daemon sends RegionSettled to the owner.
struct RegionChanged {
  std::uint32_t ticket = 0;
  std::uint32_t number = 0;
  bool is_gone = false;
  ExportedObject object;
  VERBENA_MESSAGE(kRegionChanged) { a(m.ticket, m.number, m.is_gone, m.object); }
};
struct RegionFollowed {
  std::uint32_t ticket = 0;
  VERBENA_MESSAGE(kRegionFollowed) { a(m.ticket); }
};
struct RegionSettled {
  SilentProcesses silent;
  VERBENA_MESSAGE(kRegionSettled) { a(m.silent); }
};

}  // namespace verbena::control
