// SPDX-License-Identifier: BSD-2-Clause
// Completion queues and shared receive queues.
#include <cerrno>
#include <climits>

#include "refusals.hpp"

namespace refusals {
namespace {

constexpr int kMaxCqe = 4194304;

int cq(Case& c, int cqe, int vector = 0, ibv_comp_channel* channel = nullptr) {
  return made(ibv_create_cq(c.w.context, cqe, nullptr, channel, vector));
}

int cq_ex(Case& c, void (*change)(Case&, ibv_cq_init_attr_ex&)) {
  ibv_cq_init_attr_ex a{};
  a.cqe = 10;
  a.wc_flags = IBV_WC_STANDARD_FLAGS;
  change(c, a);
  return made(ibv_create_cq_ex(c.w.context, &a));
}

int srq(Case& c, std::uint32_t max_wr, std::uint32_t max_sge) {
  ibv_srq_init_attr a{};
  a.attr = {max_wr, max_sge, 0};
  return made(ibv_create_srq(c.w.pd, &a));
}

// Makes a tag-matching SRQ, with one thing changed.
int srq_ex(Case& c, void (*change)(Case&, ibv_srq_init_attr_ex&)) {
  ibv_srq_init_attr_ex a{};
  a.attr = {10, 1, 0};
  a.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_TM;
  a.srq_type = IBV_SRQT_TM;
  a.pd = c.w.pd;
  a.cq = c.w.cq;
  a.xrcd = c.w.xrcd;
  a.tm_cap = {10, 10};
  change(c, a);
  return made(ibv_create_srq_ex(c.w.context, &a));
}
int modify(ibv_srq* which, std::uint32_t max_wr, std::uint32_t limit, int mask) {
  ibv_srq_attr a{max_wr, 1, limit};
  return ibv_modify_srq(which, &a, mask);
}

int moderate(Case& c, std::uint32_t mask) {
  ibv_modify_cq_attr a{};
  a.attr_mask = mask;
  return ibv_modify_cq(c.w.cq, &a);
}

// Posts a receive. If it is refused, *bad_wr must point to it.
int post(ibv_srq* which, ibv_sge* list, int count) {
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.sg_list = list;
  wr.num_sge = count;
  const int error = ibv_post_srq_recv(which, &wr, &bad);
  return error != 0 && bad != &wr ? -1 : error;
}

int post_ops(ibv_srq* which, void (*change)(ibv_ops_wr&)) {
  ibv_sge sges[kAnySge + 1] = {};
  ibv_ops_wr wr{};
  ibv_ops_wr* bad = nullptr;
  wr.opcode = IBV_WR_TAG_ADD;
  wr.tm.add.sg_list = sges;
  wr.tm.add.num_sge = 1;
  change(wr);
  const int error = ibv_post_srq_ops(which, &wr, &bad);
  return error != 0 && bad != &wr ? -1 : error;
}

}  // namespace

std::vector<Row> completion_rows() {
  return {
      {"ibv_create_cq", "cqe 0", EINVAL, "cqe = 0", [](Case& c) { return cq(c, 0); }}
      // namespace refusals
      ,
      {"ibv_create_cq", "cqe negative", EINVAL, "cqe = -1", [](Case& c) { return cq(c, -1); }},
      {"ibv_create_cq", "cqe beyond max_cqe", EINVAL, "max_cqe",
       [](Case& c) { return cq(c, kMaxCqe + 1); }},
      {"ibv_create_cq", "cqe INT_MAX", EINVAL, "max_cqe", [](Case& c) { return cq(c, INT_MAX); }},
      {"ibv_create_cq", "vector 1", EINVAL, "num_comp_vectors",
       [](Case& c) { return cq(c, 1, 1); }},
      {"ibv_create_cq", "vector negative", EINVAL, "comp_vector = -1,",
       [](Case& c) { return cq(c, 1, -1); }},
      {"ibv_create_cq", "foreign channel", EINVAL, "channel belongs to another",
       [](Case& c) { return cq(c, 1, 0, c.foreign.channel); }},
      {"ibv_create_cq_ex", "cqe 0", EINVAL, "cqe = 0",
       [](Case& c) { return cq_ex(c, [](Case& k, auto& a) { a.cqe = 0; }); }},
      {"ibv_create_cq_ex", "cqe beyond max_cqe", EINVAL, "max_cqe",
       [](Case& c) { return cq_ex(c, [](Case& k, auto& a) { a.cqe = kMaxCqe + 1; }); }},
      {"ibv_create_cq_ex", "vector 7", EINVAL, "comp_vector = 7",
       [](Case& c) { return cq_ex(c, [](Case& k, auto& a) { a.comp_vector = 7; }); }},
      {"ibv_create_cq_ex", "unknown wc_flags", EOPNOTSUPP, nullptr,
       [](Case& c) { return cq_ex(c, [](Case& k, auto& a) { a.wc_flags = 1ull << 40; }); }},
      {"ibv_create_cq_ex", "unknown comp_mask", EOPNOTSUPP, "unknown bits in comp_mask",
       [](Case& c) { return cq_ex(c, [](Case& k, auto& a) { a.comp_mask = 1u << 20; }); }},
      {"ibv_create_cq_ex", "unknown flags", EOPNOTSUPP, "unknown flags",
       [](Case& c) {
         return cq_ex(c, [](Case& k, auto& a) {
           a.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
           a.flags = 1u << 20;
         });
       }},
      {"ibv_create_cq_ex", "parent domain NULL", EINVAL, "parent_domain is NULL",
       [](Case& c) {
         return cq_ex(c, [](Case& k, auto& a) { a.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD; });
       }},
      {"ibv_create_cq_ex", "foreign parent domain", EINVAL, "parent_domain belongs to another",
       [](Case& c) {
         return cq_ex(c, [](Case& k, auto& a) {
           a.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
           a.parent_domain = k.foreign.pd;
         });
       }},
      {"ibv_resize_cq", "0", EINVAL, "cqe = 0", [](Case& c) { return ibv_resize_cq(c.w.cq, 0); }},
      {"ibv_resize_cq", "negative", EINVAL, "cqe = -5",
       [](Case& c) { return ibv_resize_cq(c.w.cq, -5); }},
      {"ibv_resize_cq", "beyond max_cqe", EINVAL, "max_cqe",
       [](Case& c) { return ibv_resize_cq(c.w.cq, kMaxCqe + 1); }},
      {"ibv_modify_cq", "attr NULL", EINVAL, "attr is NULL",
       [](Case& c) { return ibv_modify_cq(c.w.cq, nullptr); }},
      {"ibv_modify_cq", "nothing to modify", EINVAL, "attr_mask = 0x0",
       [](Case& c) { return moderate(c, 0); }},
      {"ibv_modify_cq", "unknown attr_mask", EINVAL, "attr_mask = 0x10",
       [](Case& c) { return moderate(c, 16); }},
      {"ibv_destroy_cq", "in use", EBUSY, "queue pairs or SRQs use it, ",
       [](Case& c) { return ibv_destroy_cq(c.w.cq); }},
      {"ibv_destroy_comp_channel", "in use", EBUSY, nullptr,
       [](Case& c) { return ibv_destroy_comp_channel(c.w.channel); }},
      {"ibv_poll_cq", "no room", 0, nullptr,
       [](Case& c) {
         ibv_wc wc;
         return ibv_poll_cq(c.w.cq, 0, &wc) + ibv_poll_cq(c.w.cq, -3, &wc);
       }},
      {"ibv_start_poll", "unknown comp_mask", EINVAL, "comp_mask = 0x1",
       [](Case& c) {
         ibv_poll_cq_attr a{1};
         return ibv_start_poll(c.w.cq_ex, &a);
       }},
      {"ibv_start_poll", "fields are read outside of it", 0, nullptr,
       [](Case& c) {
         const auto fields = [&] {
           return ibv_wc_read_opcode(c.w.cq_ex) + ibv_wc_read_byte_len(c.w.cq_ex) +
                  ibv_wc_read_wc_flags(c.w.cq_ex);
         };
         ibv_poll_cq_attr a{};
         const auto before = fields();
         if (ibv_start_poll(c.w.cq_ex, &a) != ENOENT) return -1;
         return fields() == before ? 0 : -1;
       }},
  };
}

std::vector<Row> shared_receive_rows() {
  return {
      {"ibv_create_srq", "attr NULL", EINVAL, "srq_init_attr is NULL",
       [](Case& c) { return made(ibv_create_srq(c.w.pd, nullptr)); }},
      {"ibv_create_srq", "max_wr 0", EINVAL, "max_wr = 0", [](Case& c) { return srq(c, 0, 1); }},
      {"ibv_create_srq", "max_wr beyond max_srq_wr", EINVAL, "max_srq_wr",
       [](Case& c) { return srq(c, kMaxWr + 1, 1); }},
      {"ibv_create_srq", "max_sge beyond max_srq_sge", EINVAL, "max_srq_sge",
       [](Case& c) { return srq(c, 1, kMaxSge + 1); }},
      {"ibv_create_srq_ex", "unknown comp_mask", EINVAL, "unknown bits in comp_mask",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.comp_mask |= 1u << 20; }); }},
      {"ibv_create_srq_ex", "unknown type", EOPNOTSUPP, "srq_type = 77",
       [](Case& c) {
         return srq_ex(c, [](Case& k, auto& a) { a.srq_type = static_cast<ibv_srq_type>(77); });
       }},
      {"ibv_create_srq_ex", "no pd", EINVAL, "lacks a pd",
       [](Case& c) {
         return srq_ex(c, [](Case& k, auto& a) { a.comp_mask &= ~IBV_SRQ_INIT_ATTR_PD; });
       }},
      {"ibv_create_srq_ex", "pd NULL", EINVAL, "pd is NULL",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.pd = nullptr; }); }},
      {"ibv_create_srq_ex", "foreign pd", EINVAL, "pd belongs to another",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.pd = k.foreign.pd; }); }},
      {"ibv_create_srq_ex", "XRC without a domain", EINVAL, "needs an xrcd",
       [](Case& c) {
         return srq_ex(c, [](Case& k, auto& a) {
           a.srq_type = IBV_SRQT_XRC;
           a.comp_mask &= ~IBV_SRQ_INIT_ATTR_XRCD;
         });
       }},
      {"ibv_create_srq_ex", "foreign xrcd", EINVAL, "xrcd belongs to another",
       [](Case& c) {
         return srq_ex(c, [](Case& k, auto& a) {
           a.srq_type = IBV_SRQT_XRC;
           a.xrcd = k.foreign.xrcd;
         });
       }},
      {"ibv_create_srq_ex", "foreign cq", EINVAL, "cq belongs to another",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.cq = k.foreign.cq; }); }},
      {"ibv_create_srq_ex", "cq NULL", EINVAL, "cq is NULL",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.cq = nullptr; }); }},
      {"ibv_create_srq_ex", "no tm_cap", EINVAL, "needs a cq and tm_cap",
       [](Case& c) {
         return srq_ex(c, [](Case& k, auto& a) { a.comp_mask &= ~IBV_SRQ_INIT_ATTR_TM; });
       }},
      {"ibv_create_srq_ex", "no tags", EINVAL, "max_num_tags = 0",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.tm_cap.max_num_tags = 0; }); }},
      {"ibv_create_srq_ex", "too many tags", EINVAL, "max_num_tags = 16385",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.tm_cap.max_num_tags = 16385; }); }},
      {"ibv_create_srq_ex", "too many operations", EINVAL, "max_ops = 16385",
       [](Case& c) { return srq_ex(c, [](Case& k, auto& a) { a.tm_cap.max_ops = 16385; }); }},
      {"ibv_modify_srq", "attr NULL", EINVAL, "srq_attr is NULL",
       [](Case& c) { return ibv_modify_srq(c.w.srq, nullptr, IBV_SRQ_LIMIT); }},
      {"ibv_modify_srq", "unknown mask", EINVAL, "unknown bits",
       [](Case& c) { return modify(c.w.srq, kQueue, 0, 64); }},
      {"ibv_modify_srq", "limit beyond max_wr", EINVAL, "srq_limit = 5",
       [](Case& c) { return modify(c.w.srq, kQueue, kQueue + 1, IBV_SRQ_LIMIT); }},
      {"ibv_modify_srq", "resize to 0", EINVAL, "max_wr = 0",
       [](Case& c) { return modify(c.w.srq, 0, 0, IBV_SRQ_MAX_WR); }},
      {"ibv_modify_srq", "resize below what is posted", EINVAL, "more receives are posted",
       [](Case& c) { return modify(c.w.srq, kQueue - 1, 0, IBV_SRQ_MAX_WR); }},
      {"ibv_modify_srq", "resize beyond max_srq_wr", EINVAL, "max_srq_wr",
       [](Case& c) { return modify(c.w.srq, kMaxWr + 1, 0, IBV_SRQ_MAX_WR); }},
      {"ibv_query_srq", "attr NULL", EINVAL, "srq_attr is NULL",
       [](Case& c) { return ibv_query_srq(c.w.srq, nullptr); }},
      {"ibv_get_srq_num", "of a basic one", EOPNOTSUPP, "only XRC SRQs",
       [](Case& c) {
         std::uint32_t number;
         return ibv_get_srq_num(c.w.srq, &number);
       }},
      {"ibv_get_srq_num", "srq_num NULL", EINVAL, "srq_num is NULL",
       [](Case& c) { return ibv_get_srq_num(c.w.xrc_srq, nullptr); }},
      {"ibv_destroy_srq", "in use", EBUSY, "queue pairs use it",
       [](Case& c) { return ibv_destroy_srq(c.w.srq); }},
      {"ibv_post_srq_recv", "full", ENOMEM, "the receive queue is full",
       [](Case& c) { return post(c.w.srq, nullptr, 0); }},
      {"ibv_post_srq_recv", "too many elements", EINVAL, "num_sge = 2 is more than max_sge = 1",
       [](Case& c) {
         ibv_sge two[2] = {};
         return post(c.w.xrc_srq, two, 2);
       }},
      {"ibv_post_srq_recv", "negative num_sge", EINVAL, "num_sge = -1",
       [](Case& c) { return post(c.w.xrc_srq, nullptr, -1); }},
      {"ibv_post_srq_recv", "sg_list NULL", EINVAL, "sg_list is NULL",
       [](Case& c) { return post(c.w.xrc_srq, nullptr, 1); }},
      {"ibv_post_srq_ops", "an SRQ without tags", EINVAL, "not of type IBV_SRQT_TM",
       [](Case& c) { return post_ops(c.w.srq, [](ibv_ops_wr&) {}); }},
      {"ibv_post_srq_ops", "list full", ENOMEM, "max_num_tags = 1",
       [](Case& c) { return post_ops(c.w.tm_srq, [](ibv_ops_wr&) {}); }},
      {"ibv_post_srq_ops", "unknown opcode", EINVAL, "opcode = 9",
       [](Case& c) {
         return post_ops(c.w.tm_srq,
                         [](ibv_ops_wr& wr) { wr.opcode = static_cast<ibv_ops_wr_opcode>(9); });
       }},
      {"ibv_post_srq_ops", "unknown flags", EINVAL, "unknown flags",
       [](Case& c) { return post_ops(c.w.tm_srq, [](ibv_ops_wr& wr) { wr.flags = 64; }); }},
      {"ibv_post_srq_ops", "too many elements", EINVAL, "num_sge = 33",
       [](Case& c) {
         return post_ops(c.w.tm_srq, [](ibv_ops_wr& wr) { wr.tm.add.num_sge = 33; });
       }},
      {"ibv_post_srq_ops", "more elements than max_sge", EINVAL, "more than a tagged buffer takes",
       [](Case& c) { return post_ops(c.w.tm_srq, [](ibv_ops_wr& wr) { wr.tm.add.num_sge = 2; }); }},
      {"ibv_post_srq_ops", "sg_list NULL", EINVAL, "sg_list is NULL",
       [](Case& c) {
         return post_ops(c.w.tm_srq, [](ibv_ops_wr& wr) { wr.tm.add.sg_list = nullptr; });
       }},
  };
}

}  // namespace refusals
