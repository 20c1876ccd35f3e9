// SPDX-License-Identifier: BSD-2-Clause
#include <array>

#include "nodes/node.hpp"
#include "rdma_cm/rdma_cm.hpp"
#include "uverbs/uverbs.hpp"

namespace verbena::preload {

constinit const std::array<const NodeClass*, 2> kNodeClasses{&kUverbsClass, &kRdmaCmClass};

}  // namespace verbena::preload
