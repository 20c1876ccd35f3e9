// SPDX-License-Identifier: BSD-2-Clause
// One sending queue pair as faults see it: what its packets are called, and how many times each of
// them was lost. Packets are called by
//
//   requests   the PSN, counted from the queue pair's first one
//   responses  the PSN that they answer, counted in the same way, and what they say: READ data, an
//              atomic's result, ACK, RNR NAK, NAK and its code. Credits and the MSN, which differ
//              from run to run, do not count
//   MADs       class, method and attribute (REQ, REP, DREQ ...), and which transaction of them it
//   is
//
// A packet that has arrived once arrives again whenever it is repeated, and one that was lost is
// judged anew. How far a sender goes back, and which repetition was needless, depends on timing; so
// neither changes what is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "verbena/fault/fate.hpp"
#include "verbena/wire/origin.hpp"

namespace verbena::fault {

class Flow {
 public:
  // How far behind the newest packet one may be repeated and still be known.
  static constexpr std::uint64_t kRemembered = 1u << 18;
  static constexpr std::size_t kTransactions = 4096;

  // `program` names the program; the same for all its processes of one role.
  explicit Flow(std::uint64_t program) : program_(program) {}

  // The packet that is about to be sent, from the BTH on.
  struct Judged {
    PacketName name;
    Fate fate;
  };
  Judged judge(const Settings& settings, const wire::Origin& origin,
               std::span<const std::uint8_t> packet);
  // The same in two steps; each packet is named once.
  PacketName name(const wire::Origin& origin, std::span<const std::uint8_t> packet);
  Fate judge(const Settings& settings, const PacketName& name);

 private:
  struct Side {
    std::uint64_t newest = 0;
    bool has_begun = false;
    // By number and what it says; only what was lost.
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> losses;
  };

  PacketName name_of(const wire::Origin& origin, std::span<const std::uint8_t> packet);
  PacketName name_of_mad(std::span<const std::uint8_t> mad);
  Side& side_of(const PacketName& name) { return sides_[static_cast<std::size_t>(name.direction)]; }
  // Counts on where the 24 bits of the PSN begin anew.
  static std::uint64_t count_on(Side& side, std::uint32_t relative_psn);
  static void forget_old(Side& side);

  std::uint64_t program_;
  wire::Origin origin_;
  Side sides_[3];
  struct Transaction {
    std::uint32_t says;
    std::uint64_t id;
    std::uint64_t number;
  };
  std::vector<Transaction> transactions_;                     // the newest at the end
  std::map<std::uint32_t, std::uint64_t> transactions_seen_;  // by what they say
};

}  // namespace verbena::fault
