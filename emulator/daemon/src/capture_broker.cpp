// SPDX-License-Identifier: BSD-2-Clause
#include "capture_broker.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>

#include "verbena/fabric/socket_failure.hpp"
#include "verbena/link/capture_ring.hpp"

namespace verbena::daemon {
namespace {

constexpr std::uint32_t kNoSource = 0;

}  // namespace

void CaptureBroker::on_request(Session& command, const control::Incoming& in) {
  const auto request = command.decoded<control::Capture>(in);
  if (!request) return;
  if (!request->device.empty() && fabric_.find(request->device) == nullptr) {
    return command.refuse(in.header.sequence, fabric_.no_such_device(request->device));
  }
  if (capture_) return command.refuse(in.header.sequence, {EBUSY, "a capture runs already"});
  const auto started = start(command, *request);
  command.answer(in.header.sequence, started);
  if (started) admit_more();
}

void CaptureBroker::admit_more() {
  for (const auto& [key, context] : clients_.contexts()) {
    while (wants(*context)) {
      const auto order = admit(*context);
      if (order) {
        const int ring[] = {order->ring.get()};
        context->send(control::SetCapture{order->order}, clients_.next_sequence(), ring);
      } else if (wants(*context)) {
        return admit_more_later();
      }
    }
  }
}

void CaptureBroker::admit_more_later() {
  if (retry_) return;
  retry_ = timers_.after(kRetryNs, [this] {
    retry_.reset();
    admit_more();
  });
}

std::optional<CaptureBroker::Order> CaptureBroker::on_context_opened(const Session& context) {
  if (!wants(context)) return std::nullopt;
  auto order = admit(context);
  if (wants(context)) admit_more_later();
  return order;
}

control::Outcome<control::Done> CaptureBroker::start(Session& command,
                                                     const control::Capture& request) {
  capture_ = Running{&command, request.device, request.both_ends, {}, {}};
  capture_->recorded_by_sender = recorded_by_sender();
  for (const auto& port : fabric_.ports()) {
    if (!capture_->covers(*port)) continue;
    if (auto begun = capture_port(*port); !begun) {
      stop();
      return begun;
    }
  }
  return control::Done{};
}

control::Outcome<control::Done> CaptureBroker::capture_port(fabric::Port& port) {
  const auto made = link::CaptureRing::create();
  if (!made) return fabric::failure_of(made.error());
  const control::UniqueFd fd(*made);
  auto ring = link::CaptureRing::map(fd.get());
  if (!ring) return fabric::failure_of(ring.error());
  const control::CaptureSource source{capture_->next_number++,
                                      static_cast<std::uint32_t>(::getpid()),
                                      "verbenad",
                                      port.info().name,
                                      port.info().address,
                                      0};
  const int fds[] = {fd.get()};
  capture_->command->send(source, control::kDaemonSequence, fds);
  port.start_capture(std::move(*ring), capture_->recorded_by_sender);
  return control::Done{};
}

std::vector<IpAddress> CaptureBroker::recorded_by_sender() const {
  std::vector<IpAddress> all;
  for (const auto& port : fabric_.ports()) {
    if (capture_->both_ends || !capture_->covers(*port)) continue;
    for (const IpAddress& address : port->addresses()) all.push_back(address);
  }
  return all;
}

void CaptureBroker::follow_addresses() {
  if (!capture_ || capture_->recorded_by_sender == recorded_by_sender()) return;
  capture_->recorded_by_sender = recorded_by_sender();
  for (const auto& port : fabric_.ports()) {
    if (capture_->covers(*port)) port->leave_out_of_capture(capture_->recorded_by_sender);
  }
  tell_admitted({true, capture_->recorded_by_sender});
}

void CaptureBroker::stop() {
  for (const auto& port : fabric_.ports()) port->stop_capture();
  capture_.reset();
}

bool CaptureBroker::wants(const Session& context) const {
  return capture_ && context.context && capture_->covers(*context.context->port) &&
         !capture_->numbers.contains(context.id);
}

std::optional<CaptureBroker::Order> CaptureBroker::admit(const Session& context) {
  const auto made = link::CaptureRing::create();
  if (!made) {
    spdlog::warn("pid {} is not captured: {}", context.info.pid, made.error().text);
    capture_->numbers[context.id] = kNoSource;
    return std::nullopt;
  }
  control::UniqueFd ring(*made);
  const std::uint32_t number = capture_->next_number;
  const control::CaptureSource source{number,
                                      context.info.pid,
                                      context.info.comm,
                                      context.context->port->info().name,
                                      context.context->port->info().address,
                                      context.context->slot};
  const int fds[] = {ring.get()};
  if (!capture_->command->send_or_drop(control::encode(source, control::kDaemonSequence), fds))
    return std::nullopt;
  ++capture_->next_number;
  capture_->numbers[context.id] = number;
  for (const std::uint32_t slot : context.context->extra_slots) on_extra_slot(context, slot);
  return Order{{true, capture_->recorded_by_sender}, std::move(ring)};
}

void CaptureBroker::on_extra_slot(const Session& context, std::uint32_t slot) {
  if (!capture_) return;
  const auto known = capture_->numbers.find(context.id);
  if (known == capture_->numbers.end() || known->second == kNoSource) return;
  capture_->command->send(control::CaptureSlot{known->second, slot}, control::kDaemonSequence);
}

void CaptureBroker::on_context_closed(const Session& context) {
  if (!capture_) return;
  const auto known = capture_->numbers.find(context.id);
  if (known == capture_->numbers.end()) return;
  if (known->second != kNoSource) {
    capture_->command->send(control::CaptureSourceEnded{known->second}, control::kDaemonSequence);
  }
  capture_->numbers.erase(known);
}

void CaptureBroker::on_client_gone(Session::Id gone) {
  if (!capture_ || capture_->command->id != gone) return;
  tell_admitted({});
  stop();
}

// Sends each order as a message of its own, because it must not replace an order of another
// capture.
void CaptureBroker::tell_admitted(const control::CaptureOrder& order) {
  for (const auto& [key, context] : clients_.contexts()) {
    if (!capture_->numbers.contains(context->id)) continue;
    context->send(control::SetCapture{order}, clients_.next_sequence());
  }
}

}  // namespace verbena::daemon
