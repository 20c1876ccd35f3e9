#include "verbena/queue/endpoint.hpp"

#include <cstdarg>
#include <cstdio>

namespace verbena::queue {
namespace {

const char* name_of(Transport transport) {
  switch (transport) {
    case Transport::kRc: return "RC";
    case Transport::kUc: return "UC";
    case Transport::kUd: return "UD";
    case Transport::kXrcSend: return "XRC_SEND";
    case Transport::kXrcReceive: return "XRC_RECV";
  }
  return "?";
}

}  // namespace

void explain(const Endpoint& endpoint, const char* format, ...) noexcept {
  if (endpoint.events == nullptr || !endpoint.events->wants_explanations()) return;
  char text[400];
  int used = std::snprintf(text, sizeof text, "%s queue pair 0x%06x: ", name_of(endpoint.transport),
                           endpoint.number.value());
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text + used, sizeof text - static_cast<std::size_t>(used), format, arguments);
  va_end(arguments);
  endpoint.events->explain(text);
}

}  // namespace verbena::queue
