// Verbs that fail because somebody asked for it, to see what a program does then. VERBENA_FAIL
// holds items with commas between them:
//
//   ibv_reg_mr=ENOMEM       each call of this verb fails so
//   ibv_post_send=ENOMEM@3  the third call of the process does, no other
//   ibv_modify_qp=EIO@5+    the fifth and all after it do
//
// A verb that nobody named is not in the least slower.
#pragma once

#include "verbena/abi/ops.hpp"

namespace verbena::provider {

// Puts a failing verb before each that is named. Throws std::invalid_argument with what is wrong
// in the list.
void plan_failures(abi::Ops& ops, const char* list);

}  // namespace verbena::provider
