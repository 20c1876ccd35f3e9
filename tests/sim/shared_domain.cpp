// SPDX-License-Identifier: BSD-2-Clause
#include "shared_domain.hpp"

#include <algorithm>

namespace verbena::sim {
namespace {

PeerOptions with(PeerOptions options, Transport transport) {
  options.transport = transport;
  options.shares_domain = transport == Transport::kXrcReceive;
  return options;
}

}  // namespace

void Registry::watch(Node& receiver) {
  receiver.proxy_wanted = [this, &receiver](const queue::ProxyQp& wanted) {
    ++asked_;
    errands_.push_back({&receiver, false, wanted});
  };
  receiver.proxies_released = [this, &receiver](Qpn number) {
    queue::ProxyQp released;
    released.receiver = number;
    errands_.push_back({&receiver, true, released});
  };
}

void Registry::work() {
  if (errands_.empty() || world_.random().chance(700'000)) return;
  std::vector<Errand> errands;
  errands.swap(errands_);
  for (const Errand& errand : errands) {
    if (errand.releases) {
      release(*errand.receiver, errand.wanted.receiver);
    } else {
      provide(*errand.receiver, errand.wanted);
    }
  }
}

void Registry::provide(Node& receiver, const queue::ProxyQp& wanted) {
  wire::Destination back;
  back.address = receiver.address();
  for (ProxyQp& known : proxies_) {
    if (known.receiver != &receiver || !(known.line == wanted.line)) continue;
    known.owner->device().change_proxy(*known.qp, wanted, back);
    wire::Destination there;
    there.address = known.owner->address();
    return receiver.device().connect_line(wanted.receiver, wanted.line, there, known.qp->number(),
                                          world_.now());
  }
  const auto owner = std::find_if(owners_.begin(), owners_.end(),
                                  [&](Node* node) { return node->device().is_own(wanted.srq); });
  if (owner == owners_.end()) {
    return receiver.device().refuse_line(wanted.receiver, wanted.line, world_.now());
  }
  qp::QueuePair* made = (*owner)->device().create_proxy(wanted, back);
  VERBENA_CHECK(made != nullptr);
  proxies_.push_back({&receiver, *owner, wanted.receiver, wanted.line, made});
  wire::Destination there;
  there.address = (*owner)->address();
  receiver.device().connect_line(wanted.receiver, wanted.line, there, made->number(), world_.now());
}

void Registry::release(const Node& receiver, Qpn number) {
  std::erase_if(proxies_, [&](const ProxyQp& known) {
    if (known.receiver != &receiver || !(known.receiver_number == number)) return false;
    known.owner->device().destroy_proxy(known.qp);
    return true;
  });
}

void Registry::withdraw(Node& owner) {
  std::erase(owners_, &owner);
  std::erase_if(proxies_, [&](const ProxyQp& known) {
    if (known.owner != &owner) return false;
    owner.device().destroy_proxy(known.qp);
    known.receiver->device().refuse_line(known.receiver_number, known.line, world_.now());
    return true;
  });
}

SharedDomain::SharedDomain(const PeerOptions& options, std::uint64_t seed)
    : world(seed),
      registry(world),
      sender(world, world.add_node(), with(options, Transport::kXrcSend)),
      receiver(world, world.add_node(), with(options, Transport::kXrcReceive)) {
  registry.watch(receiver.node());
  for (std::size_t i = 1; i < kOwners; ++i) {
    others_.push_back(
        std::make_unique<Peer>(world, world.add_node(), with(options, Transport::kXrcReceive)));
    registry.admit(others_.back()->node());
  }
  sender.bring_up(receiver);
  receiver.bring_up(sender);
}

}  // namespace verbena::sim
