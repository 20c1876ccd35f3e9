// SPDX-License-Identifier: BSD-2-Clause
// Runs two commands of a shell, a server and a client: `verbena run --pair SERVER CLIENT`.
//
//   server starts --> it can be reached --> client starts --> client ends --> server ends
//
// A server can be reached when one of its processes listens at a TCP port or with rdma_listen, or
// when it has a queue pair and has come to rest. If nothing of that is seen, a server counts as
// ready once it has rested for longer, or, if it works without rest, once it has had a queue pair
// for longer: it may be polling. After the client's end the server has a while to end by itself;
// then it is ended. A server that rests and listens is ended earlier, because it waits for further
// clients.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "children.hpp"
#include "emulator.hpp"
#include "settled.hpp"
#include "side_output.hpp"
#include "time_limit.hpp"

namespace verbena::cli {

class Pair {
 public:
  // `output` takes the output of both sides.
  Pair(Children& children, TimeLimit& limit, Emulator& emulator, SideOutput& output)
      : children_(children), limit_(limit), emulator_(emulator), output_(output) {}

  // Runs until nothing of both is left. Returns the client's exit code, or if that is 0 the
  // server's, which is 0 for a server that was ended. If a signal asks for the end before the
  // client was started, starts no client, and returns 128 plus the signal's number.
  int run(const std::string& server, const std::string& client);

 private:
  std::optional<int> start(const char* name, const std::string& text, int in, pid_t& pid);
  void step(TimeNs longest);
  bool await_server();
  bool is_reachable(const std::vector<Process>& server, TimeNs now);
  bool has_worked_for_long(const std::set<pid_t>& server, TimeNs now);
  bool listens(const std::vector<Process>& server);
  bool listens_by_rdma_cm(const std::set<pid_t>& server);
  bool has_queue_pair(const std::set<pid_t>& server);
  int server_was_too_short() const;
  int end_by_signal();
  void await_client();
  void await_end();
  bool may_end_by_itself(const std::vector<Process>& left);
  int exit_code() const;

  Children& children_;
  TimeLimit& limit_;
  Emulator& emulator_;
  SideOutput& output_;
  Settled settled_;
  bool has_listened_ = false;
  // What is known of a server at work:
  TimeNs works_since_ = 0;
  TimeNs pair_since_ = 0;
  TimeNs next_look_ = 0;
  bool has_told_ = false;
  pid_t server_ = 0;
  pid_t client_ = 0;
  bool was_ended_ = false;  // this process has ended the server
};

}  // namespace verbena::cli
