// SPDX-License-Identifier: BSD-2-Clause
#include "text.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

namespace verbena::cli {
namespace {

using control::fail;
using control::Outcome;

struct Unit {
  std::string_view name;
  double factor;
};

// Returns the number, in units of 1; none if the text is not a number with one of these units.
template <std::size_t N>
std::optional<double> parse_with_unit(std::string_view text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view rest(parsed.ptr,
                              static_cast<std::size_t>(text.data() + text.size() - parsed.ptr));
  for (const Unit& unit : units) {
    if (unit.name == rest) return number * unit.factor;
  }
  return std::nullopt;
}

Failure<control::Error> wrong(std::string_view text, const char* expected) {
  return fail(EINVAL, "\"" + std::string(text) + "\" is not " + expected);
}

// Parses a decimal number, or a hexadecimal one with 0x before it. Returns 0 if it is neither.
std::uint32_t parse_number(std::string_view text) {
  const bool is_hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const std::string_view digits = is_hex ? text.substr(2) : text;
  const char* const end = digits.data() + digits.size();
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(digits.data(), end, number, is_hex ? 16 : 10);
  return parsed.ec == std::errc{} && parsed.ptr == end ? number : 0;
}

}  // namespace

Outcome<std::uint32_t> parse_share(std::string_view text) {
  static constexpr std::array<Unit, 3> kUnits{{{"%", 1e4}, {"ppm", 1}, {"", 1e6}}};
  const auto ppm = parse_with_unit(text, kUnits);
  if (!ppm || *ppm > 1e6) return wrong(text, "a share such as 1%, 200ppm or 0.01");
  const auto whole = static_cast<std::uint32_t>(std::lround(*ppm));
  if (whole == 0 && *ppm > 0) return wrong(text, "a share of at least 1ppm, or 0");
  return whole;
}

Outcome<std::uint64_t> parse_duration_ns(std::string_view text) {
  static constexpr std::array<Unit, 4> kUnits{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  if (text == "0") return std::uint64_t{0};
  const auto ns = parse_with_unit(text, kUnits);
  if (!ns || *ns > 3.6e12) return wrong(text, "a duration such as 50us, 2ms or 1s");
  return static_cast<std::uint64_t>(std::llround(*ns));
}

Outcome<std::uint64_t> parse_rate(std::string_view text) {
  static constexpr std::array<Unit, 8> kUnits{{{"B", 1},
                                               {"kB", 1e3},
                                               {"MB", 1e6},
                                               {"GB", 1e9},
                                               {"bit", 0.125},
                                               {"kbit", 125},
                                               {"Mbit", 125e3},
                                               {"Gbit", 125e6}}};
  if (text == "0") return std::uint64_t{0};
  const auto rate = parse_with_unit(text, kUnits);
  if (!rate || *rate < 1 || *rate > 1e15) {
    return wrong(text, "a rate per second such as 100MB or 1Gbit");
  }
  return static_cast<std::uint64_t>(std::llround(*rate));
}

Outcome<std::uint32_t> parse_qpn(std::string_view text) {
  const std::uint32_t qpn = parse_number(text);
  if (qpn == 0 || qpn > 0xffffff) {
    return wrong(text, "the number of a queue pair, such as 0x004001");
  }
  return qpn;
}

Outcome<std::uint64_t> parse_seed(std::string_view text) {
  std::uint64_t seed = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) {
    return wrong(text, "a seed, which is a whole number such as 4711");
  }
  return seed;
}

Outcome<std::uint32_t> parse_srq(std::string_view text) {
  const std::uint32_t srq = parse_number(text);
  if (srq == 0) return wrong(text, "the number of a shared receive queue, such as 0x80200001");
  return srq;
}

std::string share_text(std::uint32_t parts_per_million) {
  char text[32];
  std::snprintf(text, sizeof text, "%g%%", parts_per_million / 1e4);
  return text;
}

std::string duration_text(std::uint64_t ns) {
  char text[32];
  const double n = static_cast<double>(ns);
  if (ns >= 1'000'000'000) {
    std::snprintf(text, sizeof text, "%gs", n / 1e9);
  } else if (ns >= 1'000'000) {
    std::snprintf(text, sizeof text, "%gms", n / 1e6);
  } else if (ns >= 1000) {
    std::snprintf(text, sizeof text, "%gus", n / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%gns", n);
  }
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::array kNames{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double n = static_cast<double>(bytes);
  std::size_t i = 0;
  for (; n >= 1000 && i + 1 < kNames.size(); ++i) n /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, i == 0 ? "%.0f %s" : "%.1f %s", n, kNames[i]);
  return text;
}

}  // namespace verbena::cli
