// SPDX-License-Identifier: BSD-2-Clause
// The operations that a provider may offer to libibverbs, in every rdma-core that we know.
//
// libibverbs takes them as a packed array of function pointers in alphabetical order, and each
// generation has its own selection. This list is the sorted union of all generations. A row says
// from which generation to which the operation is in the array. A row with the result `void` and no
// arguments is an operation that we never offer, so its types need not be known.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbena/abi/layout.hpp"

namespace verbena::abi {

struct PrivateMr;  // objects.hpp

// X(name, result, arguments, since, until)
#define VERBENA_VERBS_OPS(X)                                                                  \
  X(advise_mr, int, (ibv_pd*, ibv_advise_mr_advice, uint32_t, ibv_sge*, uint32_t), k28, kAll) \
  X(alloc_buf, void, (), k64, kAll)                                                           \
  X(alloc_dm, ibv_dm*, (ibv_context*, ibv_alloc_dm_attr*), k28, kAll)                         \
  X(alloc_dmah, void, (), k59, kAll)                                                          \
  X(alloc_mw, ibv_mw*, (ibv_pd*, ibv_mw_type), k28, kAll)                                     \
  X(alloc_null_mr, ibv_mr*, (ibv_pd*), k28, kAll)                                             \
  X(alloc_parent_domain, ibv_pd*, (ibv_context*, ibv_parent_domain_init_attr*), k28, kAll)    \
  X(alloc_pd, ibv_pd*, (ibv_context*), k28, kAll)                                             \
  X(alloc_td, ibv_td*, (ibv_context*, ibv_td_init_attr*), k28, kAll)                          \
  X(async_event, void, (ibv_context*, ibv_async_event*), k28, kAll)                           \
  X(attach_counters_point_flow, void, (), k28, kAll)                                          \
  X(attach_mcast, int, (ibv_qp*, const ibv_gid*, uint16_t), k28, kAll)                        \
  X(bind_mw, int, (ibv_qp*, ibv_mw*, ibv_mw_bind*), k28, kAll)                                \
  X(close_xrcd, int, (ibv_xrcd*), k28, kAll)                                                  \
  X(cq_event, void, (ibv_cq*), k28, kAll)                                                     \
  X(create_ah, ibv_ah*, (ibv_pd*, ibv_ah_attr*), k28, kAll)                                   \
  X(create_comp_cntr, void, (), k65, kAll)                                                    \
  X(create_counters, void, (), k28, kAll)                                                     \
  X(create_cq, ibv_cq*, (ibv_context*, int, ibv_comp_channel*, int), k28, kAll)               \
  X(create_cq_ex, ibv_cq_ex*, (ibv_context*, ibv_cq_init_attr_ex*), k28, kAll)                \
  X(create_flow, void, (), k28, kAll)                                                         \
  X(create_flow_action_esp, void, (), k28, kAll)                                              \
  X(create_qp, ibv_qp*, (ibv_pd*, ibv_qp_init_attr*), k28, kAll)                              \
  X(create_qp_ex, ibv_qp*, (ibv_context*, ibv_qp_init_attr_ex*), k28, kAll)                   \
  X(create_rwq_ind_table, void, (), k28, kAll)                                                \
  X(create_srq, ibv_srq*, (ibv_pd*, ibv_srq_init_attr*), k28, kAll)                           \
  X(create_srq_ex, ibv_srq*, (ibv_context*, ibv_srq_init_attr_ex*), k28, kAll)                \
  X(create_wq, void, (), k28, kAll)                                                           \
  X(dealloc_dmah, void, (), k59, kAll)                                                        \
  X(dealloc_mw, int, (ibv_mw*), k28, kAll)                                                    \
  X(dealloc_pd, int, (ibv_pd*), k28, kAll)                                                    \
  X(dealloc_td, int, (ibv_td*), k28, kAll)                                                    \
  X(dereg_mr, int, (PrivateMr*), k28, kAll)                                                   \
  X(destroy_ah, int, (ibv_ah*), k28, kAll)                                                    \
  X(destroy_comp_cntr, void, (), k65, kAll)                                                   \
  X(destroy_counters, void, (), k28, kAll)                                                    \
  X(destroy_cq, int, (ibv_cq*), k28, kAll)                                                    \
  X(destroy_flow, void, (), k28, kAll)                                                        \
  X(destroy_flow_action, void, (), k28, kAll)                                                 \
  X(destroy_qp, int, (ibv_qp*), k28, kAll)                                                    \
  X(destroy_rwq_ind_table, void, (), k28, kAll)                                               \
  X(destroy_srq, int, (ibv_srq*), k28, kAll)                                                  \
  X(destroy_wq, void, (), k28, kAll)                                                          \
  X(detach_mcast, int, (ibv_qp*, const ibv_gid*, uint16_t), k28, kAll)                        \
  X(dm_export_dmabuf_fd, void, (), k62, kAll)                                                 \
  X(free_buf, void, (), k64, kAll)                                                            \
  X(free_context, void, (ibv_context*), k28, kAll)                                            \
  X(free_dm, int, (ibv_dm*), k28, kAll)                                                       \
  X(get_srq_num, int, (ibv_srq*, uint32_t*), k28, kAll)                                       \
  X(import_dm, ibv_dm*, (ibv_context*, uint32_t), k35, kAll)                                  \
  X(import_mr, ibv_mr*, (ibv_pd*, uint32_t), k31, kAll)                                       \
  X(import_pd, ibv_pd*, (ibv_context*, uint32_t), k31, kAll)                                  \
  X(inc_comp_cntr, void, (), k65, kAll)                                                       \
  X(inc_err_comp_cntr, void, (), k65, kAll)                                                   \
  X(modify_cq, int, (ibv_cq*, ibv_modify_cq_attr*), k28, kAll)                                \
  X(modify_flow_action_esp, void, (), k28, kAll)                                              \
  X(modify_qp, int, (ibv_qp*, ibv_qp_attr*, int), k28, kAll)                                  \
  X(modify_qp_rate_limit, int, (ibv_qp*, ibv_qp_rate_limit_attr*), k28, kAll)                 \
  X(modify_srq, int, (ibv_srq*, ibv_srq_attr*, int), k28, kAll)                               \
  X(modify_wq, void, (), k28, kAll)                                                           \
  X(open_qp, ibv_qp*, (ibv_context*, ibv_qp_open_attr*), k28, kAll)                           \
  X(open_xrcd, ibv_xrcd*, (ibv_context*, ibv_xrcd_init_attr*), k28, kAll)                     \
  X(poll_cq, int, (ibv_cq*, int, ibv_wc*), k28, kAll)                                         \
  X(post_recv, int, (ibv_qp*, ibv_recv_wr*, ibv_recv_wr**), k28, kAll)                        \
  X(post_send, int, (ibv_qp*, ibv_send_wr*, ibv_send_wr**), k28, kAll)                        \
  X(post_srq_ops, int, (ibv_srq*, ibv_ops_wr*, ibv_ops_wr**), k28, kAll)                      \
  X(post_srq_recv, int, (ibv_srq*, ibv_recv_wr*, ibv_recv_wr**), k28, kAll)                   \
  X(qp_attach_comp_cntr, void, (), k65, kAll)                                                 \
  X(query_comp_cntr_caps, void, (), k65, kAll)                                                \
  X(query_device, int, (ibv_context*, ibv_device_attr*), k28, k32)                            \
  X(query_device_ex, int,                                                                     \
    (ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, size_t), k28, kAll) \
  X(query_ece, int, (ibv_qp*, ibv_ece*), k31, kAll)                                           \
  X(query_port, int, (ibv_context*, uint8_t, ibv_port_attr*), k28, kAll)                      \
  X(query_port_speed, int, (ibv_context*, uint32_t, uint64_t*), k62, kAll)                    \
  X(query_qp, int, (ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*), k28, kAll)                \
  X(query_qp_data_in_order, int, (ibv_qp*, ibv_wr_opcode, uint32_t), k36, kAll)               \
  X(query_rt_values, int, (ibv_context*, ibv_values_ex*), k28, kAll)                          \
  X(query_srq, int, (ibv_srq*, ibv_srq_attr*), k28, kAll)                                     \
  X(read_comp_cntr, void, (), k65, kAll)                                                      \
  X(read_counters, void, (), k28, kAll)                                                       \
  X(read_err_comp_cntr, void, (), k65, kAll)                                                  \
  X(reg_dm_mr, ibv_mr*, (ibv_pd*, ibv_dm*, uint64_t, size_t, unsigned), k28, kAll)            \
  X(reg_dmabuf_mr, ibv_mr*, (ibv_pd*, uint64_t, size_t, uint64_t, int, int), k34, kAll)       \
  X(reg_mr, ibv_mr*, (ibv_pd*, void*, size_t, uint64_t, int), k28, kAll)                      \
  X(reg_mr_ex, void, (), k59, kAll)                                                           \
  X(req_notify_cq, int, (ibv_cq*, int), k28, kAll)                                            \
  X(rereg_mr, int, (PrivateMr*, int, ibv_pd*, void*, size_t, int), k28, kAll)                 \
  X(resize_cq, int, (ibv_cq*, int), k28, kAll)                                                \
  X(set_comp_cntr, void, (), k65, kAll)                                                       \
  X(set_ece, int, (ibv_qp*, ibv_ece*), k31, kAll)                                             \
  X(set_err_comp_cntr, void, (), k65, kAll)                                                   \
  X(unimport_dm, void, (ibv_dm*), k35, kAll)                                                  \
  X(unimport_mr, void, (ibv_mr*), k31, kAll)                                                  \
  X(unimport_pd, void, (ibv_pd*), k31, kAll)

// The type that a row gives to an operation that we never offer.
using NeverOffered = void (*)() noexcept;

// The operations that we offer are set; the others are null.
struct Ops {
#define VERBENA_OP_MEMBER(name, result, arguments, since, until) \
  result(*name) arguments noexcept = nullptr;
  VERBENA_VERBS_OPS(VERBENA_OP_MEMBER)
#undef VERBENA_OP_MEMBER
};

using AnyFunction = void (*)();

// Returns the array as a libibverbs of that generation expects it.
std::vector<AnyFunction> pack(const Ops& ops, Generation generation);

// Returns the names in the array, in order; for tests and `verbena doctor`.
std::vector<const char*> slot_names(Generation generation);

}  // namespace verbena::abi
