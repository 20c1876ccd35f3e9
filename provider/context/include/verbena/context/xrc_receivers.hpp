// SPDX-License-Identifier: BSD-2-Clause
// XRC receive queue pairs and their handles. Each call of ibv_create_qp_ex or ibv_open_qp makes a
// handle; the queue pair behind them is nobody's in particular, lives until the last handle is
// destroyed, and tells each of them of its events. A handle of a queue pair that another context
// has acts upon it through the daemon, and ends in errors when that context ends. Owned by the
// context.
//
// Threads: verbs from any; messages of the daemon under the control lock; events from inside the
// engine. The lock here is taken before the engine's, that of a queue pair's handles after them.
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

  // Its first handle. From here on it is reached through handles only.
  Qp* adopt(std::unique_ptr<Qp> receiver, Xrcd& xrcd, void* user);
  // A further handle, also of another context's. Throws VerbRefused.
  Qp* open(const char* verb, Xrcd& xrcd, std::uint32_t number, void* user);
  void close(Qp& handle);

  // Upon a handle of another context's.
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
  std::map<std::uint32_t, Qp*> receivers_;  // by number
  std::vector<Qp*> remote_;                 // handles of other contexts'
};

}  // namespace verbena::provider
