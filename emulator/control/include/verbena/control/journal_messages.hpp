// SPDX-License-Identifier: BSD-2-Clause
// Messages by which contexts tell the daemon, and the daemon tells `verbena events`, what has
// happened.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/message.hpp"

namespace verbena::control {

// A context says that its ring (journal_ring.hpp) has records. Has no answer.
struct JournalWritten {
  VERBENA_MESSAGE(kJournalWritten) {}
};

// A request by `verbena events` for the events since event `after` (0: all that are kept), and,
// with `follows`, for later ones as they happen. The daemon answers with one or more JournalText,
// at the pace at which the command reads.
struct JournalQuery {
  // As `after`, asks only for the number of the newest event.
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::uint64_t after = 0;
  bool follows = false;
  VERBENA_MESSAGE(kJournalQuery) { a(m.after, m.follows); }
};

struct JournalText {
  static constexpr std::size_t kTextMost = 32 * 1024;
  bool last = true;  // no other JournalText follows
  std::uint64_t newest = 0;
  std::string text;  // a JSON object in each line
  VERBENA_MESSAGE(kJournalText) { a(m.last, m.newest, m.text); }
};

}  // namespace verbena::control
