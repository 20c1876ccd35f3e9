// SPDX-License-Identifier: BSD-2-Clause
// Asynchronous events that a user raises (`verbena event`) to see how a program takes them.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/types.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

// Each event has the number of its ibv_event_type.
enum class RaisedEvent : std::uint32_t {
  kQpFatal = 1,             // takes the queue pair to its error state
  kPathMigrationError = 7,  // event of a queue pair
  kSrqError = 14,           // event of a shared receive queue
  kClientReregister = 17,   // event of the port
  kWqFatal = 19,            // event of a work queue; there are none, so one stands for all
};

// Goes from `verbena event` to the daemon, and on to the contexts that it concerns. The context
// that has the queue pair or the shared receive queue answers with Ack or Refused, with the
// sequence of the question.
struct RaiseEvent {
  std::string device;
  RaisedEvent event = RaisedEvent::kClientReregister;
  std::uint32_t number = 0;  // number of the queue; 0 if the event is the port's
  // Names a queue pair in place of the number: the process created it as its `place`-th. It must be
  // able to send.
  std::uint32_t place = 0;
  VERBENA_MESSAGE(kRaiseEvent) { a(m.device, m.event, m.number, m.place); }
};

// Numbers of shared receive queues. An XRC SRQ, which senders name, has a number like that of a
// queue pair. Other SRQs are counted from the slot of their context:  1 | slot (10) | count (21)
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
