// SPDX-License-Identifier: BSD-2-Clause
// Checks the range of each attribute, and names attributes in explanations as the programmer wrote
// them. Pure; only check_transition uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/qp/attributes.hpp"

namespace verbena::qp {

// All bits that ibv_modify_qp knows, supported or not.
inline constexpr std::uint32_t kKnownMask = ((1u << 21) - 1) | kMaskRateLimit;

// Returns names like "IBV_QP_AV | IBV_QP_PATH_MTU"; unknown bits become one number.
std::string mask_names(std::uint32_t mask);

// Returns what is wrong with the first bad value in `mask`, as the end of a sentence.
std::optional<std::string> check_values(const Attributes& wanted, std::uint32_t mask,
                                        const TransitionLimits& limits);

}  // namespace verbena::qp
