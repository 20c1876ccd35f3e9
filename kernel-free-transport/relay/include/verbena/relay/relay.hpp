// SPDX-License-Identifier: BSD-2-Clause
// What an XRC receive queue pair does with requests for SRQs of other processes in its domain. The
// process that owns such an SRQ has a proxy: an ordinary responder, with a sequence of its own, to
// which the packets are passed on. Its answers come back by a line, a queue pair number of this
// device that leads here, and go to the peer. In both directions a packet changes its numbers and
// nothing else. So the proxy checks, places and remembers like any responder, and what is lost on
// the way is recovered by the peer, which repeats.
//
//   peer ──── PSN p ───> receiver ──── PSN p + shift ───> proxy
//   peer <─── PSN p ──── (relay)  <─── PSN p + shift ──── by the owner's line
//
// An acknowledgement speaks for everything before it, so one owner at a time has requests
// outstanding. The time of one owner is an epoch. A packet that begins another epoch is held, with
// those behind it, until everything before it is acknowledged. Packets are taken in the order of
// their PSNs, as by a responder: a packet behind a gap is dropped, and the gap is reported when
// everything before it is settled.
//
//   repeated SEND, WRITE         acknowledged here if its owner has acknowledged it, else passed on
//   repeated READ, atomic, ...   goes to the owner of its epoch, who has the answer; what comes
//                                behind it waits until the answer has been through (a replay)
//
// Owned by the queue pair and called under its lock. Calls that may need a new line (requests,
// answers, `resume`, `connect`, `refuse`) are made under the device's receive lock as well.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/queue/endpoint.hpp"
#include "verbena/responder/responder.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::relay {

class Relay {
 public:
  Relay(queue::Endpoint& endpoint, responder::Responder& own);

  void start(Psn expected);  // RTR
  // Lets go of all proxies. What the peer still has to be told goes out.
  void stop();
  void reset();
  // Tells the proxies of changed attributes, before they get another packet.
  void change_attributes(TimeNs now);

  void handle_request(const wire::PacketView& packet, TimeNs now);
  // Handles a packet that came by a line.
  void handle_answer(Qpn line, const wire::PacketView& packet, const wire::RxDatagram& datagram,
                     TimeNs now);
  // connect(): the proxy behind this line is there. refuse(): it never will be, or is no more.
  void connect(Qpn line, const wire::Destination& destination, Qpn proxy, TimeNs now);
  void refuse(Qpn line, TimeNs now);
  // Called when the receiver itself may have sent its pending answers.
  void resume(TimeNs now);

  bool has_packets() const { return !out_.empty(); }
  // Returns true if there is more than the batch could take.
  bool poll_transmit(wire::TxBatch& out);
  // The PSN of the next request that neither the receiver nor an owner has taken yet.
  Psn expected_psn() const;

 private:
  using Bytes = std::vector<std::uint8_t>;

  struct Owner {
    std::uint32_t slot = 0;  // the slot in its SRQs' numbers
    Qpn line;
    std::uint32_t srq = 0;       // the number of one of its SRQs
    Psn next;                    // the first unused PSN of its sequence
    std::uint32_t messages = 0;  // messages that it has completed
    bool ready = false;
    Qpn proxy;
    wire::Destination destination;
    TimeNs asked_at = 0;
  };
  struct Epoch {
    Psn first;
    Psn end;                          // valid once the epoch is over
    Owner* owner = nullptr;           // null: the receiver itself
    std::uint32_t shift = 0;          // from our PSNs to the owner's
    std::uint32_t message_shift = 0;  // from the owner's MSNs to ours
    bool has_data = false;            // it had READs or the like, which the peer may repeat
  };
  struct Replay {
    Epoch epoch;
    Psn first;
    Psn end;
  };
  struct Outgoing {
    Bytes bytes;
    wire::Destination destination;
    bool to_peer = false;
  };

  static Bytes copy_of(const wire::PacketView& packet);

  // requests.cpp
  void repeat(const wire::PacketView& packet);
  void repeat_waiting(TimeNs now);
  void repeat_data(const wire::PacketView& packet, bool in_current);
  bool admit(const wire::PacketView& packet, TimeNs now);
  void take(const wire::PacketView& packet);
  void hold(const wire::PacketView& packet);
  void miss(const wire::PacketView& packet);
  void clear_line();
  void report_gap();
  bool begin_epoch(std::uint32_t srq, Psn psn, TimeNs now);
  void enter(Owner* owner, Psn psn);
  void forget_the_distant();
  const Epoch* epoch_of(Psn psn) const;
  std::uint32_t span_of(const wire::PacketView& packet) const;
  Owner* owner_of_slot(std::uint32_t slot) const;
  Owner* make_owner(std::uint32_t srq, Psn psn);
  void ask(Owner& owner, TimeNs now);

  // relay.cpp: answers
  void handle_replayed(const wire::PacketView& packet, Psn psn, TimeNs now);
  void handle_nak(const wire::PacketView& packet, Psn psn);
  void forward(const wire::PacketView& packet, Psn psn, std::uint32_t messages);
  void pass(const wire::PacketView& packet, const Epoch& epoch);
  void tell_peer(wire::Aeth aeth, Psn psn);
  void fail(wire::NakCode code, Psn psn, const char* why);
  Owner* owner_of_line(Qpn line) const;
  void forget(Owner& owner);

  Psn next() const { return current_.owner != nullptr ? passed_ : own_.expected_psn(); }
  Psn line_end() const;
  std::uint32_t messages() const;
  bool is_settled() const;
  bool is_in_message() const;
  void end_own_replay();

  queue::Endpoint& endpoint_;
  responder::Responder& own_;
  std::vector<std::unique_ptr<Owner>> owners_;
  std::vector<Qpn> retired_lines_;  // to be given back when the next one is taken

  Epoch current_;
  Psn acked_;                   // the last PSN that the owner has acknowledged
  Psn passed_;                  // the first PSN not passed on; unused for the receiver itself
  bool in_message_ = false;     // the last packet that was passed on does not end its message
  std::uint32_t messages_ = 0;  // MSN, as the peer counts
  std::deque<Epoch> history_;   // past epochs that had data, oldest first
  std::optional<Replay> replay_;

  std::deque<Bytes> held_;  // packets that wait, without gaps
  Psn held_end_;
  bool missing_ = false;       // a packet was dropped, and the peer may not know it
  bool gap_reported_ = false;  // the gap at the expected PSN was reported

  std::deque<Outgoing> out_;
};

}  // namespace verbena::relay
