// SPDX-License-Identifier: BSD-2-Clause
// Knows which XRC domains exist, which contexts have them open, and which contexts hold what of
// each other through them: proxies for receivers, and handles of receivers. When a context ends,
// tells those that held something of it or for it. Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "session.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/xrc_messages.hpp"

namespace verbena::daemon {

class XrcDomains {
 public:
  // Limits for all processes together, of which each has its share. The daemon looks at all of
  // these objects now and then.
  static constexpr std::size_t kOpen = 65536;
  static constexpr std::size_t kProxies = 65536;
  static constexpr std::size_t kHandles = 65536;

  control::Outcome<std::uint32_t> open(Session& session, const control::OpenDomain& request);
  bool close(Session& session, std::uint32_t number);
  bool has_open(const Session& session, std::uint32_t number) const;

  // `owner` is the context of the SRQ, or null if there is none.
  void on_wanted(Session& receiver, Session* owner, const control::ProxyWanted& wanted);
  void on_answer(Session& owner, Session* receiver, const control::ProxyAnswer& answer);
  void on_released(Session& receiver, std::uint32_t number);

  void add_handle(Session& holder, Session& owner, std::uint32_t number);
  void remove_handle(Session& holder, Session& owner, std::uint32_t number);
  bool has_handle(const Session& holder, const Session& owner, std::uint32_t number) const;
  bool may_have_another_handle(const Session& holder) const {
    return handle_share_.may_take(holder.info.pid);
  }
  void on_event(Session& owner, const control::ReceiverEvent& event);

  // Must be called while the session still has its context.
  void on_context_closed(Session& gone);

 private:
  using File = std::tuple<const fabric::Port*, std::uint64_t, std::uint64_t>;  // device, inode
  struct Domain {
    File file;
    std::map<Session::Id, std::uint32_t> opens;
  };
  struct ProxyQp {
    Session* receiver;
    Session* owner;
    std::uint32_t number;  // the receiver's number
    std::uint32_t line;
  };
  struct Handle {
    Session* holder;
    Session* owner;
    std::uint32_t number;
  };

  template <typename Ends>
  void erase_proxies(Ends ends);
  void end_proxies_of(Session& gone);
  void end_handles_of(Session& gone);

  std::map<std::uint32_t, Domain> domains_;
  std::map<File, std::uint32_t> numbers_;
  std::uint32_t next_number_ = 1;
  std::vector<ProxyQp> proxies_;
  std::vector<Handle> handles_;
  // Shares of the process that opened the domain, has the receiver, or has the handle.
  limits::FairShare open_share_{kOpen};
  limits::FairShare proxy_share_{kProxies};
  limits::FairShare handle_share_{kHandles};
};

}  // namespace verbena::daemon
