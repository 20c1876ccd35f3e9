// SPDX-License-Identifier: BSD-2-Clause
// Asynchronous events that a person asks for (`verbena event`), to see how a program takes them.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/types.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

// Each has the number of its ibv_event_type.
enum class RaisedEvent : std::uint32_t {
  kQpFatal = 1,             // takes the queue pair to its error state
  kPathMigrationError = 7,  // of a queue pair
  kSrqError = 14,           // of a shared receive queue
  kClientReregister = 17,   // of the port
  kWqFatal = 19,            // of a work queue; there are none, one stands for them
};

// From `verbena event` to the daemon, and on to the contexts that it concerns. The one that has the
// queue pair or the shared receive queue answers by Ack or Refused, with the question's sequence.
struct RaiseEvent {
  std::string device;
  RaisedEvent event = RaisedEvent::kClientReregister;
  std::uint32_t number = 0;  // of that queue; else 0
  // Instead of the number: the place of a queue pair among those of its process. It has to be
  // able to send.
  std::uint32_t place = 0;
  VERBENA_MESSAGE(kRaiseEvent) { a(m.device, m.event, m.number, m.place); }
};

// Shared receive queues have numbers, too. Those of XRC, which senders name, are made as those of
// queue pairs are; the others count from the slot of their context on:  1 | slot (10) | count (21)
inline constexpr std::uint32_t kPlainSrq = 0x80000000u;
inline constexpr unsigned kPlainSrqCountBits = 21;
constexpr std::uint32_t plain_srq_number(std::uint32_t slot, std::uint32_t count) {
  return kPlainSrq | slot << kPlainSrqCountBits | (count & ((1u << kPlainSrqCountBits) - 1));
}
constexpr std::uint32_t slot_of_srq(std::uint32_t number) {
  return (number & kPlainSrq) != 0 ? (number & ~kPlainSrq) >> kPlainSrqCountBits
                                   : Qpn(number).slot();
}

}  // namespace verbena::control
