// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/send_completions.hpp"

#include <utility>

#include "rendezvous.hpp"

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;

namespace {

queue::CompletionOpcode completion_opcode(WorkOpcode opcode) {
  using C = queue::CompletionOpcode;
  switch (opcode) {
    case WorkOpcode::kSend:
    case WorkOpcode::kSendImmediate:
    case WorkOpcode::kSendInvalidate:
      return C::kSend;
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteImmediate:
      return C::kWrite;
    case WorkOpcode::kRead:
      return C::kRead;
    case WorkOpcode::kCompareSwap:
      return C::kCompareSwap;
    case WorkOpcode::kFetchAdd:
      return C::kFetchAdd;
    case WorkOpcode::kAtomicWrite:
      return C::kAtomicWrite;
    case WorkOpcode::kFlush:
      return C::kFlush;
    case WorkOpcode::kLocalInvalidate:
      return C::kLocalInvalidate;
    case WorkOpcode::kBindWindow:
      return C::kBindWindow;
  }
  return C::kSend;
}

}  // namespace

void SendCompletions::complete(const SendQueue& queue, Status status) {
  const SendEntry& entry = queue.at(queue.head());
  if (entry.internal) [[unlikely]]
    return complete_rendezvous(endpoint_, entry, queue.rare(queue.head()), status);
  ++unreported_;
  if (status == Status::kSuccess) {
    if (!endpoint_.signal_all && (entry.flags & queue::kSignaled) == 0) return;
  } else if (status != Status::kFlushed) {
    endpoint_.port->requester_errors.add();
    queue::tell_failure(endpoint_, status, to_string(entry.opcode), entry.id,
                        endpoint_.reason.text());
  }
  const auto make = [&](queue::Completion& c) {
    c.id = entry.id;
    c.status = status;
    c.opcode = completion_opcode(entry.opcode);
    c.vendor_error = static_cast<std::uint32_t>(status);
    c.byte_length = entry.length;
    c.qpn = endpoint_.number.value();
    c.account = endpoint_.send_account;
    c.slots = std::exchange(unreported_, 0);
  };
  if (!endpoint_.send_cq->push_made(false, make)) endpoint_.fail_for_want_of_room();
}

}  // namespace verbena::requester
