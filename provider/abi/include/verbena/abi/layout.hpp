// SPDX-License-Identifier: BSD-2-Clause
// Tells which private interface a libibverbs has.
//
// rdma-core's interface between libibverbs and its providers is private and changes. The number in
// its symbol versions (PABI) alone does not identify the layout; it does together with the
// library's newest public symbol. A generation is named after the first release that has it.
#pragma once

#include <cstddef>
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
};

// Returns the layout of a generation.
const Layout& layout(Generation generation);

// Returns the generation of a library with this PABI, whose newest public symbol came with this
// minor.
std::optional<Generation> recognise(unsigned pabi, unsigned minor);

// The PABIs to look for, newest first, up to a 0, and the public symbol that came with each minor.
inline constexpr unsigned kPabis[] = {65, 64, 59, 57, 34, 33, 25, 0};
struct Marker {
  unsigned minor;
  const char* symbol;
};
inline constexpr Marker kMarkers[] = {
    {18, "ibv_create_comp_cntr"},
    {17, "ibv_alloc_buf"},
    {16, "ibv_query_port_speed"},
    {15, "ibv_reg_mr_ex"},
    {14, "ibv_query_qp_data_in_order"},
    {13, "ibv_import_dm"},
    {12, "ibv_reg_dmabuf_mr"},
    {11, "_ibv_query_gid_ex"},
    {10, "ibv_import_device"},
    {9, "ibv_get_device_index"},
    {8, "ibv_reg_mr_iova2"},
};

}  // namespace verbena::abi
