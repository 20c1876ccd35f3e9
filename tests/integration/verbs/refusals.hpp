// SPDX-License-Identifier: BSD-2-Clause
// Every verb with every class of wrong argument, as tables: the call, the expected errno, and a
// part of the explanation. refusals.cpp runs the rows one after the other on one `World`; after
// each row nothing of that world may have changed. NULL as the first handle is left out, because
// libibverbs dereferences it before it calls the provider.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace refusals {

inline constexpr std::size_t kBytes = 1 << 16;
inline constexpr std::uint32_t kQueue = 4;  // requests that a queue pair holds in each direction
inline constexpr std::uint32_t kSges = 2;
inline constexpr std::uint32_t kInline = 64;
inline constexpr std::uint32_t kMaxSge = 30;  // the device's limit
// more elements are refused without a look at the queue
inline constexpr std::uint32_t kAnySge = 32;
inline constexpr std::uint32_t kMaxWr = 32768;

// Objects of one opened device. Those of a second world are foreign to the first.
struct World {
  explicit World(ibv_device* device);
  void destroy();

  ibv_context* context;
  ibv_port_attr port{};
  ibv_gid gid{};
  ibv_pd* pd;
  ibv_pd* other_pd;  // of the same device, without objects
  ibv_td* td;
  ibv_comp_channel* channel;
  ibv_cq* cq;
  ibv_cq* event_cq;  // uses the channel
  ibv_cq_ex* cq_ex;
  std::vector<char> bytes;
  ibv_mr* mr;
  ibv_mr* other_mr;  // of other_pd
  ibv_mr* null_mr;
  ibv_mw* mw1;
  ibv_mw* mw2;
  ibv_dm* dm;
  ibv_mr* dm_mr;
  ibv_srq* srq;     // with_srq uses it; it is full
  ibv_srq* tm_srq;  // has room for one tag, which is taken
  std::uint32_t tag_handle = 0;
  ibv_xrcd* xrcd;
  ibv_srq* xrc_srq;
  ibv_ah* ah;
  ibv_qp* reset;  // RC
  ibv_qp* init;   // RC with a full receive queue
  ibv_qp* rc;     // RC, connected to itself
  ibv_qp* uc;
  ibv_qp* ud;           // attached to a multicast group
  ibv_qp* with_srq;     // INIT
  ibv_qp* xrc_send;     // RESET
  ibv_qp* xrc_receive;  // RESET, opened a second time
  ibv_qp* opened;
  ibv_qp_ex* builder;  // RC, connected to itself

  // Returns in words what a verb could have changed.
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

// Handles of destroyed objects.
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
  const char* reason;    // a part of the explanation; null if libibverbs itself refuses
  int (*call)(Case& c);  // returns an errno
};

inline constexpr ibv_gid kGroup = {
    {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};

// Returns 0, or the errno of a verb that returns an object.
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
