// SPDX-License-Identifier: BSD-2-Clause
// The messages of connection management. They go between the preload library, which stands in for
// /dev/infiniband/rdma_cm, and the daemon, which holds the IDs.
//
// A descriptor of /dev/infiniband/rdma_cm is a connection of its own. After OpenCmChannel only
// CmEventReady comes on it, one for the events that came together, so that poll, epoll, O_NONBLOCK
// and blocking are the socket's own. The events themselves stand in memory that daemon and library
// share (cm_event_page.hpp), or the library asks for them. Commands go over another connection of
// the process and name the channel. The channel lives as long as its connection.
//
// If an event has promised that a command succeeds (cm_answers.hpp), the command goes over the
// channel itself and gets no answer. The daemon carries it out before all later commands, on
// whichever connection these come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbena/control/messages.hpp"

namespace verbena::control {

inline constexpr auto kOpenCmChannel = static_cast<MessageType>(0x0200);
inline constexpr auto kCmCommand = static_cast<MessageType>(0x0201);
inline constexpr auto kCmReply = static_cast<MessageType>(0x0202);
inline constexpr auto kCmEventReady = static_cast<MessageType>(0x0203);
inline constexpr auto kCmChannelOpened = static_cast<MessageType>(0x0204);
inline constexpr auto kCmPosted = static_cast<MessageType>(0x0205);

inline constexpr auto kQueryCmListeners = static_cast<MessageType>(0x0206);
inline constexpr auto kCmListeners = static_cast<MessageType>(0x0207);

constexpr bool is_cm_message(MessageType type) {
  const auto number = static_cast<std::uint16_t>(type);
  return number >= 0x0200 && number <= 0x02ff;
}

// Opens a channel. The client chooses its number at random; 0 means none. The daemon answers with
// CmChannelOpened.
struct OpenCmChannel {
  static constexpr MessageType kType = kOpenCmChannel;
  std::uint64_t channel = 0;
  VERBENA_FIELDS { a(m.channel); }
};

// Has the memory of a CmEventPage as descriptor [0], if the daemon has any.
struct CmChannelOpened {
  static constexpr MessageType kType = kCmChannelOpened;
  VERBENA_FIELDS {}
};

// A command as the program wrote it to the descriptor.
struct CmCommand {
  static constexpr MessageType kType = kCmCommand;
  std::uint64_t channel = 0;
  std::uint64_t other = 0;  // the channel behind a descriptor that the command names
  std::vector<std::uint8_t> command;
  std::vector<std::uint8_t> attached;  // what the command points to in the program's memory
  VERBENA_FIELDS { a(m.channel, m.other, m.command, m.attached); }
};

// A promised command, which goes over the channel and gets no answer.
struct CmPosted {
  static constexpr MessageType kType = kCmPosted;
  std::vector<std::uint8_t> command;
  VERBENA_FIELDS { a(m.command); }
};

struct CmReply {
  static constexpr MessageType kType = kCmReply;
  std::uint32_t code = 0;              // errno
  std::uint64_t response_address = 0;  // address in the program's memory
  std::vector<std::uint8_t> response;
  // The number of CmEventReady messages to take off the channel (`other` for a migration) without a
  // fetch.
  std::uint32_t withdrawn = 0;
  // For DESTROY_ID: the program's name for the ID, which is the ID's address in librdmacm, and how
  // many of its events the program has read.
  std::uint64_t destroyed_at = 0;
  std::uint32_t destroyed_events = 0;
  VERBENA_FIELDS {
    a(m.code, m.response_address, m.response, m.withdrawn, m.destroyed_at, m.destroyed_events);
  }
};

// Asks which processes wait for connections (rdma_listen). The daemon answers with CmListeners,
// which names at most kMost processes.
struct QueryCmListeners {
  static constexpr MessageType kType = kQueryCmListeners;
  VERBENA_FIELDS {}
};
struct CmListeners {
  static constexpr std::size_t kMost = 4096;
  static constexpr MessageType kType = kCmListeners;
  std::vector<std::uint32_t> processes;
  VERBENA_FIELDS { a(m.processes); }
};

struct CmEventReady {
  static constexpr MessageType kType = kCmEventReady;
  VERBENA_FIELDS {}
};

}  // namespace verbena::control
