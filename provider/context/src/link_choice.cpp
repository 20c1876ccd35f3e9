// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/link_choice.hpp"

#include <atomic>

#include "verbena/control/user_lines.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/setting.hpp"

namespace verbena::provider {
LinkChoice link_choice() {
  const char* const text = setting("VERBENA_LINK");
  const std::string word = text == nullptr ? "" : text;
  if (word.empty()) return kDefaultLink;
  if (word == "udp") return LinkChoice::kUdp;
  if (word == "shm") return LinkChoice::kSharedMemory;
  static std::atomic<bool> told{false};  // once per process
  if (word != "auto" && !told.exchange(true)) {
    control::tell_user("VERBENA_LINK=%s is none of udp, shm and auto; using auto", word.c_str());
  }
  return LinkChoice::kAuto;
}

void tell_of_udp(LinkChoice choice, const IpAddress& peer, bool peer_is_here,
                 const std::string& reason) {
  if (choice != LinkChoice::kSharedMemory) {
    if (peer_is_here) {
      explain("no shared ring to %s: %s; UDP carries the packets", peer.to_string().c_str(),
              reason.c_str());
    }
    return;
  }
  control::tell_user("VERBENA_LINK=shm, but UDP carries the packets to %s: %s",
                     peer.to_string().c_str(), reason.c_str());
}

}  // namespace verbena::provider
