// SPDX-License-Identifier: BSD-2-Clause
// Lets a process import what another one's context has made: passes the question to the owner, and
// the answer back to the importer. A process that was given the owner's descriptor knows the name
// of its socket, which cannot be guessed. When the owner changes a region, all contexts that import
// from it are told. Owned by the server, on its thread.
#pragma once

#include <map>
#include <string>

#include "client_table.hpp"
#include "outstanding_orders.hpp"
#include "questions.hpp"

namespace verbena::daemon {

class Imports {
 public:
  Imports(ClientTable& clients, Questions& questions, OutstandingOrders& orders)
      : clients_(clients), questions_(questions), orders_(orders) {}

  void on_import(Session& importer, const control::Incoming& in);
  void on_exported(Session& owner, const control::Incoming& in);
  void on_region_changed(Session& owner, const control::Incoming& in);
  void on_region_followed(const Session& importer, const control::Incoming& in);
  void on_client_gone(Session::Id gone);

 private:
  Session* owner_for(const Session& importer, const std::string& name);

  ClientTable& clients_;
  Questions& questions_;
  OutstandingOrders& orders_;
  std::map<Session::Id, Session::Id> owners_;  // keyed by importer, until the importer goes
};

}  // namespace verbena::daemon
