// SPDX-License-Identifier: BSD-2-Clause
// Objects of one context that another process of the user imports.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/message.hpp"
#include "verbena/control/silent_processes.hpp"

namespace verbena::control {

// An object of one context, as another process of the user may import it (ibv_import_pd, _mr).
// Beside a region, as descriptor [0], the memory of its owner (/proc/PID/mem).
struct ExportedObject {
  std::uint32_t domain = 0;   // its protection domain, by that one's number
  std::uint64_t address = 0;  // a region's, in the process of its owner
  std::uint64_t length = 0;
  std::uint64_t base = 0;  // by which keys reach it
  std::uint32_t access = 0;
  bool operator==(const ExportedObject&) const = default;
  VERBENA_FIELDS { a(m.domain, m.address, m.length, m.base, m.access); }
};
enum class ObjectKind : std::uint8_t { kDomain = 1, kRegion = 2 };

// An importer asks for an object of the context whose connection has this name at the other end
// (a socket that it was given has it, too). Answered by Imported, when the owner has answered. All
// that a context imports is of the first owner that it names, and lasts until OwnerGone.
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
// The same question to the owner, and its answer.
struct ExportQuery {
  std::uint32_t ticket = 0;
  ObjectKind kind = ObjectKind::kDomain;
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kExportQuery) { a(m.ticket, m.kind, m.number); }
};
struct Exported {
  std::uint32_t ticket = 0;
  std::uint32_t code = 0;  // errno
  std::string text;        // of it, in one line
  ExportedObject object;
  VERBENA_MESSAGE(kExported) { a(m.ticket, m.code, m.text, m.object); }
};
// To the importer: the context that it imports from is gone.
struct OwnerGone {
  VERBENA_MESSAGE(kOwnerGone) {}
};

// From the owner: a region that others have imported is gone, or is `object` from now on. The
// daemon passes it on, with a ticket, to all that import from there; they answer with
// RegionFollowed as soon as none of their accesses meets what the region was. Then, or when one of
// them has been silent for a while, the owner has RegionSettled.
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
