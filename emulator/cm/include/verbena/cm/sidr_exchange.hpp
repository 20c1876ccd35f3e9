// SPDX-License-Identifier: BSD-2-Clause
// One SIDR exchange, which finds the queue pair that serves a service ID (IBTA Vol 1, 12.11).
// Sans-IO, owned by the agent, one thread at a time.
//
//   active:   idle -SIDR_REQ-> req_sent -(SIDR_REP)-> idle
//   passive:  idle -(SIDR_REQ)-> req_received -SIDR_REP-> replied -> idle
//
// The passive side keeps its answer for a while and answers a repeated question from it, so that
// the program never gets the question twice.
#pragma once

#include <memory>

#include "verbena/cm/event.hpp"

namespace verbena::cm {

class SidrExchange {
 public:
  enum class State : std::uint8_t { kIdle, kReqSent, kReqReceived, kReplied };

  SidrExchange(CommId id, DeviceId device, CmOutputs& out) : out_(out), id_(id), device_(device) {}

  CommId id() const { return id_; }
  DeviceId device() const { return device_; }
  State state() const { return state_; }
  TimeNs deadline() const { return deadline_; }
  const IpAddress& peer() const { return peer_; }
  std::uint32_t request_id() const { return request_id_; }
  bool is_passive() const { return passive_; }
  bool is_finished() const { return abandoned_ && state_ == State::kIdle; }

  bool send_req(TimeNs now, const IpAddress& peer, const SidrReq& req,
                std::uint64_t transaction_id);
  bool send_rep(TimeNs now, SidrRep rep, std::uint32_t ece_option);
  void abandon(TimeNs now);

  void handle_first_req(const IpAddress& peer, const Mad& mad, const SidrReq& req);
  void handle_duplicate_req(TimeNs now);
  void handle_rep(const Mad& mad);
  void handle_timeout(TimeNs now);

 private:
  void finish();

  CmOutputs& out_;
  const CommId id_;
  const DeviceId device_;
  State state_ = State::kIdle;
  bool passive_ = false;
  bool abandoned_ = false;
  std::uint8_t retries_left_ = 0;
  std::uint32_t request_id_ = 0;
  std::uint64_t service_id_ = 0;
  std::uint64_t transaction_id_ = 0;
  TimeNs deadline_ = kNever;
  IpAddress peer_;
  std::unique_ptr<MadBytes> sent_;
};

}  // namespace verbena::cm
