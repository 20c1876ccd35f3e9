// SPDX-License-Identifier: BSD-2-Clause
// Knows which ID holds which port of which port space. The errors are the kernel's: EADDRINUSE for
// the same address, EADDRNOTAVAIL where a wildcard is in the way. With REUSEADDR IDs share a port
// until one listens; with AFONLY an IPv4 and an IPv6 ID share it. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "verbena/base/unpredictable.hpp"
#include "verbena/cm/ip_header.hpp"
#include "verbena/cm/sockaddr.hpp"

namespace verbena::cm {

// Returns the port space that the service ID of an AF_IB address names (IBTA Annex A11). Returns
// nothing if an ID of the port space `own` may not use it.
std::optional<PortSpace> space_named_by(const SocketAddress& address, PortSpace own);

class PortTable {
 public:
  struct Binding {
    std::uint32_t owner;
    SocketAddress address;
    bool reuse_address = false;
    bool family_only = false;
    bool listening = false;
  };

  explicit PortTable(std::uint64_t seed) : random_(seed) {}

  // Returns 0 or an errno. If the port in `binding.address` is 0, fills in an ephemeral one.
  int bind(PortSpace space, Binding& binding);
  // Makes the owner listen. Fails if another ID shares the port, even with REUSEADDR; from then on
  // no other may.
  int listen(PortSpace space, std::uint16_t port, std::uint32_t owner);
  void set_options(PortSpace space, std::uint16_t port, std::uint32_t owner, bool reuse_address,
                   bool family_only);
  void release(PortSpace space, std::uint16_t port, std::uint32_t owner);

  // Returns the listener for a request to `destination`, the exact address before a wildcard; 0:
  // none.
  std::uint32_t listener(PortSpace space, std::uint16_t port, Family family,
                         const IpAddress& destination) const;
  std::size_t ports_in_use() const { return ports_.size(); }

 private:
  static constexpr std::uint16_t kFirstEphemeral = 32768;
  static constexpr std::uint16_t kLastEphemeral = 60999;
  using Key = std::pair<PortSpace, std::uint16_t>;

  int conflict(const std::vector<Binding>& others, const Binding& binding,
               bool reuse_address) const;
  Binding* find(PortSpace space, std::uint16_t port, std::uint32_t owner);

  UnpredictableRandom random_;
  std::map<Key, std::vector<Binding>> ports_;
};

}  // namespace verbena::cm
