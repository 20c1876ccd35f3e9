// SPDX-License-Identifier: BSD-2-Clause
// Between contexts, the daemon and `verbena events`: what has happened.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/message.hpp"

namespace verbena::control {

// From a context: there is something in its ring (journal_ring.hpp). Not answered.
struct JournalWritten {
  VERBENA_MESSAGE(kJournalWritten) {}
};

// From `verbena events`: what has happened since event `after` (0: all that is kept), and with
// `follows` what happens from then on. Answered by JournalText, once or more often, as it is read.
struct JournalQuery {
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};  // as `after`: only how far it is
  std::uint64_t after = 0;
  bool follows = false;
  VERBENA_MESSAGE(kJournalQuery) { a(m.after, m.follows); }
};

struct JournalText {
  static constexpr std::size_t kTextMost = 32 * 1024;
  bool last = true;  // none follows
  std::uint64_t newest = 0;
  std::string text;  // a JSON object in each line
  VERBENA_MESSAGE(kJournalText) { a(m.last, m.newest, m.text); }
};

}  // namespace verbena::control
