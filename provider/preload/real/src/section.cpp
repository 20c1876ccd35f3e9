// SPDX-License-Identifier: BSD-2-Clause
#include "real/section.hpp"

namespace verbena::preload {

constinit thread_local bool Section::inside_ = false;

}  // namespace verbena::preload
