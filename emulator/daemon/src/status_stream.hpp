// SPDX-License-Identifier: BSD-2-Clause
// What one asker is told of all devices, contexts, queue pairs, completion queues and shared
// receive queues, a little at a time: the next page of them is asked of a context when the asker
// has read the one before. So neither needs more memory for a hundred thousand queue pairs than for
// a hundred, and who does not read holds up himself.
//
// Begins after a round that has found out who answers (status_questions.hpp). A context that falls
// silent in the middle is left after a while. Owned by the server, on its thread.
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

// One context, as the round found it.
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

// Puts it into words for the asker.
class StatusWriter {
 public:
  virtual ~StatusWriter() = default;
  virtual void begin() = 0;
  // Some rdma_cm IDs, which are told before the devices; false: there were no others.
  virtual bool cm_ids() = 0;
  virtual void device(const fabric::Port& port) = 0;
  // Whether its objects are wanted.
  virtual bool context(const ContextStatus& context) = 0;
  // Some objects of it. Whether more of their kind are wanted.
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
    // Asks a context for a page; its number, nothing if the context has gone.
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

  // The next step; at the end, host.end_stream().
  void go_on();
  bool awaits(std::uint32_t page, fabric::ClientId context) const;
  void on_page(const control::StatusReport& report);
  // The context has gone, or does not answer.
  void on_silence();
  bool awaits_context(fabric::ClientId context) const;

 private:
  void begin_next_context();
  // With the first of its objects of this kind, that it has told already.
  void begin(control::StatusOf what);
  void ask();
  // What is told of now; so many were asked for.
  void take(const control::StatusReport& report, std::size_t asked);
  template <typename Object>
  void take(const control::StatusPage<Object>& page, std::size_t asked);
  void end_kind();
  void end_context(bool is_complete);

  Host& host_;
  fabric::ClientId asker_;
  std::vector<const fabric::Port*> ports_;
  std::vector<ContextStatus> contexts_;  // by device
  std::unique_ptr<StatusWriter> writer_;
  std::size_t next_port_ = 0;
  std::size_t next_context_ = 0;
  bool has_begun_ = false;
  bool is_in_context_ = false;
  // Within it: what is told of, which of them was told last, and how many pages there may still be.
  control::StatusOf what_ = control::StatusOf::kQueuePairs;
  std::uint32_t after_ = 0;
  std::size_t pages_left_ = 0;
  std::optional<std::uint32_t> page_;  // that is awaited
};

}  // namespace verbena::daemon
