// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/endpoint.hpp"

#include <cstdarg>
#include <cstring>
#include <new>

#include "verbena/base/short_text.hpp"

namespace verbena::queue {
namespace {

const char* name_of(Transport transport) {
  switch (transport) {
    case Transport::kRc:
      return "RC";
    case Transport::kUc:
      return "UC";
    case Transport::kUd:
      return "UD";
    case Transport::kXrcSend:
      return "XRC_SEND";
    case Transport::kXrcReceive:
      return "XRC_RECV";
  }
  return "?";
}

void tell(const Endpoint& endpoint, const ShortText& text) noexcept {
  if (endpoint.events == nullptr || !endpoint.events->wants_explanations()) return;
  ShortText line("%s queue pair 0x%06x: ", name_of(endpoint.transport), endpoint.number.value());
  line.add("%s", text.c_str());
  endpoint.events->explain(line.c_str());
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

void Endpoint::fail_for_want_of_room() {
  blame(*this, "its completion queue is full of completions that were not polled");
  fail(AsyncEvent::kQpFatal);
}

}  // namespace verbena::queue
