// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/device/pending_senders.hpp"

#include "verbena/base/check.hpp"

namespace verbena::device {

void PendingSenders::remove(qp::QueuePair& qp) {
  VERBENA_CHECK(touched_ == nullptr);
  // It is taken out with all the others, which go back in.
  each_of(pushed_.take_all(), [&](qp::QueuePair& pushed) {
    if (&pushed != &qp) pushed_.push(pushed);
  });
  if (std::exchange(qp.is_holding, false)) std::erase(holding_, &qp);
}

}  // namespace verbena::device
