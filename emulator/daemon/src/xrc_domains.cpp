// SPDX-License-Identifier: BSD-2-Clause
#include "xrc_domains.hpp"

#include <algorithm>
#include <cerrno>
#include <set>

namespace verbena::daemon {
namespace {

constexpr std::uint32_t kEventQpFatal = 1;  // IBV_EVENT_QP_FATAL

Failure<control::Error> too_many_open(const Session& session) {
  return control::fail(ENOMEM, "process " + std::to_string(session.info.pid) +
                                   " has its share of the open XRC domains of this emulator");
}

}  // namespace

control::Outcome<std::uint32_t> XrcDomains::open(Session& session,
                                                 const control::OpenDomain& request) {
  const File file{session.context->port, request.file_device, request.inode};
  const auto known = numbers_.find(file);
  if (known != numbers_.end()) {
    if (request.exclusive) return control::fail(EINVAL, "O_EXCL, and the domain exists");
    auto& opens = domains_.at(known->second).opens;
    if (!opens.contains(session.id) && !open_share_.try_take(session.info.pid)) {
      return too_many_open(session);
    }
    ++opens[session.id];
    return known->second;
  }
  if (!request.create) return control::fail(EAGAIN, "no such domain, and oflags lacks O_CREAT");
  if (!open_share_.try_take(session.info.pid)) return too_many_open(session);
  std::uint32_t number;
  do {
    number = control::kSharedDomain | next_number_++;
  } while (domains_.contains(number));
  domains_[number] = {file, {{session.id, 1}}};
  numbers_[file] = number;
  return number;
}

bool XrcDomains::close(Session& session, std::uint32_t number) {
  const auto domain = domains_.find(number);
  if (domain == domains_.end()) return false;
  auto& opens = domain->second.opens;
  const auto open = opens.find(session.id);
  if (open == opens.end()) return false;
  if (--open->second == 0) {
    opens.erase(open);
    open_share_.give_back(session.info.pid);
  }
  if (opens.empty()) {
    numbers_.erase(domain->second.file);
    domains_.erase(domain);
  }
  return true;
}

bool XrcDomains::has_open(const Session& session, std::uint32_t number) const {
  const auto domain = domains_.find(number);
  return domain != domains_.end() && domain->second.opens.contains(session.id);
}

void XrcDomains::on_wanted(Session& receiver, Session* owner, const control::ProxyWanted& wanted) {
  if (owner == nullptr || !has_open(receiver, wanted.domain) || !has_open(*owner, wanted.domain) ||
      owner->is_behind() || !proxy_share_.may_take(receiver.info.pid)) {
    receiver.send(control::ProxyAnswer{wanted.receiver, wanted.line, 0}, control::kDaemonSequence);
    return;
  }
  const bool is_known = std::any_of(proxies_.begin(), proxies_.end(), [&](const ProxyQp& known) {
    return known.receiver == &receiver && known.owner == owner && known.line == wanted.line &&
           known.number == wanted.receiver;
  });
  if (!is_known) {
    proxies_.push_back({&receiver, owner, wanted.receiver, wanted.line});
    proxy_share_.take(receiver.info.pid);
  }
  owner->send(wanted, control::kDaemonSequence);
}

void XrcDomains::on_answer(Session& owner, Session* receiver, const control::ProxyAnswer& answer) {
  const auto asked = std::find_if(proxies_.begin(), proxies_.end(), [&](const ProxyQp& known) {
    return known.receiver == receiver && known.owner == &owner && known.line == answer.line &&
           known.number == answer.receiver;
  });
  if (asked == proxies_.end()) return;
  asked->receiver->send(answer, control::kDaemonSequence);
  if (answer.proxy != 0) return;
  proxy_share_.give_back(asked->receiver->info.pid);
  proxies_.erase(asked);
}

template <typename Ends>
void XrcDomains::erase_proxies(Ends ends) {
  std::erase_if(proxies_, [&](const ProxyQp& known) {
    if (!ends(known)) return false;
    proxy_share_.give_back(known.receiver->info.pid);
    return true;
  });
}

void XrcDomains::on_released(Session& receiver, std::uint32_t number) {
  std::set<Session*> owners;
  erase_proxies([&](const ProxyQp& known) {
    if (known.receiver != &receiver || known.number != number) return false;
    owners.insert(known.owner);
    return true;
  });
  const control::ProxiesReleased word{number};
  for (Session* owner : owners) owner->send(word, control::kDaemonSequence);
}

void XrcDomains::add_handle(Session& holder, Session& owner, std::uint32_t number) {
  handles_.push_back({&holder, &owner, number});
  handle_share_.take(holder.info.pid);
}

void XrcDomains::remove_handle(Session& holder, Session& owner, std::uint32_t number) {
  const auto handle = std::find_if(handles_.begin(), handles_.end(), [&](const Handle& known) {
    return known.holder == &holder && known.owner == &owner && known.number == number;
  });
  if (handle == handles_.end()) return;
  handles_.erase(handle);
  handle_share_.give_back(holder.info.pid);
}

bool XrcDomains::has_handle(const Session& holder, const Session& owner,
                            std::uint32_t number) const {
  return std::any_of(handles_.begin(), handles_.end(), [&](const Handle& known) {
    return known.holder == &holder && known.owner == &owner && known.number == number;
  });
}

void XrcDomains::on_event(Session& owner, const control::ReceiverEvent& event) {
  std::set<Session*> holders;
  for (const Handle& known : handles_) {
    if (known.owner == &owner && known.number == event.receiver) holders.insert(known.holder);
  }
  for (Session* holder : holders) holder->send(event, control::kDaemonSequence);
}

void XrcDomains::on_context_closed(Session& gone) {
  end_proxies_of(gone);
  end_handles_of(gone);
  std::vector<std::uint32_t> left;
  for (auto& [number, domain] : domains_) {
    const auto open = domain.opens.find(gone.id);
    if (open == domain.opens.end()) continue;
    open->second = 1;
    left.push_back(number);
  }
  for (const std::uint32_t number : left) close(gone, number);
}

void XrcDomains::end_proxies_of(Session& gone) {
  std::vector<ProxyQp> ended;
  erase_proxies([&](const ProxyQp& known) {
    const bool ends = known.receiver == &gone || known.owner == &gone;
    if (ends && known.receiver != known.owner) ended.push_back(known);
    return ends;
  });
  for (const ProxyQp& one : ended) {
    if (one.owner == &gone) {
      const control::ProxyAnswer word{one.number, one.line, 0};
      one.receiver->send(word, control::kDaemonSequence);
    } else {
      one.owner->send(control::ProxiesReleased{one.number}, control::kDaemonSequence);
    }
  }
}

void XrcDomains::end_handles_of(Session& gone) {
  std::vector<Handle> ended;
  std::erase_if(handles_, [&](const Handle& known) {
    const bool ends = known.holder == &gone || known.owner == &gone;
    if (ends) handle_share_.give_back(known.holder->info.pid);
    if (ends && known.holder != known.owner) ended.push_back(known);
    return ends;
  });
  for (const Handle& one : ended) {
    if (one.owner == &gone) {
      one.holder->send(control::ReceiverEvent{one.number, kEventQpFatal}, control::kDaemonSequence);
    } else {
      control::ReceiverCall call;
      call.verb = control::ReceiverVerb::kClose;
      call.receiver = one.number;
      one.owner->send(call, control::kDaemonSequence);
    }
  }
}

}  // namespace verbena::daemon
