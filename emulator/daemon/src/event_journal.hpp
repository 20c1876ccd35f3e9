// SPDX-License-Identifier: BSD-2-Clause
// Serves `verbena events`: takes in what contexts have told in their rings and what the daemon
// itself has seen, and sends it to the readers. A reader that stops reading costs no more than the
// page under way, and is told how much it has missed. Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client_table.hpp"
#include "journal.hpp"
#include "verbena/control/journal_messages.hpp"

namespace verbena::daemon {

class EventJournal {
 public:
  EventJournal(ClientTable& clients, fabric::Timers& timers) : clients_(clients), timers_(timers) {}

  // Adds an event, which is an object of journal_json.hpp.
  void note(const std::string& event);
  void note_opened(Session& context);
  // Must be called while the session still has its context.
  void note_closed(Session& context);
  // Takes in what a context has told, at most a fixed number of records in a turn, so that a
  // context that tells more than others does not keep them waiting.
  void take_in(Session& context);
  void on_query(Session& session, const control::Incoming& in);
  void on_client_gone(Session::Id gone) { readers_.erase(gone); }
  // Sends the last events to the readers that follow, as far as they read.
  void end(const std::string& reason);

 private:
  struct Reader {
    std::uint32_t sequence = 0;  // sequence of its question
    std::uint64_t after = 0;     // the last event that it was sent
    std::uint64_t end = 0;       // the last event that it asked for, unless it follows
    bool follows = false;
    bool waits = false;  // waits until it has read what it was sent
  };

  struct Asked {
    Session::Id reader;
    std::uint32_t sequence;
    control::JournalQuery query;
  };

  void take_in_most(Session& context, int most);
  void take_in_all();
  void catch_up_and_answer();
  void answer(const Asked& asked);
  void go_on_when_read(Session::Id id, Reader& reader);
  void send_page(Session::Id id);

  ClientTable& clients_;
  fabric::Timers& timers_;
  Journal journal_;
  std::map<Session::Id, Reader> readers_;
  std::vector<Asked> asked_;  // questions that are answered once all contexts were heard
  bool is_catching_up_ = false;
};

}  // namespace verbena::daemon
