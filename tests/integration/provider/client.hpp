// SPDX-License-Identifier: BSD-2-Clause
// A small RDMA program. lifecycle.py starts its cases, each in a process of its own. A case that
// fails prints why and ends the process with 1.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace client {

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) client::fail("line %d: %s (errno %d)", __LINE__, #condition, errno); \
  } while (false)

// Prints a line for lifecycle.py, at once.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

ibv_context* open_first();

// Two RC queue pairs of one process, connected to each other, and memory for both.
struct Loop {
  explicit Loop(bool events = false);
  ibv_context* context;
  ibv_pd* pd;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq;
  ibv_qp* sender;
  ibv_qp* receiver;
  std::vector<char> memory;
  ibv_mr* mr;

  void post_receive(std::uint64_t id);
  void post_send(std::uint64_t id);
  // Polls until there is a completion, and returns it.
  ibv_wc poll();
  void destroy();
};

struct Peer {
  std::uint32_t lid, qpn, psn;
};
ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq);
void connect(ibv_qp* qp, const Peer& peer, std::uint32_t own_psn);

struct Case {
  const char* name;
  void (*run)();
};
extern const std::vector<Case> kCases;

// closed_cases.cpp
void close_descriptors();
void use_closed_descriptors_again();

// change_cases.cpp
void clear_environment_first();
void clear_environment_later();
void change_network();
void change_root();
void change_root_and_user();
void change_user();

// fork_cases.cpp
void fork_and_go_on();
void fork_beside_busy_threads();
void fork_beside_an_exchange();
void fork_beside_a_blocked_reader();

// import_cases.cpp
void give_away();
void import_given();
void own_and_wait();
void orphaned_import();
void import_of_a_closed_context();
void import_of_a_deregistered_region();
void import_of_a_changed_region();
void import_by_the_stopped();
void import_of_a_number_used_again();

// import_events_case.cpp
void give_a_device();
void import_and_await_events();

// interposed_cases.cpp
void make_sockets_unseen();

// thread_cases.cpp
void cancel_a_close();
void leave_main_thread();

}  // namespace client
