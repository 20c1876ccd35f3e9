// SPDX-License-Identifier: BSD-2-Clause
// One sending queue pair as faults see it: the names of its packets, and how many times each was
// lost. The names are
//
//   requests   the PSN, counted from the queue pair's first one
//   responses  the PSN that they answer, counted in the same way, and their content: READ data, an
//              atomic's result, ACK, RNR NAK, NAK and its code. Credits and the MSN, which differ
//              from run to run, are ignored
//   MADs       class, method and attribute (REQ, REP, DREQ ...), and the number of the transaction
//
// A packet that has arrived once arrives again whenever it is repeated; a packet that was lost is
// judged again. How far a sender goes back and which repetitions are needless depends on timing, so
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
  // How far behind the newest packet a repeated packet is still recognised.
  static constexpr std::uint64_t kRemembered = 1u << 18;
  static constexpr std::size_t kTransactions = 4096;

  // `program` is the program's name as a number, the same for all its processes of one role.
  explicit Flow(std::uint64_t program) : program_(program) {}

  // Judges a packet that is about to be sent, from the BTH on.
  struct Judged {
    PacketName name;
    Fate fate;
  };
  Judged judge(const Settings& settings, const wire::Origin& origin,
               std::span<const std::uint8_t> packet);
  // Do the same in two steps. Each packet is named once.
  PacketName name(const wire::Origin& origin, std::span<const std::uint8_t> packet);
  Fate judge(const Settings& settings, const PacketName& name);

 private:
  struct Side {
    std::uint64_t newest = 0;
    bool has_begun = false;
    // Losses by number and content. Packets that were never lost are not listed.
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> losses;
  };

  PacketName name_of(const wire::Origin& origin, std::span<const std::uint8_t> packet);
  PacketName name_of_mad(std::span<const std::uint8_t> mad);
  Side& side_of(const PacketName& name) { return sides_[static_cast<std::size_t>(name.direction)]; }
  // Continues the count where the 24 bits of the PSN wrap.
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
  std::map<std::uint32_t, std::uint64_t> transactions_seen_;  // by content
};

}  // namespace verbena::fault
