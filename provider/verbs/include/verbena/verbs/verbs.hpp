// SPDX-License-Identifier: BSD-2-Clause
// The verbs as libibverbs calls them, each group in its own file. guard.hpp has the conventions.
#pragma once

#include "verbena/abi/ops.hpp"

namespace verbena::provider {

// Set the operations that are offered. libibverbs answers EOPNOTSUPP for any other.
void offer_device_verbs(abi::Ops& ops);               // src/device.cpp
void offer_memory_verbs(abi::Ops& ops);               // src/memory.cpp
void offer_device_memory_verbs(abi::Ops& ops);        // src/device_memory.cpp
void offer_import_verbs(abi::Ops& ops);               // src/import.cpp
void offer_window_verbs(abi::Ops& ops);               // src/window.cpp
void offer_completion_verbs(abi::Ops& ops);           // src/completion.cpp
void offer_extended_completion_verbs(abi::Ops& ops);  // src/completion_ex.cpp
void offer_shared_receive_verbs(abi::Ops& ops);       // src/shared_receive.cpp
void offer_tag_matching_verbs(abi::Ops& ops);         // src/tag_matching.cpp
void offer_queue_pair_verbs(abi::Ops& ops);           // src/queue_pair.cpp
void offer_state_verbs(abi::Ops& ops);                // src/state.cpp
void offer_post_verbs(abi::Ops& ops);                 // src/post.cpp
void offer_address_verbs(abi::Ops& ops);              // src/address.cpp
void offer_xrc_verbs(abi::Ops& ops);                  // src/xrc.cpp

// Sets the ibv_wr_* functions of an extended queue pair (src/builder_functions.cpp).
struct BuilderSlots {
  bool atomic_write = false;  // libibverbs has a place for it
  bool flush = false;
};
void install_builder(struct Qp& qp, const BuilderSlots& slots);

}  // namespace verbena::provider
