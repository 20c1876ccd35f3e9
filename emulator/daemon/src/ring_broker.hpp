// Who has a shared ring to whom. Makes a ring when a context asks for one, gives it to the reader
// and, when that one looks into it, to the writer; keeps it mapped, so that it can end it when
// either has died. Owned by the server, on its thread.
//
//   asked for --> offered to the reader --> given to the writer --> ended with either context
//
// A context that answers nothing leaves the other one on UDP; one that answers nonsense ends no
// ring but its own.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "session.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/link/shared_ring.hpp"

namespace verbena::daemon {

class RingBroker {
 public:
  // In each direction; each ring costs a mapping here and may hold a megabyte.
  static constexpr std::size_t kRingsPerContext = 128;

  // `reader` is the context that the request names, or null if there is none.
  void on_request(Session& writer, Session* reader, const control::RingRequest& request);
  void on_accepted(Session& writer, Session& reader, const control::UniqueFd& rope);
  // While it still has its context.
  void on_context_closed(Session& gone);
  std::size_t size() const { return rings_.size(); }

 private:
  struct Ring {
    Session* writer;
    Session* reader;
    link::SharedRing memory;
    control::UniqueFd fd;  // until the writer has it
  };
  using Key = std::pair<Session::Id, Session::Id>;  // writer, reader

  std::string reason_against(const Session& writer, const Session* reader) const;
  bool make(Session& writer, Session& reader);

  std::map<Key, Ring> rings_;
};

}  // namespace verbena::daemon
