// SPDX-License-Identifier: BSD-2-Clause
#include "server.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "journal_json.hpp"
#include "version.hpp"

namespace verbena::daemon {

using control::UniqueFd;

namespace {

// The client may not have said a word yet, or many: it reads the reason all the same.
void turn_away(int client, int code, std::string text) {
  const control::Refused refused{static_cast<std::uint32_t>(code), std::move(text)};
  control::stop_receiving(client);
  (void)control::send_packet(client, control::encode(refused, 0), {}, MSG_DONTWAIT);
}

}  // namespace

Server::Server(EventLoop& loop, Instance& instance, fabric::Fabric& fabric, Shares& shares,
               bool exit_when_idle)
    : loop_(loop),
      instance_(instance),
      fabric_(fabric),
      shares_(shares),
      exit_when_idle_(exit_when_idle),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  for (const auto& port : fabric_.ports()) {
    port->set_relay([this, p = port.get()](std::uint32_t slot, const control::Relayed& datagram) {
      relay(*p, slot, datagram);
    });
  }
  journal_.note(json_of_up(kVersion, static_cast<std::uint32_t>(::getpid())));
}

Server::~Server() {
  for (const auto& [pid, fd] : holds_) loop_.unwatch(fd.get());
  if (listening_) loop_.unwatch(listening_.get());
}

void Server::start(UniqueFd listening) {
  if (listening_) loop_.unwatch(listening_.get());
  listening_ = std::move(listening);
  loop_.watch(listening_.get(), [this] { accept_all(); });
  consider_idle();
}

void Server::accept_all() {
  // A bounded turn: two hundred clients at once must not keep the others waiting.
  for (int i = 0; i < 64; ++i) {
    if (!accept_one()) return;
  }
}

bool Server::accept_one() {
  UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE) refuse_for_want_of_descriptors();
    return errno == EINTR || errno == ECONNABORTED;
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return true;
  if (peer.uid != ::geteuid()) {
    spdlog::warn("refused a client of user id {} (pid {})", peer.uid, peer.pid);
    turn_away(fd.get(), EACCES, "this emulator belongs to user id " + std::to_string(::geteuid()));
    return true;
  }
  const auto pid = static_cast<std::uint32_t>(peer.pid);
  if (const auto reason = reason_against(pid)) {
    turn_away(fd.get(), reason->code, reason->text);
    return true;
  }
  add_session(std::move(fd), pid);
  return true;
}

std::optional<control::Error> Server::reason_against(std::uint32_t pid) const {
  const limits::FairShare& share = shares_.descriptors;
  if (share.may_take(pid)) return std::nullopt;
  return control::Error{
      EMFILE, "process " + std::to_string(pid) + " has " + std::to_string(share.held_by(pid)) +
                  " descriptors of this emulator, and " + std::to_string(share.left()) +
                  " are left for all others: no process may have more than that"};
}

// Without this the waiting client would wake us for ever, and it would hang.
void Server::refuse_for_want_of_descriptors() {
  if (!spare_) return pause_accepting();
  spare_.reset();
  const UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd) {
    spdlog::error("out of descriptors with {} clients; raise `ulimit -n`", clients_.size());
    turn_away(fd.get(), EMFILE,
              "the emulator has no descriptor left; raise `ulimit -n` before `verbena up`");
  }
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void Server::pause_accepting() {
  loop_.unwatch(listening_.get());
  loop_.after(kAcceptPauseNs, [this] {
    if (!listening_) return;
    if (!spare_) spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    loop_.watch(listening_.get(), [this] { accept_all(); });
  });
}

void Server::add_session(UniqueFd fd, std::uint32_t pid) {
  if (linger_) {
    loop_.cancel(*linger_);
    linger_.reset();
  }
  Session::Events events;
  events.on_message = [this](Session& session, control::Incoming in) {
    on_message(session, std::move(in));
  };
  // Deleted only after its own handlers have returned.
  events.on_end = [this](Session& session, const control::Error& error) {
    if (error.code != ECONNRESET) {
      spdlog::warn("client {} ({}) cut off: {}", session.info.pid, session.info.comm, error.text);
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
  end_capture_of(id);
  end_streams_of(id);
  questions_.on_client_gone(id);
  imports_.on_client_gone(id);
  faults_.on_client_gone(id);
  orders_.on_client_gone(id);
  rule_events_.on_client_gone(id);
  if (extension_ != nullptr) extension_->on_client_closed(id);
  std::vector<std::uint32_t> done;
  for (const auto& [sequence, round] : rounds_) {
    round.questions->forget(id);
    if (round.questions->is_done()) done.push_back(sequence);
  }
  for (const std::uint32_t sequence : done) finish_round(sequence);
  consider_idle();
}

void Server::close_context(Session& session) {
  if (!session.context) return;
  journal_.note_closed(session);
  // Before anybody else can get the slot.
  rings_.on_context_closed(session);
  captures_.on_context_closed(session);
  xrc_.on_context_closed(session);
  remember_end_of(session);
  clients_.remove_context(session);
  const Session::Context context = *session.context;
  session.context.reset();
  context.port->faults().end_queue_pairs_of(context.slot);
  for (const std::uint32_t slot : context.extra_slots) {
    context.port->faults().end_queue_pairs_of(slot);
  }
  context.port->remove_context(context.slot);
  spdlog::info("{} slot {} is free again (pid {} {})", context.port->info().name, context.slot,
               session.info.pid, session.info.comm);
}

void Server::consider_idle() {
  if (!exit_when_idle_ || ending_ || linger_ || clients_.size() != 0 || !holds_.empty()) return;
  linger_ = loop_.after(kIdleLingerNs, [this] {
    linger_.reset();
    if (exit_when_idle_ && clients_.size() == 0 && holds_.empty()) shut_down("nobody uses it");
  });
}

void Server::shut_down(const std::string& reason) {
  if (ending_) return;
  ending_ = true;
  spdlog::info("going down: {}", reason);
  instance_.begin_end();
  loop_.unwatch(listening_.get());
  listening_.reset();
  rule_events_.end();
  journal_.end(reason);
  clients_.tell_contexts("", control::Shutdown{reason});
  // In a turn of its own: the caller may be a handler of a session.
  const auto stop = [this] { loop_.at_end_of_turn([this] { loop_.stop(); }); };
  if (extension_ == nullptr) return stop();
  extension_->on_ending(stop);
}

void Server::restore_runtime_dir() {
  if (ending_) return;
  loop_.unwatch(listening_.get());
  listening_.reset();
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
  // Nobody can reach us any more; those who have us keep us.
  spdlog::error("the runtime directory is lost ({}); ending after the last client",
                done.error().text);
  exit_when_idle_ = true;
  consider_idle();
}

void Server::relay(fabric::Port& port, std::uint32_t slot, const control::Relayed& datagram) {
  const auto found = clients_.contexts().find({&port, slot});
  if (found == clients_.contexts().end()) return;
  // It answers nothing, so its number means nothing.
  found->second->send_or_drop(control::encode(datagram, control::kDaemonSequence));
}

}  // namespace verbena::daemon
