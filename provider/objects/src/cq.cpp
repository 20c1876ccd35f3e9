// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/cq.hpp"

namespace verbena::provider {
namespace {

// The queue's cookie is the object that holds it.
queue::CompletionQueue::Options with_cookie(queue::CompletionQueue::Options options, Cq* cq) {
  options.cookie = cq;
  return options;
}

}  // namespace

Cq::Cq(const queue::CompletionQueue::Options& options, Context& owner, Engine& first,
       queue::EventSink& events)
    : context(owner), engine(&first), queue(with_cookie(options, this), events) {}

}  // namespace verbena::provider
