// SPDX-License-Identifier: BSD-2-Clause
// The user ABI of rdma_cm: what a program writes to /dev/infiniband/rdma_cm, turned into calls on
// RdmaCm, and the answers in the layouts of Linux. Every command of every rdma-core since v28:
// what a shorter, older command leaves out counts as zero, and an answer is cut to the room that
// the caller gave. Whatever is written, nothing worse than an errno comes of it. One thread at a
// time, as RdmaCm.
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
  // Events that the channel's descriptor has announced and that are not there any more.
  std::uint32_t withdrawn = 0;
};

// What QUERY (of this option) or INIT_QP_ATTR (of this state) answers, or the promise that CONNECT
// or ACCEPT succeeds (control/cm_answers.hpp).
struct UcmaAnswer {
  std::uint32_t command = 0;
  std::uint32_t argument = 0;
  std::span<const std::uint8_t> response;
};

class Ucma {
 public:
  static constexpr std::size_t kHeaderSize = 8;  // u32 command, u16 in, u16 out

  explicit Ucma(RdmaCm& cm) : cm_(cm) {}

  // `command` is the written buffer. `attached` is what it points to in the caller's memory: the
  // value of SET_OPTION. `other` is the channel behind the descriptor that MIGRATE_ID names.
  // GET_EVENT without an event is EAGAIN.
  UcmaReply execute(TimeNs now, ChannelId channel, std::span<const std::uint8_t> command,
                    std::span<const std::uint8_t> attached = {}, ChannelId other = 0);
  static bool is_get_event(std::span<const std::uint8_t> command);

  // An event as GET_EVENT answers it, and the answers to what librdmacm asks next of the ID that it
  // brings (ucma_answers.cpp).
  static constexpr std::size_t kEventSize = 336;
  static std::array<std::uint8_t, kEventSize> event_bytes(const RdmaEvent& event);
  // `take` copies what it wants to keep.
  void answers_after(ChannelId channel, const RdmaEvent& event,
                     const std::function<void(const UcmaAnswer&)>& take);
  // Whether promises are among these. At first they are.
  void set_promising(bool is_promising) { is_promising_ = is_promising; }

 private:
  // As execute; the response is put into the memory of this one.
  UcmaReply execute_in(std::vector<std::uint8_t> response, TimeNs now, ChannelId channel,
                       std::span<const std::uint8_t> command,
                       std::span<const std::uint8_t> attached, ChannelId other);

  RdmaCm& cm_;
  std::vector<std::uint8_t> spare_;  // memory for answers
  bool is_promising_ = true;
};

}  // namespace verbena::cm
