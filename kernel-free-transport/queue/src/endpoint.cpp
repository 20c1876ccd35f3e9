// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/endpoint.hpp"

#include <cstdarg>
#include <cstring>
#include <new>

#include "verbena/base/short_text.hpp"

namespace verbena::queue {
namespace {

constexpr std::string_view kReceiveName = "RECV";

void tell(const Endpoint& endpoint, const ShortText& text) noexcept {
  if (endpoint.events == nullptr || !endpoint.events->wants_explanations()) return;
  ShortText line("%s queue pair 0x%06x: ", to_string(endpoint.transport), endpoint.number.value());
  line.add("%s", text.c_str());
  endpoint.events->explain(line.c_str());
}

// Tells nothing about a proxy (it has no cookie), because programs do not know it.
void tell(const Endpoint& endpoint, Occurrence what) noexcept {
  if (endpoint.events == nullptr || endpoint.cookie == nullptr) return;
  what.transport = endpoint.transport;
  what.number = endpoint.number;
  what.peer = endpoint.peer;
  what.peer_address = endpoint.destination.address;
  endpoint.events->on_occurrence(what);
}

void tell_flushed(const Endpoint& endpoint, std::string_view opcode,
                  std::optional<std::uint64_t> id, std::uint32_t count) noexcept {
  if (count == 0) return;
  tell(endpoint, {.kind = Occurrence::Kind::kFailure,
                  .status = Status::kFlushed,
                  .opcode = opcode,
                  .id = id,
                  .count = count});
}

}  // namespace

void Reason::note(const char* text) noexcept {
  if (text_) return;
  const std::size_t size = std::strlen(text) + 1;
  text_.reset(new (std::nothrow) char[size]);
  if (text_) std::memcpy(text_.get(), text, size);
}

void explain(const Endpoint& endpoint, const char* format, ...) noexcept {
  if (endpoint.events == nullptr || !endpoint.events->wants_explanations()) return;
  ShortText text;
  va_list arguments;
  va_start(arguments, format);
  text.add_list(format, arguments);
  va_end(arguments);
  tell(endpoint, text);
}

void blame(Endpoint& endpoint, const char* format, ...) noexcept {
  ShortText text;
  va_list arguments;
  va_start(arguments, format);
  text.add_list(format, arguments);
  va_end(arguments);
  endpoint.reason.note(text.c_str());
  tell(endpoint, text);
}

void tell_state(const Endpoint& endpoint, std::uint8_t state) noexcept {
  tell(endpoint,
       {.kind = Occurrence::Kind::kState, .state = state, .text = endpoint.reason.text()});
}

void tell_failure(const Endpoint& endpoint, Status status, std::string_view opcode,
                  std::uint64_t id, const char* why) noexcept {
  tell(endpoint, {.kind = Occurrence::Kind::kFailure,
                  .status = status,
                  .opcode = opcode,
                  .id = id,
                  .text = why});
}

void tell_flushed_sends(Endpoint& endpoint, std::string_view opcode, std::uint64_t id,
                        std::uint32_t count) noexcept {
  tell_flushed(endpoint, opcode, id, endpoint.flushed_sends.add(count));
}

void tell_flushed_receives(Endpoint& endpoint, std::uint64_t id, std::uint32_t count) noexcept {
  tell_flushed(endpoint, kReceiveName, id, endpoint.flushed_receives.add(count));
}

void tell_timeout(Endpoint& endpoint, std::string_view opcode, std::uint64_t id) noexcept {
  const std::uint32_t count = endpoint.timeouts.add(1);
  if (count == 0) return;
  tell(endpoint, {.kind = Occurrence::Kind::kTimeout, .opcode = opcode, .id = id, .count = count});
}

void tell_rest(Endpoint& endpoint) noexcept {
  tell_flushed(endpoint, {}, std::nullopt, endpoint.flushed_sends.take_rest());
  tell_flushed(endpoint, kReceiveName, std::nullopt, endpoint.flushed_receives.take_rest());
  const std::uint32_t timeouts = endpoint.timeouts.take_rest();
  if (timeouts != 0) tell(endpoint, {.kind = Occurrence::Kind::kTimeout, .count = timeouts});
}

void Endpoint::fail_for_want_of_room() {
  // Explains it once: each flushed completion finds no room, either.
  if (reason.text()[0] == '\0') {
    blame(*this, "%s", kFullOfCompletions);
  }
  fail(AsyncEvent::kQpFatal);
}

}  // namespace verbena::queue
