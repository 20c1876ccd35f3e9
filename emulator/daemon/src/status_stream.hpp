// SPDX-License-Identifier: BSD-2-Clause
// Tells one asker of all devices, contexts, queue pairs, completion queues and shared receive
// queues, a little at a time: asks a context for the next page when the asker has read the one
// before. So neither side needs more memory for a hundred thousand queue pairs than for a hundred,
// and an asker that does not read delays only itself.
//
// Begins after a round that has found out which contexts answer (status_questions.hpp). Leaves a
// context that falls silent in the middle after a while. Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/fabric/extension.hpp"

namespace verbena::daemon {

// A context, as the round found it.
struct ContextStatus {
  fabric::ClientId client = 0;
  const fabric::Port* port = nullptr;
  std::uint32_t slot = 0;
  std::vector<std::uint32_t> extra_slots;
  std::uint32_t pid = 0;
  std::string comm;
  bool responds = false;
  control::StatusReport first;  // its counts, and the first of its objects
};

// Writes what the stream finds in the form that the asker wants.
class StatusWriter {
 public:
  virtual ~StatusWriter() = default;
  virtual void begin() = 0;
  // Writes some rdma_cm IDs, which come before the devices. Returns false if there were no others.
  virtual bool cm_ids() = 0;
  virtual void device(const fabric::Port& port) = 0;
  // Returns true if the context's objects are wanted.
  virtual bool context(const ContextStatus& context) = 0;
  // Write some objects of the context. Return true if more of their kind are wanted.
  virtual bool objects(std::span<const control::QpStatus> qps) = 0;
  virtual bool objects(std::span<const control::CqStatus> cqs) = 0;
  virtual bool objects(std::span<const control::SrqStatus> srqs) = 0;
  virtual void context_end(bool is_complete) = 0;
  virtual void end() = 0;
};

class StatusStream {
 public:
  // What the stream needs of its owner.
  class Host {
   public:
    // Asks a context for a page. Returns the page's number, or nothing if the context has gone.
    virtual std::optional<std::uint32_t> ask_for_page(fabric::ClientId context,
                                                      const control::StatusRequest& request) = 0;
    // Calls go_on() once the asker has read what it was sent, never at once.
    virtual void go_on_when_read(fabric::ClientId asker) = 0;
    // Calls on_silence() if the page does not come.
    virtual void await_page(fabric::ClientId asker) = 0;
    virtual void end_stream(fabric::ClientId asker) = 0;

   protected:
    ~Host() = default;
  };

  StatusStream(Host& host, fabric::ClientId asker, std::vector<const fabric::Port*> ports,
               std::vector<ContextStatus> contexts, std::unique_ptr<StatusWriter> writer);

  // Takes the next step. The last step is host.end_stream().
  void go_on();
  bool awaits(std::uint32_t page, fabric::ClientId context) const;
  void on_page(const control::StatusReport& report);
  // Must be called when the context has gone or does not answer.
  void on_silence();
  bool awaits_context(fabric::ClientId context) const;

 private:
  void begin_next_context();
  // Begins a kind of objects with the first ones, which the context has told already.
  void begin(control::StatusOf what);
  void ask();
  // Writes the objects of the current kind. `asked` is how many were asked for.
  void take(const control::StatusReport& report, std::size_t asked);
  template <typename Object>
  void take(const control::StatusPage<Object>& page, std::size_t asked);
  void end_kind();
  void end_context(bool is_complete);

  Host& host_;
  fabric::ClientId asker_;
  std::vector<const fabric::Port*> ports_;
  std::vector<ContextStatus> contexts_;  // sorted by device
  std::unique_ptr<StatusWriter> writer_;
  std::size_t next_port_ = 0;
  std::size_t next_context_ = 0;
  bool has_begun_ = false;
  bool is_in_context_ = false;
  // Within a context: the kind of objects, the last one that was told, and how many pages there may
  // still be.
  control::StatusOf what_ = control::StatusOf::kQueuePairs;
  std::uint32_t after_ = 0;
  std::size_t pages_left_ = 0;
  std::optional<std::uint32_t> page_;  // the awaited page
};

}  // namespace verbena::daemon
