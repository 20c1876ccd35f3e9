// SPDX-License-Identifier: BSD-2-Clause
// Two processes that talk over verbs, for tests of what each of them sees. They are forked from one
// process, tell each other's numbers through a local socket, and open a device each. A scenario is
// a function that both run. It prints what it has seen on standard output, which the test judges. A
// failed condition ends the process with a message on standard error.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace ends {

inline constexpr int kPatienceMs = 20'000;

[[noreturn]] inline void end_badly(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  std::exit(1);
}
#define MUST(condition) \
  ((condition) ? static_cast<void>(0) : ends::end_badly(#condition, __FILE__, __LINE__))

struct Options {
  std::uint32_t rounds = 1000;
  std::uint32_t size = 8;
  std::uint32_t at_once = 1;  // requests that are under way together
  bool one_cq = false;        // the client's sends and receives complete in one queue
  bool use_srq = false;
  bool use_xrc = false;
  bool server_sleeps = false;  // the server sleeps until an event
  bool datagrams = false;      // UD instead of RC
  bool blocks = false;         // a wait for events blocks in the read
};

// One of the two processes. Its queue pairs send to those of the other.
class End {
 public:
  End(int wire, bool is_client, const Options& options);

  // Makes everything. On return, both sides are in RTS.
  void connect();
  void post_receive(std::uint64_t id);
  void post_send(std::uint64_t id, bool is_signaled, std::uint32_t size);
  // Waits until both sides have come here.
  void meet();
  // Waits for the next event of the channel and acknowledges it. Returns false if none comes in
  // time.
  bool await_event(bool blocks);
  // Acknowledges the events that are there, and returns their number. The channel must not block.
  std::uint32_t take_events();

  const bool is_client;
  const Options options;
  ibv_context* context = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* receive_cq = nullptr;

 private:
  struct Name {
    std::uint32_t qpn;  // the queue pair that receives
    std::uint32_t sender;
    std::uint32_t srq;
    std::uint16_t lid;
    ibv_gid gid;
  };
  void open();
  void make_queue_pairs();
  ibv_qp* make_qp(ibv_qp_type type);
  void make_xrc();
  void bring_up(ibv_qp* qp, const Name& peer, std::uint32_t to);
  void exchange(const void* mine, void* theirs, std::size_t size) const;

  int wire_;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_xrcd* xrcd_ = nullptr;
  ibv_qp* sender_ = nullptr;
  ibv_qp* receiver_ = nullptr;  // equals sender_, except with XRC
  ibv_ah* ah_ = nullptr;
  Name peer_{};
  ibv_port_attr port_{};
  std::vector<char> bytes_;
};

using Scenario = void (*)(End&);
// Returns the next completion, which must be a success. Returns false if none comes in time.
bool poll_until(ibv_cq* cq, ibv_wc& wc);

void answers_follow_completions(End& end);
void one_completion_for_each_event(End& end);
void armed_sleepers_wake(End& end);
void unpolled_completions_tell(End& end);

}  // namespace ends
