// SPDX-License-Identifier: BSD-2-Clause
#include "server.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>

#include "journal_json.hpp"
#include "verbena/control/printable.hpp"
#include "version.hpp"

namespace verbena::daemon {

using control::UniqueFd;

Server::Server(EventLoop& loop, Instance& instance, fabric::Fabric& fabric, Shares& shares,
               bool exit_when_idle)
    : loop_(loop),
      instance_(instance),
      fabric_(fabric),
      clients_(loop, shares),
      listener_(loop, clients_, shares.descriptors,
                [this](UniqueFd fd, std::uint32_t pid) { add_session(std::move(fd), pid); }),
      lifetime_(loop, clients_, shares.descriptors, exit_when_idle,
                [this] { shut_down("nobody uses it"); }),
      rings_(shares) {
  for (const auto& port : fabric_.ports()) {
    port->set_relay([this, p = port.get()](std::uint32_t slot, const control::Relayed& datagram) {
      relay(*p, slot, datagram);
    });
  }
  journal_.note(json_of_up(kVersion, static_cast<std::uint32_t>(::getpid())));
}

void Server::start(UniqueFd listening) {
  listener_.start(std::move(listening));
  lifetime_.consider();
}

void Server::add_session(UniqueFd fd, std::uint32_t pid) {
  lifetime_.on_client_came();
  Session::Events events;
  events.on_message = [this](Session& session, control::Incoming in) {
    on_message(session, std::move(in));
  };
  // A session is deleted only after its own handlers have returned.
  events.on_end = [this](Session& session, const control::Error& error) {
    if (error.code != ECONNRESET) {
      spdlog::warn("client {} ({}) cut off: {}", session.info.pid,
                   control::printable(session.info.comm), error.text);
    }
    loop_.at_end_of_turn([this, gone = session.id] { remove_session(gone); });
  };
  clients_.add(std::move(fd), pid, std::move(events));
}

void Server::remove_session(Session::Id id) {
  const std::unique_ptr<Session> session = clients_.remove(id);
  if (session == nullptr) return;
  journal_.on_client_gone(id);
  close_context(*session);
  captures_.on_client_gone(id);
  status_.on_client_gone(id);
  questions_.on_client_gone(id);
  imports_.on_client_gone(id);
  faults_.on_client_gone(id);
  orders_.on_client_gone(id);
  rule_events_.on_client_gone(id);
  if (extension_ != nullptr) extension_->on_client_closed(id);
  lifetime_.consider();
}

void Server::close_context(Session& session) {
  if (!session.context) return;
  journal_.note_closed(session);
  // This comes before another context can get the slot.
  rings_.on_context_closed(session);
  captures_.on_context_closed(session);
  xrc_.on_context_closed(session);
  peers_.on_context_closed(session);
  clients_.remove_context(session);
  const Session::Context context = *session.context;
  session.context.reset();
  context.port->faults().end_queue_pairs_of(context.slot);
  for (const std::uint32_t slot : context.extra_slots) {
    context.port->faults().end_queue_pairs_of(slot);
  }
  context.port->remove_context(context.slot);
  spdlog::info("{} slot {} is free again (pid {} {})", context.port->info().name, context.slot,
               session.info.pid, control::printable(session.info.comm));
}

void Server::shut_down(const std::string& reason) {
  if (ending_) return;
  ending_ = true;
  spdlog::info("going down: {}", reason);
  instance_.begin_end();
  listener_.stop();
  rule_events_.end();
  journal_.end(reason);
  clients_.tell_contexts("", control::Shutdown{reason});
  // Stops in a turn of its own, because the caller may be a handler of a session.
  const auto stop = [this] { loop_.at_end_of_turn([this] { loop_.stop(); }); };
  if (extension_ == nullptr) return stop();
  extension_->on_ending(stop);
}

void Server::restore_runtime_dir() {
  if (ending_) return;
  listener_.stop();
  control::Outcome<control::Done> done = instance_.restore();
  if (done) done = fabric_.restore_shadow();
  if (done) {
    auto listening = instance_.listen();
    if (listening) {
      start(std::move(*listening));
      spdlog::warn("the runtime directory was removed and is there again");
      return;
    }
    done = Failure<control::Error>{listening.error()};
  }
  if (!instance_.has_directory()) fabric_.give_shadow_up();
  // New clients cannot reach the daemon any more; those that are connected stay.
  spdlog::error("the runtime directory is lost ({}); ending after the last client",
                done.error().text);
  lifetime_.end_when_idle();
}

void Server::relay(fabric::Port& port, std::uint32_t slot, const control::Relayed& datagram) {
  const auto found = clients_.contexts().find({&port, slot});
  if (found == clients_.contexts().end()) return;
  // A context does not answer this message, so its number has no meaning.
  found->second->send_or_drop(control::encode(datagram, control::kDaemonSequence));
}

}  // namespace verbena::daemon
