// SPDX-License-Identifier: BSD-2-Clause
// Captures: what `verbena capture` asks for, and which contexts are told.
#include <cerrno>

#include "server.hpp"

namespace verbena::daemon {

using control::Incoming;

void Server::on_capture(Session& session, const Incoming& in) {
  const auto request = session.decoded<control::Capture>(in);
  if (!request) return;
  if (!request->device.empty() && fabric_.find(request->device) == nullptr) {
    return session.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  if (captures_.is_running()) {
    return session.refuse(in.header.sequence, {EBUSY, "a capture runs already"});
  }
  const auto started = captures_.start(session, *request);
  session.answer(in.header.sequence, started);
  if (started) capture_more();
}

// A command that does not read at this moment hears of the rest later.
void Server::capture_more() {
  for (const auto& [key, session] : clients_.contexts()) {
    while (captures_.wants(*session)) {
      const auto order = captures_.admit(*session);
      if (order) {
        const int ring[] = {order->ring.get()};
        session->send(control::SetCapture{order->order}, clients_.next_sequence(), ring);
      } else if (captures_.wants(*session)) {
        return capture_more_later();
      }
    }
  }
}

void Server::capture_more_later() {
  if (capture_retry_) return;
  capture_retry_ = loop_.after(kCaptureRetryNs, [this] {
    capture_retry_.reset();
    capture_more();
  });
}

void Server::end_capture_of(Session::Id owner) {
  if (!captures_.is_of(owner)) return;
  tell_captured({});
  captures_.stop();
}

void Server::follow_captured_addresses() {
  if (const auto order = captures_.follow_addresses()) tell_captured(*order);
}

// Each order is of the capture before it: none may take the place of another.
void Server::tell_captured(const control::CaptureOrder& order) {
  for (const auto& [key, context] : clients_.contexts()) {
    if (!captures_.has_admitted(*context)) continue;
    context->send(control::SetCapture{order}, clients_.next_sequence());
  }
}

}  // namespace verbena::daemon
