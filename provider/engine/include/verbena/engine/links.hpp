// SPDX-License-Identifier: BSD-2-Clause
// The links that carry an engine's packets, one inside the other: injected faults, the capture, and
// the links to peers (UDP and rings). Mostly there are neither faults nor a capture, and then
// packets bypass both. Owned by the engine; each link says which thread may call it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "verbena/base/port_counters.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/link/capture_link.hpp"
#include "verbena/link/fault_link.hpp"
#include "verbena/link/peer_link.hpp"

namespace verbena::provider {

class Links {
 public:
  struct Options {
    link::Peer self;
    link::UdpOptions udp;                  // for all sockets
    control::UniqueFd receiver;            // the port's socket
    std::span<control::UniqueFd> senders;  // sockets to send from, if the port has any
    std::uint64_t program = 0;             // hash of the program's name, for decisions about faults
    std::shared_ptr<link::SlowLines> lines;  // of another engine; null: the engine has its own
  };
  // Throws VerbRefused.
  void open(Options&& options, PortCounters& counters);

  link::FaultLink& faults() noexcept { return *faults_; }
  const link::FaultLink& faults() const noexcept { return *faults_; }
  link::CaptureLink& capture() noexcept { return *capture_; }
  link::PeerLink& peers() noexcept { return *peers_; }
  const link::PeerLink& peers() const noexcept { return *peers_; }

  bool is_undisturbed() const noexcept { return faults_->is_idle() && !capture_->is_running(); }
  void send(wire::TxBatch& batch, Qpn flow) noexcept {
    (void)(is_undisturbed() ? peers_->send(batch, flow) : faults_->send(batch, flow));
  }
  std::size_t receive(link::RxSink& sink, std::size_t budget) noexcept {
    return is_undisturbed() ? peers_->receive(sink, budget) : faults_->receive(sink, budget);
  }

 private:
  std::unique_ptr<link::FaultLink> faults_;
  link::CaptureLink* capture_ = nullptr;  // inside faults_
  link::PeerLink* peers_ = nullptr;       // inside capture_
};

}  // namespace verbena::provider
