// SPDX-License-Identifier: BSD-2-Clause
// XRC receive queue pairs and their handles. Each call of ibv_create_qp_ex or ibv_open_qp makes a
// handle. The queue pair behind the handles lives until the last handle is destroyed, and reports
// its events to each of them. A handle of a queue pair in another context acts on it through the
// daemon, and ends in errors when that context ends. Owned by the context.
//
// Threads: any thread calls verbs. Messages of the daemon come under the client's lock, and events
// from inside the engine. `lock_` is taken before the engine's locks; the lock of a queue pair's
// handles is taken after them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "verbena/control/xrc_messages.hpp"
#include "verbena/objects/objects.hpp"

namespace verbena::provider {

class Context;

class XrcReceivers {
 public:
  explicit XrcReceivers(Context& context) : context_(context) {}
  ~XrcReceivers();

  // Makes the first handle of `receiver`, which from now on is accessed through handles only.
  Qp* adopt(std::unique_ptr<Qp> receiver, Xrcd& xrcd, void* user);
  // Makes a further handle, also of a queue pair in another context. Throws VerbRefused.
  Qp* open(const char* verb, Xrcd& xrcd, std::uint32_t number, void* user);
  void close(Qp& handle);

  // These act on a handle of a queue pair in another context.
  void modify(const Qp& handle, const ibv_qp_attr& attr, unsigned mask);
  void query(const Qp& handle, ibv_qp_attr& attr);

  void on_event(Qp& receiver, std::uint32_t type) noexcept;
  void on_call(const control::ReceiverCall& call);
  void on_remote_event(const control::ReceiverEvent& event);

 private:
  Qp* make_handle(Qp& receiver, Xrcd& xrcd, void* user);
  Qp* open_remote(const char* verb, Xrcd& xrcd, std::uint32_t number, void* user);
  ibv_qp_attr call(const char* verb, control::ReceiverVerb what, std::uint32_t domain,
                   std::uint32_t number, const ibv_qp_attr* attr, unsigned mask);
  control::ReceiverAnswer carry_out(const control::ReceiverCall& call);
  std::uint32_t destroy_unused(Qp& receiver);

  Context& context_;
  std::mutex lock_;
  std::map<std::uint32_t, Qp*> receivers_;  // by queue pair number
  std::vector<Qp*> remote_;                 // handles of queue pairs in other contexts
};

}  // namespace verbena::provider
