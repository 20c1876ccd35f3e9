// SPDX-License-Identifier: BSD-2-Clause
// A library asks the same questions about an rdma_cm ID after each event: its addresses, its path,
// the attributes of its queue pair. The daemon puts the answers beside the event, and the preload
// library gives them without asking, until a command changes the ID. If the daemon knows that the
// next command will succeed, it adds a promise that says so. Pure.
//
// An answer consists of u32 command, u32 argument (the option of QUERY, the state of INIT_QP_ATTR),
// u32 length, and the bytes that the daemon would answer. Integers are in host order, since daemon
// and program run on one machine. A promise has the same form: the command, 1 if it carries
// connection parameters (CONNECT and ACCEPT), and one byte with the maximum length of its private
// data.
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
  std::uint16_t room = 0;  // size of the response buffer
};
// Returns nothing if the answers of the command cannot be known beforehand or the command is
// malformed.
std::optional<CmQuery> parse_cm_query(std::span<const std::uint8_t> command);

// A CONNECT or ACCEPT as a program writes it. parse_cm_promised() returns nothing for other
// commands and for malformed ones.
struct CmPromised {
  CmQuestion question;
  std::uint32_t id = 0;
  std::uint64_t uid = 0;  // given by ACCEPT
  std::uint8_t private_data_size = 0;
};
std::optional<CmPromised> parse_cm_promised(std::span<const std::uint8_t> command);

// Returns the ID whose answers this command changes, if there is one.
std::optional<std::uint32_t> id_changed_by(std::span<const std::uint8_t> command);

// Returns the ID or multicast membership whose unread events this command takes off the channel.
std::optional<std::uint32_t> id_withdrawn_by(std::span<const std::uint8_t> command);

void append_answer(std::vector<std::uint8_t>& answers, const CmQuestion& question,
                   std::span<const std::uint8_t> answer);
// Stays within `answers`, whatever the bytes are.
std::optional<std::span<const std::uint8_t>> find_answer(std::span<const std::uint8_t> answers,
                                                         const CmQuestion& question);

}  // namespace verbena::control
