// SPDX-License-Identifier: BSD-2-Clause
// The user ABI of rdma_cm: turns what a program writes to /dev/infiniband/rdma_cm into calls on
// RdmaCm, and their results into answers in the layouts of Linux. Knows every command of every
// rdma-core since v28: fields that a shorter, older command lacks count as zero, and an answer is
// cut to the caller's buffer. The worst that any bytes can cause is an errno. One thread at a time,
// as RdmaCm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

struct UcmaReply {
  int error = 0;                       // errno; 0: the write took everything
  std::uint64_t response_address = 0;  // where in the caller's memory `response` belongs
  std::vector<std::uint8_t> response;
  // The number of events that the channel's descriptor has announced and that have been removed.
  std::uint32_t withdrawn = 0;
  // For an ID that was destroyed: its program's name for it, and how many of its events were read.
  std::uint64_t destroyed_uid = 0;
  std::uint32_t destroyed_events = 0;
};

// What QUERY or INIT_QP_ATTR answers, or the promise that CONNECT or ACCEPT succeeds
// (control/cm_answers.hpp). `argument` is the option of QUERY or the state of INIT_QP_ATTR.
struct UcmaAnswer {
  std::uint32_t command = 0;
  std::uint32_t argument = 0;
  std::span<const std::uint8_t> response;
};

class Ucma {
 public:
  static constexpr std::size_t kHeaderSize = 8;  // u32 command, u16 in, u16 out

  explicit Ucma(RdmaCm& cm) : cm_(cm) {}

  // `command` is the written buffer. `attached` is the value of SET_OPTION, to which the command
  // points in the caller's memory. `other` is the channel behind the descriptor that MIGRATE_ID
  // names. GET_EVENT without an event gives EAGAIN.
  UcmaReply execute(TimeNs now, ChannelId channel, std::span<const std::uint8_t> command,
                    std::span<const std::uint8_t> attached = {}, ChannelId other = 0);
  static bool is_get_event(std::span<const std::uint8_t> command);

  // event_bytes() returns an event as GET_EVENT answers it. answers_after() gives the answers to
  // what librdmacm asks next about the ID that the event brings (ucma_answers.cpp).
  static constexpr std::size_t kEventSize = 336;
  static std::array<std::uint8_t, kEventSize> event_bytes(const RdmaEvent& event);
  // `take` must copy what it wants to keep.
  void answers_after(ChannelId channel, const RdmaEvent& event,
                     const std::function<void(const UcmaAnswer&)>& take);
  // Says whether answers_after() gives promises. At first it does.
  void set_promising(bool is_promising) { is_promising_ = is_promising; }

 private:
  // Does what execute() does, and puts the response into the memory of `response`.
  UcmaReply execute_in(std::vector<std::uint8_t> response, TimeNs now, ChannelId channel,
                       std::span<const std::uint8_t> command,
                       std::span<const std::uint8_t> attached, ChannelId other);

  RdmaCm& cm_;
  std::vector<std::uint8_t> spare_;  // memory for answers
  bool is_promising_ = true;
};

}  // namespace verbena::cm
