// SPDX-License-Identifier: BSD-2-Clause
// The communication manager's agent on QP1: owns every connection and SIDR exchange of the
// emulated devices, finds the one that a message belongs to, recognises duplicates and stale
// connections, and keeps the deadlines. Sans-IO, one thread at a time. Whatever a peer sends, it
// answers or drops and counts; it never fails.
//
// A message reaches a connection only if it comes from the address of the connection's peer and to
// the connection's device. Communication IDs are random, so that one cannot be guessed from
// another.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "verbena/base/unpredictable.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/cm/sidr_exchange.hpp"

namespace verbena::cm {

enum class MadDrop : std::uint8_t { kMalformed, kUnknownConnection, kNotFromPeer, kTooMany };
inline constexpr std::array<std::string_view, 4> kMadDropNames{"malformed", "unknown_connection",
                                                               "not_from_peer", "too_many"};

class Agent {
 public:
  // The most connections, and the most exchanges, that peers may have asked for. Further requests
  // are dropped, and the peers repeat them.
  static constexpr std::size_t kMaxPassive = 65536;

  explicit Agent(std::uint64_t seed);

  // --- the user -----------------------------------------------------------------------------
  CommId new_connection(DeviceId device);
  CommId new_sidr(DeviceId device);
  // send_req() and send_sidr_req() fill in the request's `local_comm_id` or `request_id`.
  bool send_req(TimeNs now, CommId id, const IpAddress& peer, Req req, std::uint32_t ece_option);
  bool send_rep(TimeNs now, CommId id, const Rep& rep, std::uint32_t ece_option);
  bool send_rtu(TimeNs now, CommId id);
  bool reject(TimeNs now, CommId id, RejectReason reason,
              std::span<const std::uint8_t> private_data);
  bool disconnect(TimeNs now, CommId id);
  bool mark_established(TimeNs now, CommId id);
  bool send_sidr_req(TimeNs now, CommId id, const IpAddress& peer, SidrReq req);
  bool send_sidr_rep(TimeNs now, CommId id, const SidrRep& rep, std::uint32_t ece_option);
  // The user forgets the ID. The agent ends the connection or exchange and then forgets the ID too.
  void release(TimeNs now, CommId id);

  const Connection* connection(CommId id) const;
  const SidrExchange* sidr(CommId id) const;

  // --- the network and the clock ------------------------------------------------------------
  void handle_mad(TimeNs now, DeviceId device, const IpAddress& source,
                  std::span<const std::uint8_t> bytes);
  void handle_timeout(TimeNs now);
  TimeNs next_deadline() const { return deadlines_.empty() ? kNever : deadlines_.begin()->first; }
  // Moves out the outputs since the last call. The next outputs use the memory of `used`, which the
  // caller has read.
  CmOutputs take_outputs(CmOutputs used = {}) {
    used.mads.clear();
    used.events.clear();
    return std::exchange(out_, std::move(used));
  }

  // --- for status and tests -----------------------------------------------------------------
  std::size_t size() const { return connections_.size() + sidrs_.size(); }
  std::uint64_t drops(MadDrop reason) const { return drops_[static_cast<std::size_t>(reason)]; }
  bool is_consistent() const;

 private:
  // Where a message comes from. What the sender says about itself counts only together with it.
  struct Origin {
    DeviceId device = 0;
    std::array<std::uint8_t, 16> source{};
    auto operator<=>(const Origin&) const = default;
  };
  using RemoteKey = std::tuple<Origin, std::uint64_t, std::uint32_t>;  // CA GUID, ID or QPN
  using SidrKey = std::pair<Origin, std::uint32_t>;

  CommId next_id();
  Connection* find(CommId id);
  // Runs `action` on a connection, then updates deadlines and indexes.
  template <typename Action>
  bool with(CommId id, Action&& action);
  template <typename Action>
  bool with_sidr(CommId id, Action&& action);
  void settle(Connection& connection, TimeNs before);
  void settle(SidrExchange& exchange, TimeNs before);
  void move_deadline(CommId id, TimeNs before, TimeNs after);
  void forget(const Connection& connection);
  template <typename Owner>
  static Origin origin_of(const Owner& owner) {
    return {owner.device(), owner.peer().bytes};
  }

  void handle_req(TimeNs now, DeviceId device, const IpAddress& source, const Mad& mad,
                  const Req& req);
  bool is_stale(TimeNs now, const Origin& origin, const Req& req);
  void handle_sidr_req(TimeNs now, DeviceId device, const IpAddress& source, const Mad& mad,
                       const SidrReq& req);
  void handle_sidr_rep(const Origin& origin, const Mad& mad, const SidrRep& rep);
  // Returns the connection that a message other than REQ names, or null.
  Connection* addressee(const Origin& origin, const Mad& mad);
  void answer_unknown(DeviceId device, const IpAddress& source, const Mad& mad);
  void drop(MadDrop reason) { ++drops_[static_cast<std::size_t>(reason)]; }

  UnpredictableRandom random_;
  CmOutputs out_;
  std::unordered_map<CommId, std::unique_ptr<Connection>> connections_;
  std::unordered_map<CommId, std::unique_ptr<SidrExchange>> sidrs_;
  std::map<RemoteKey, CommId> by_remote_id_;   // passive connections: finds duplicate REQs
  std::map<RemoteKey, CommId> by_remote_qpn_;  // passive connections: finds stale ones
  std::map<SidrKey, CommId> by_request_;       // passive exchanges
  std::set<std::pair<TimeNs, CommId>> deadlines_;
  std::array<std::uint64_t, kMadDropNames.size()> drops_{};
};

}  // namespace verbena::cm
