// SPDX-License-Identifier: BSD-2-Clause
// Every verb with every class of wrong argument, as tables: what is called, which errno must come
// back, and what must stand in the explanation. refusals.cpp runs them one after the other on one
// `World`; after each row nothing of that world may have changed. A NULL in place of the first
// handle is not among them: libibverbs itself looks into that one before it asks anybody.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace refusals {

inline constexpr std::size_t kBytes = 1 << 16;
inline constexpr std::uint32_t kQueue = 4;  // requests that a queue pair holds each way
inline constexpr std::uint32_t kSges = 2;
inline constexpr std::uint32_t kInline = 64;
inline constexpr std::uint32_t kMaxSge = 30;  // the device's
inline constexpr std::uint32_t kAnySge = 32;  // more are refused without looking at the queue
inline constexpr std::uint32_t kMaxWr = 32768;

// Objects of one opened device. A second world's are foreign to the first.
struct World {
  explicit World(ibv_device* device);
  void destroy();

  ibv_context* context;
  ibv_port_attr port{};
  ibv_gid gid{};
  ibv_pd* pd;
  ibv_pd* other_pd;  // of the same device; has no objects
  ibv_td* td;
  ibv_comp_channel* channel;
  ibv_cq* cq;
  ibv_cq* event_cq;  // with the channel
  ibv_cq_ex* cq_ex;
  std::vector<char> bytes;
  ibv_mr* mr;
  ibv_mr* other_mr;  // of other_pd
  ibv_mr* null_mr;
  ibv_mw* mw1;
  ibv_mw* mw2;
  ibv_dm* dm;
  ibv_mr* dm_mr;
  ibv_srq* srq;     // used by with_srq; full
  ibv_srq* tm_srq;  // room for one tag, which is taken
  std::uint32_t tag_handle = 0;
  ibv_xrcd* xrcd;
  ibv_srq* xrc_srq;
  ibv_ah* ah;
  ibv_qp* reset;  // RC
  ibv_qp* init;   // RC, its receive queue is full
  ibv_qp* rc;     // connected to itself
  ibv_qp* uc;
  ibv_qp* ud;           // attached to a multicast group
  ibv_qp* with_srq;     // INIT
  ibv_qp* xrc_send;     // RESET
  ibv_qp* xrc_receive;  // RESET, opened once more
  ibv_qp* opened;
  ibv_qp_ex* builder;  // RC, connected to itself

  // What a verb could have changed, in words.
  std::string state() const;
  ibv_sge sge(std::uint32_t length = 8) const;
  ibv_ah_attr to_self() const;

 private:
  void make_memory();
  void make_queues();
  void make_queue_pairs();
  ibv_qp* make(ibv_qp_type type, ibv_srq* with = nullptr) const;
  void to_init(ibv_qp* qp) const;
  void connect(ibv_qp* qp) const;
};

// Handles of objects that were destroyed.
struct Dead {
  explicit Dead(World& w);
  ibv_pd* pd;
  ibv_pd* imported;
  ibv_td* td;
  ibv_cq* cq;
  ibv_cq_ex* cq_ex;
  ibv_mr* mr;
  ibv_mw* mw;
  ibv_dm* dm;
  ibv_srq* srq;
  ibv_xrcd* xrcd;
  ibv_ah* ah;
  ibv_qp* qp;
  ibv_qp_ex* builder;
  std::uint32_t lkey, qpn, pd_number, mr_number, dm_number;
};

struct Case {
  World& w;
  World& foreign;
  Dead& dead;
};

struct Row {
  const char* verb;
  const char* argument;
  int error;
  const char* reason;    // a part of the explanation; null: libibverbs refuses by itself
  int (*call)(Case& c);  // an errno
};

inline constexpr ibv_gid kGroup = {
    {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};

// The errno of a verb that returns a pointer, or a number of its own.
template <typename T>
int made(T* object) {
  return object != nullptr ? 0 : errno;
}

std::vector<Row> domain_rows();
std::vector<Row> memory_rows();
std::vector<Row> completion_rows();
std::vector<Row> shared_receive_rows();
std::vector<Row> queue_pair_rows();
std::vector<Row> state_rows();
std::vector<Row> posting_rows();
std::vector<Row> builder_rows();
std::vector<Row> address_rows();
std::vector<Row> dead_rows();
std::vector<Row> raw_rows();

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
#define NEED(condition)                                                              \
  do {                                                                               \
    if (!(condition)) {                                                              \
      refusals::fail("%s:%d: %s (errno %d)", __FILE__, __LINE__, #condition, errno); \
    }                                                                                \
  } while (false)

}  // namespace refusals
