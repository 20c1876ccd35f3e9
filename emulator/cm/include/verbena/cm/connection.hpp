// SPDX-License-Identifier: BSD-2-Clause
// One connection of the communication manager, from REQ to the end of timewait
// (IBTA Vol 1, 12.9). Sans-IO: time and messages in, datagrams and events out through the
// outputs of the agent that owns it. One thread at a time.
//
//   active:   idle -REQ-> req_sent -[MRA]-> mra_req_received -(REP)-> rep_received
//             -[dup REP: MRA]-> mra_rep_sent -RTU-> established
//   passive:  idle -(REQ)-> req_received -[dup REQ: MRA]-> mra_req_sent -REP-> rep_sent
//             -[MRA]-> mra_rep_received -(RTU)-> established
//   both:     established -DREQ-> dreq_sent -(DREP)-> timewait -> idle
//             established -(DREQ)-> dreq_received -DREP-> timewait -> idle
//             any -REJ- idle, or timewait where the peer may have sent data already
//
// A message that needs an answer is sent again until its retries are used up, so the states that
// wait for the peer have a deadline. The others have none: req_received, mra_req_sent,
// rep_received, mra_rep_sent and dreq_received wait for the user, idle and established for nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "verbena/cm/event.hpp"

namespace verbena::cm {

enum class ConnectionState : std::uint8_t {
  kIdle,
  kReqSent,
  kMraReqReceived,
  kRepReceived,
  kMraRepSent,
  kReqReceived,
  kMraReqSent,
  kRepSent,
  kMraRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
};
const char* to_string(ConnectionState state);

// What INIT_QP_ATTR needs of the exchange, once it has taken place.
struct Negotiated {
  std::uint32_t remote_qpn = 0;
  std::uint32_t receive_psn = 0;  // PSN with which the peer starts
  std::uint32_t send_psn = 0;     // PSN with which this side starts
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t path_mtu = 0;
  RequestPath path;  // path as this side sees it
};

class Connection {
 public:
  Connection(CommId id, DeviceId device, std::uint64_t transaction_id, CmOutputs& out);

  CommId id() const { return id_; }
  DeviceId device() const { return device_; }
  ConnectionState state() const { return state_; }
  TimeNs deadline() const { return deadline_; }
  CommId remote_id() const { return remote_id_; }
  std::uint64_t remote_ca_guid() const { return remote_ca_guid_; }
  const IpAddress& peer() const { return peer_; }
  const Negotiated& negotiated() const { return negotiated_; }
  bool is_passive() const { return passive_; }
  // Returns true if the user has released the connection and nothing is left to do. The agent then
  // deletes it.
  bool is_finished() const { return abandoned_ && state_ == ConnectionState::kIdle; }
  bool is_abandoned() const { return abandoned_; }

  // --- the user; false when the state does not allow it -------------------------------------
  bool send_req(TimeNs now, const IpAddress& peer, const Req& req, std::uint32_t ece_option);
  bool send_rep(TimeNs now, Rep rep, std::uint32_t ece_option);
  bool send_rtu();
  bool reject(TimeNs now, RejectReason reason, std::span<const std::uint8_t> private_data);
  // Sends a DREQ, or a DREP if the peer's DREQ came first.
  bool disconnect(TimeNs now);
  // Ends the wait for the RTU, because the queue pair has already received data.
  bool mark_established();
  // Ends the connection in the way that its state asks for, without events. The user has released
  // it.
  void abandon(TimeNs now);

  // --- the network and the clock ------------------------------------------------------------
  void handle_first_req(const IpAddress& peer, const Mad& mad, const Req& req);
  void handle_duplicate_req();
  void handle(TimeNs now, const Mad& mad);
  void handle_timeout(TimeNs now);

 private:
  void on(TimeNs now, const Mad& mad, const Rep& rep);
  void on(TimeNs now, const Mad& mad, const Rtu& rtu);
  void on(TimeNs now, const Mad& mad, const Mra& mra);
  void on(TimeNs now, const Mad& mad, const Rej& rej);
  void on(TimeNs now, const Mad& mad, const Dreq& dreq);
  void on(TimeNs now, const Mad& mad, const Drep& drep);
  void on(TimeNs now, const Mad& mad, const Lap& lap);

  void set_state(ConnectionState next);
  void post(CmEventKind kind, const Mad* cause = nullptr);
  void send(const Message& message, std::uint32_t attribute_modifier = 0);
  // Sends a message and keeps a copy, to send it again.
  void send_until_answered(TimeNs now, const Message& message, std::uint32_t attribute_modifier);
  void stop_waiting();
  // Sends the REJ again, if there was one: the peer repeats what it answered.
  void reject_again();
  void send_drep(std::uint64_t transaction_id);
  void enter_timewait(TimeNs now);
  bool is_from_peer(CommId sender) const { return sender == remote_id_; }

  CmOutputs& out_;
  const CommId id_;
  const DeviceId device_;
  ConnectionState state_ = ConnectionState::kIdle;
  bool passive_ = false;
  bool wants_failover_ = false;  // the REQ named an alternate path
  bool abandoned_ = false;
  std::uint32_t retries_left_ = 0;
  std::uint8_t max_retries_ = kMaxRetries;
  CommId remote_id_ = 0;
  std::uint32_t local_qpn_ = 0;
  std::uint64_t transaction_id_ = 0;  // transaction of the connection's setup
  std::uint64_t next_transaction_id_ = 0;
  std::uint64_t dreq_transaction_id_ = 0;
  std::uint64_t local_ca_guid_ = 0;  // set on the active side only
  std::uint64_t remote_ca_guid_ = 0;
  TimeNs deadline_ = kNever;
  TimeNs response_timeout_ = cm_timeout_ns(kResponseTimeout);
  IpAddress peer_;
  Negotiated negotiated_;
  std::unique_ptr<MadBytes> unanswered_;
  std::unique_ptr<MadBytes> rejection_;  // the REJ that this side has sent
};

}  // namespace verbena::cm
