// SPDX-License-Identifier: BSD-2-Clause
// The objects of one program, as the emulator's status tells them: as much as is needed to say what
// the program waits for (waits.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace verbena::cli {

// An empty text means that there is none.
struct QueuePairStatus {
  std::string qpn;
  std::string type;
  std::string state;
  std::string device_address;
  std::string peer_address;
  std::string peer_qpn;
  std::string srq;
  std::uint32_t context = 0;     // which of the program's contexts, see ProgramStatus
  std::uint32_t receive_cq = 0;  // 0: none
  std::uint32_t sends = 0;       // outstanding requests
  std::uint32_t receives = 0;
  // These change while the queue pair is at work, and stay the same while it repeats packets.
  std::uint32_t send_psn = 0;
  std::uint32_t receive_psn = 0;
  std::uint64_t received_packets = 0;
  std::string last_error;
};

struct CompletionQueueStatus {
  std::string device;
  std::uint32_t context = 0;
  std::uint32_t number = 0;
  std::uint32_t capacity = 0;
  std::uint32_t unpolled = 0;
  std::string armed;  // "no", "solicited", "any"
  bool has_overrun = false;
  bool has_channel = false;
  std::uint32_t channel_fd = 0;
  std::uint32_t unread_events = 0;  // unread events of the channel
  std::uint32_t unacknowledged_events = 0;
};

// A call that waits until the program has acknowledged the events of what it destroys.
struct WaitingDestroyStatus {
  std::string call;
  std::string acknowledges;
  std::uint32_t context = 0;
  std::uint32_t number = 0;   // 0: not known
  std::uint32_t events = 0;   // events that the program got
  std::uint32_t missing = 0;  // events not acknowledged; 0: not known
  bool operator==(const WaitingDestroyStatus&) const = default;
};

struct CmIdStatus {
  std::string state;
  std::string qpn;
  std::string port_space;
  std::string source;
  std::string destination;
  std::uint64_t unread_events = 0;  // unread events of its channel
};

// A program has a context for each time that it has opened a device, and each context numbers its
// objects itself. An object's `context` is the slot. It is 0 for a queue pair of a further engine,
// whose queues are those of a context that the status does not name.
struct ProgramStatus {
  std::uint32_t pid = 0;
  std::string name;
  bool responds = true;
  bool has_context = false;
  std::uint64_t shared_receives = 0;  // outstanding receives of all SRQs
  std::vector<QueuePairStatus> qps;
  std::vector<CompletionQueueStatus> cqs;
  std::vector<CmIdStatus> ids;
  std::vector<WaitingDestroyStatus> destroys;
};

QueuePairStatus read_queue_pair(const nlohmann::json& object);
CompletionQueueStatus read_completion_queue(const nlohmann::json& object);
CmIdStatus read_cm_id(const nlohmann::json& object);
WaitingDestroyStatus read_waiting_destroy(const nlohmann::json& object);

}  // namespace verbena::cli
