// SPDX-License-Identifier: BSD-2-Clause
// Tells which private interface a libibverbs has.
//
// rdma-core's interface between libibverbs and its providers is private and changes. The number in
// its symbol versions (PABI) alone does not identify the layout; it does together with the
// library's newest public symbol. A generation is named after the first release that has it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace verbena::abi {

enum Generation : std::uint8_t {
  k28,
  k30,
  k31,
  k32,
  k33,
  k34,
  k35,
  k36,
  k57,
  k59,
  k62,
  k64,
  k65,
  kGenerations,
  kAll = kGenerations - 1,
};

struct Layout {
  Generation generation = k28;
  unsigned pabi = 0;   // IBVERBS_PRIVATE_<pabi>
  unsigned minor = 0;  // libibverbs.so.1.<minor>
  unsigned slots = 0;  // operations in the array
  const char* releases = "";
  const char* newest = "";  // the public symbol that came with the minor
};

inline constexpr std::array<Layout, kGenerations> kLayouts{{
    {k28, 25, 8, 67, "v28-v29", "ibv_reg_mr_iova2"},
    {k30, 25, 9, 67, "v30", "ibv_get_device_index"},
    {k31, 25, 10, 73, "v31", "ibv_import_device"},
    {k32, 25, 11, 73, "v32", "_ibv_query_gid_ex"},
    {k33, 33, 11, 72, "v33", "_ibv_query_gid_ex"},
    {k34, 34, 12, 73, "v34", "ibv_reg_dmabuf_mr"},
    {k35, 34, 13, 75, "v35", "ibv_import_dm"},
    {k36, 34, 14, 76, "v36-v56", "ibv_query_qp_data_in_order"},
    {k57, 57, 14, 76, "v57-v58", "ibv_query_qp_data_in_order"},
    {k59, 59, 15, 79, "v59-v61", "ibv_reg_mr_ex"},
    {k62, 59, 16, 81, "v62-v63", "ibv_query_port_speed"},
    {k64, 64, 17, 83, "v64", "ibv_alloc_buf"},
    {k65, 65, 18, 93, "v65", "ibv_create_comp_cntr"},
}};

// Returns the layout of a generation.
constexpr const Layout& layout(Generation generation) { return kLayouts[generation]; }

// Returns the generation of a library with this PABI, whose newest public symbol came with this
// minor.
constexpr std::optional<Generation> recognise(unsigned pabi, unsigned minor) {
  for (const Layout& l : kLayouts) {
    if (l.pabi == pabi && l.minor == minor) return l.generation;
  }
  return std::nullopt;
}

}  // namespace verbena::abi
