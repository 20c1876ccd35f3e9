// SPDX-License-Identifier: BSD-2-Clause
// The range of each attribute's value, and how attributes are called in explanations: as the
// programmer wrote them. Pure; used by check_transition only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/qp/attributes.hpp"

namespace verbena::qp {

// Every bit that ibv_modify_qp knows, supported or not.
inline constexpr std::uint32_t kKnownMask = ((1u << 21) - 1) | kMaskRateLimit;

// "IBV_QP_AV | IBV_QP_PATH_MTU"; unknown bits as one number.
std::string mask_names(std::uint32_t mask);

// What is wrong with the first bad value among those of `mask`, as the end of a sentence.
std::optional<std::string> check_values(const Attributes& wanted, std::uint32_t mask,
                                        const TransitionLimits& limits);

}  // namespace verbena::qp
