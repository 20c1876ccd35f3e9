// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/pd.hpp"

#include "verbena/objects/dead_handles.hpp"

namespace verbena::provider {

void Pd::release_user() noexcept {
  if (users.remove() != 0 || !imported) return;
  if (parent != nullptr) parent->users.remove();
  bury(*this);
}

}  // namespace verbena::provider
