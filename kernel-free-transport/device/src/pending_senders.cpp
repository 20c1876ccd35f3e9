// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/device/pending_senders.hpp"

#include "verbena/base/check.hpp"

namespace verbena::device {

void PendingSenders::remove(qp::QueuePair& qp) {
  VERBENA_CHECK(touched_ == nullptr);
  // Takes all queue pairs out and puts the others back.
  each_of(pushed_.take_all(), [&](qp::QueuePair& pushed) {
    if (&pushed != &qp) pushed_.push(pushed);
  });
  if (std::exchange(qp.is_holding, false)) std::erase(holding_, &qp);
}

}  // namespace verbena::device
