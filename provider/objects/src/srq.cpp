// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/srq.hpp"

namespace verbena::provider {
namespace {

// The queue's cookie is the object that holds it.
queue::ReceiveQueue::Options with_cookie(queue::ReceiveQueue::Options options, Srq* srq) {
  options.cookie = srq;
  return options;
}

}  // namespace

Srq::Srq(const queue::ReceiveQueue::Options& options, Context& owner, queue::EventSink& events)
    : context(owner), shared(with_cookie(options, this), events) {}

}  // namespace verbena::provider
