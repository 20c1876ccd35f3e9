// Between the verbs' structures and the engine's values, one for one.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "verbena/base/address_plan.hpp"
#include "verbena/memory/registry.hpp"
#include "verbena/qp/attributes.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::provider {

inline Gid gid_of(const ibv_gid& gid) {
  Gid out;
  std::memcpy(out.bytes.data(), gid.raw, out.bytes.size());
  return out;
}

// The verbs' numbers, also those that the headers of some distributions do not have yet.
namespace wr {
inline constexpr unsigned kFlush = 14;
inline constexpr unsigned kAtomicWrite = 15;
}  // namespace wr

std::optional<Transport> transport_of(ibv_qp_type type);
ibv_qp_type qp_type_of(Transport transport);
std::optional<queue::WorkOpcode> opcode_of(ibv_wr_opcode opcode);
ibv_wc_opcode wc_opcode_of(queue::CompletionOpcode opcode);
unsigned wc_flags_of(std::uint16_t flags);
void fill(ibv_wc& wc, const queue::Completion& c);

// Where an address vector leads by the fabric's plan; `resolved` says whether anywhere.
qp::Path path_of(const ibv_ah_attr& ah, const AddressPlan& plan);
ibv_ah_attr ah_attr_of(const qp::Path& path);

int errno_of_refusal(memory::Refusal refusal);

}  // namespace verbena::provider
