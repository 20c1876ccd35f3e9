// SPDX-License-Identifier: BSD-2-Clause
// What a library asks of an rdma_cm ID after an event is known beforehand: the addresses, the path,
// the attributes of its queue pair. The daemon lays the answers beside the event, and the preload
// library gives them without asking, until a command changes the ID. Of the command that comes next
// it is known that it will succeed: so an answer may be a promise, too. Pure.
//
// An answer: u32 command, u32 argument (the option of QUERY, the state of INIT_QP_ATTR), u32
// length, and so many bytes as the daemon would answer. They follow each other as they stand in
// memory: daemon and program are on one machine. A promise: the command, 1 if it has parameters of
// a connection (CONNECT and ACCEPT), and one byte: how much private data it may have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace verbena::control {

struct CmQuestion {
  std::uint32_t command = 0;
  std::uint32_t argument = 0;
  bool operator==(const CmQuestion&) const = default;
};

// A question as a program writes it.
struct CmQuery {
  CmQuestion question;
  std::uint32_t id = 0;
  std::uint64_t response_address = 0;
  std::uint16_t room = 0;  // of the response
};
// Nothing if the command is none of those whose answers can be known, or not quite in order.
std::optional<CmQuery> parse_cm_query(std::span<const std::uint8_t> command);

// CONNECT or ACCEPT as a program writes it. Nothing if it is neither, or not quite in order.
struct CmPromised {
  CmQuestion question;
  std::uint32_t id = 0;
  std::uint64_t uid = 0;  // of ACCEPT
  std::uint8_t private_data_size = 0;
};
std::optional<CmPromised> parse_cm_promised(std::span<const std::uint8_t> command);

// The ID whose answers are different after this command; nothing if there is none.
std::optional<std::uint32_t> id_changed_by(std::span<const std::uint8_t> command);

// The ID, or multicast membership, whose unread events this command takes off the channel.
std::optional<std::uint32_t> id_withdrawn_by(std::span<const std::uint8_t> command);

void append_answer(std::vector<std::uint8_t>& answers, const CmQuestion& question,
                   std::span<const std::uint8_t> answer);
// Whatever the bytes are, it stays within them.
std::optional<std::span<const std::uint8_t>> find_answer(std::span<const std::uint8_t> answers,
                                                         const CmQuestion& question);

}  // namespace verbena::control
