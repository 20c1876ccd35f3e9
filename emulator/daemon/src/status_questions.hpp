// SPDX-License-Identifier: BSD-2-Clause
// Answers questions about the state of all contexts. First comes a round that asks all contexts how
// many objects they have and what the first of these do. It ends when all have answered, or at a
// deadline, so that a stopped process delays no other. Then the asker reads at its own pace
// (status_stream.hpp). Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client_table.hpp"
#include "status_json.hpp"
#include "status_stream.hpp"
#include "status_writers.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class StatusQuestions final : private StatusStream::Host {
 public:
  // How long the contexts have to answer a question about their state.
  static constexpr TimeNs kDeadlineNs = 500'000'000;

  StatusQuestions(fabric::Fabric& fabric, ClientTable& clients, fabric::Timers& timers)
      : fabric_(fabric), clients_(clients), timers_(timers) {}

  // `extension` is null if there is no connection management. Otherwise it outlives all askers.
  void on_status_query(Session& asker, const control::Incoming& in, EmulatorStatus emulator,
                       fabric::Extension* extension);
  void on_query_resources(Session& asker, const control::Incoming& in,
                          fabric::Extension* extension);
  void on_report(const Session& context, const control::Incoming& in);
  // Handles the end of an asker or of a context that was asked.
  void on_client_gone(Session::Id gone);

 private:
  using Answers = std::map<Session::Id, control::StatusReport>;
  // The contexts that a question asks.
  struct Asked {
    bool contexts = true;
    std::string device;  // empty: all
  };
  struct Question {
    Asked asked;
    // Used until the round has ended.
    std::uint32_t sequence = 0;
    std::set<Session::Id> awaited;
    Answers answers;
    std::unique_ptr<StatusWriter> writer;
    // Used since the round has ended.
    std::unique_ptr<StatusStream> stream;
    fabric::Timers::Id deadline = 0;  // deadline of the round, or of the awaited page
  };

  void begin_round(Session& asker, const control::Incoming& in, Asked asked,
                   std::unique_ptr<StatusWriter> writer);
  void begin_stream(Session::Id asker);
  CmIdPages cm_ids_of(fabric::Extension* extension) const;
  std::vector<ContextStatus> contexts_of(const std::vector<const fabric::Port*>& ports,
                                         Answers answers) const;

  std::optional<std::uint32_t> ask_for_page(Session::Id context,
                                            const control::StatusRequest& request) override;
  void go_on_when_read(Session::Id asker) override;
  void continue_stream(Session::Id asker, const std::function<void(StatusStream&)>& step);
  void await_page(Session::Id asker) override;
  void end_stream(Session::Id asker) override;

  fabric::Fabric& fabric_;
  ClientTable& clients_;
  fabric::Timers& timers_;
  std::map<Session::Id, Question> questions_;  // keyed by asker
};

}  // namespace verbena::daemon
