// SPDX-License-Identifier: BSD-2-Clause
// An XRC domain that devices of several nodes share: a peer that sends, the receiver that it is
// connected to, other owners of SRQs, and a registry. Like the daemon, the registry brings receiver
// and owners together some time after it was asked.
#pragma once

#include <memory>
#include <vector>

#include "pair.hpp"

namespace verbena::sim {

class Registry {
 public:
  explicit Registry(World& world) : world_(world) {}
  void watch(Node& receiver);
  // Lets receivers find the owner's SRQs.
  void admit(Node& owner) { owners_.push_back(&owner); }
  // Removes the owner, as if its process had died.
  void withdraw(Node& owner);
  // Does now and then what it has been asked to do. Called between steps.
  void work();
  std::size_t proxies() const { return proxies_.size(); }
  std::size_t asked() const { return asked_; }

 private:
  struct Errand {
    Node* receiver;
    bool releases;
    queue::ProxyQp wanted;
  };
  struct ProxyQp {
    Node* receiver;
    Node* owner;
    Qpn receiver_number, line;
    qp::QueuePair* qp;
  };
  void release(const Node& receiver, Qpn number);
  void provide(Node& receiver, const queue::ProxyQp& wanted);

  World& world_;
  std::vector<Node*> owners_;
  std::vector<Errand> errands_;
  std::vector<ProxyQp> proxies_;
  std::size_t asked_ = 0;
};

class SharedDomain {
 public:
  static constexpr std::size_t kOwners = 3;  // the receiver is the first

  explicit SharedDomain(const PeerOptions& options = {}, std::uint64_t seed = 1);

  Peer& owner(std::size_t i) { return i == 0 ? receiver : *others_[i - 1]; }
  // Addresses a request to an owner's SRQ or memory.
  Request to(std::size_t i, Request request) {
    request.remote_srqn = owner(i).srq()->number;
    return request;
  }
  template <typename F>
  bool run_until(F&& ready, TimeNs limit = 20'000'000'000) {
    const TimeNs end = world.now() + limit;
    for (;;) {
      sender.reap();
      for (std::size_t i = 0; i < kOwners; ++i) owner(i).reap();
      if (ready()) return true;
      if (world.now() >= end) return false;
      world.step(std::min(end, world.now() + 100'000));
      registry.work();
    }
  }
  void run(TimeNs length) {
    run_until([] { return false; }, length);
  }
  // Runs until `n` requests have completed.
  bool all_sent(std::size_t n) {
    return run_until([&] { return sender.sends.size() >= n; });
  }

  World world;
  Registry registry;
  Peer sender;
  Peer receiver;

 private:
  std::vector<std::unique_ptr<Peer>> others_;
};

}  // namespace verbena::sim
