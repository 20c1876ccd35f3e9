// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/abi/ops.hpp"

namespace verbena::abi {
namespace {

constexpr bool stands(Generation in, Generation since, Generation until) {
  return since <= in && in <= until;
}

}  // namespace

std::vector<AnyFunction> pack(const Ops& ops, Generation generation) {
  std::vector<AnyFunction> slots;
  slots.reserve(layout(generation).slots);
#define VERBENA_PACK_OP(name, result, arguments, since, until) \
  if (stands(generation, since, until)) slots.push_back(reinterpret_cast<AnyFunction>(ops.name));
  VERBENA_VERBS_OPS(VERBENA_PACK_OP)
#undef VERBENA_PACK_OP
  return slots;
}

std::vector<const char*> slot_names(Generation generation) {
  std::vector<const char*> names;
#define VERBENA_NAME_OP(name, result, arguments, since, until) \
  if (stands(generation, since, until)) names.push_back(#name);
  VERBENA_VERBS_OPS(VERBENA_NAME_OP)
#undef VERBENA_NAME_OP
  return names;
}

}  // namespace verbena::abi
