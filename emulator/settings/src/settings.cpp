// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/settings/settings.hpp"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "file_text.hpp"

namespace verbena::settings {
namespace {

using control::fail;
using control::Outcome;

constexpr std::array<std::string_view, 6> kLogLevels{"trace", "debug", "info",
                                                     "warn",  "error", "off"};

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

Outcome<std::vector<std::string>> strings_of(std::string_view key, const toml::node& node) {
  std::vector<std::string> list;
  if (const auto* one = node.as_string()) {
    list.push_back(one->get());
    return list;
  }
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    return fail(EINVAL, quoted(key) + " must be a string or a list of strings");
  }
  for (const toml::node& element : *array) {
    const auto* text = element.as_string();
    if (text == nullptr) return fail(EINVAL, quoted(key) + " must hold strings only");
    list.push_back(text->get());
  }
  return list;
}

Outcome<std::string> string_of(std::string_view key, const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) return fail(EINVAL, quoted(key) + " must be a string");
  return text->get();
}

template <typename T, typename Parse>
Outcome<control::Done> take_list(std::string_view key, const toml::node& node, Parse parse,
                                 std::vector<T>& out) {
  auto list = strings_of(key, node);
  if (!list) return Failure<control::Error>{list.error()};
  for (const std::string& text : *list) {
    auto value = parse(text);
    if (!value) return Failure<control::Error>{value.error()};
    out.push_back(*value);
  }
  return control::Done{};
}

template <typename T, typename Parse>
Outcome<control::Done> take_one(std::string_view key, const toml::node& node, Parse parse,
                                std::optional<T>& out) {
  auto text = string_of(key, node);
  if (!text) return Failure<control::Error>{text.error()};
  auto value = parse(*text);
  if (!value) return Failure<control::Error>{value.error()};
  out = *value;
  return control::Done{};
}

Outcome<control::Done> take_bool(std::string_view key, const toml::node& node,
                                 std::optional<bool>& out) {
  const auto* value = node.as_boolean();
  if (value == nullptr) return fail(EINVAL, quoted(key) + " must be true or false");
  out = value->get();
  return control::Done{};
}

// A known key, and how its value is taken into the settings.
struct Key {
  std::string_view name;
  Outcome<control::Done> (*take)(std::string_view key, const toml::node& node, Settings& out);
};
constexpr std::array kKeys{
    Key{"fabric", [](auto key, const auto& node,
                     Settings& out) { return take_one(key, node, parse_fabric, out.fabric); }},
    Key{"roce", [](auto key, const auto& node,
                   Settings& out) { return take_list(key, node, parse_roce_address, out.roce); }},
    Key{"devices",
        [](auto key, const auto& node, Settings& out) {
          return take_list(key, node, parse_device_name, out.devices);
        }},
    Key{"log_level",
        [](auto key, const auto& node, Settings& out) {
          return take_one(key, node, parse_log_level, out.log_level);
        }},
    Key{"explain", [](auto key, const auto& node,
                      Settings& out) { return take_bool(key, node, out.explain); }},
};

Outcome<control::Done> take_key(std::string_view key, const toml::node& node, Settings& out) {
  std::string known;
  for (const Key& k : kKeys) {
    if (k.name == key) return k.take(key, node, out);
    known += (known.empty() ? "" : ", ") + std::string(k.name);
  }
  return fail(EINVAL, "unknown key " + quoted(key) + "; known are " + known);
}

}  // namespace

control::Subnet FabricRange::subnet() const {
  control::Subnet subnet{address, prefix_length};
  const unsigned bits = (address.is_v4() ? 96u : 0u) + prefix_length;
  for (unsigned i = bits; i < 128; ++i) {
    subnet.base.bytes[i / 8] =
        static_cast<std::uint8_t>(subnet.base.bytes[i / 8] & ~(0x80u >> (i % 8)));
  }
  return subnet;
}

bool FabricRange::has_host_part() const { return !(subnet().base == address); }

std::string FabricRange::to_string() const {
  return address.to_string() + "/" + std::to_string(prefix_length);
}

void Settings::override_with(const Settings& over) {
  // The three settings that choose devices belong together: half from each source would surprise.
  if (over.chooses_devices()) {
    fabric = over.fabric;
    roce = over.roce;
    devices = over.devices;
  }
  if (over.log_level) log_level = over.log_level;
  if (over.explain) explain = over.explain;
}

Outcome<FabricRange> parse_fabric(std::string_view text) {
  const auto wrong = [text] {
    return fail(EINVAL, "fabric " + quoted(text) + " is not a subnet such as 10.1.0.0/24");
  };
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return wrong();
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address || address->is_multicast()) return wrong();
  const std::string_view digits = text.substr(slash + 1);
  unsigned length = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (digits.empty() || parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) {
    return wrong();
  }
  if (!address->is_v4()) {
    return fail(EINVAL, "fabric " + quoted(text) +
                            " is of IPv6; InfiniBand ports have IPv4 addresses, and --roce makes "
                            "devices at IPv6 addresses");
  }
  if (length > 30 || length < 16) {
    return fail(EINVAL, "fabric " + quoted(text) +
                            " must have a prefix length from 16 to 30: the host part of an address "
                            "is its 16-bit LID");
  }
  return FabricRange{*address, static_cast<std::uint8_t>(length)};
}

Outcome<IpAddress> parse_roce_address(std::string_view text) {
  const auto address = IpAddress::parse(text);
  if (!address) {
    return fail(EINVAL, "RoCE address " + quoted(text) + " is not an IPv4 or IPv6 address");
  }
  if (address->is_multicast() || address->is_unspecified()) {
    return fail(EINVAL, "RoCE address " + quoted(text) + " is not the address of one interface");
  }
  return *address;
}

Outcome<std::string> parse_device_name(std::string_view text) {
  const bool fine = !text.empty() &&
                    std::all_of(text.begin(), text.end(),
                                [](char c) {
                                  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                         (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
                                }) &&
                    text[0] != '.' && text[0] != '-';
  if (!fine) {
    return fail(EINVAL,
                "device name " + quoted(text) + " may hold letters, digits, '_', '-' and '.' only");
  }
  if (text.size() > 19) {
    return fail(EINVAL, "device name " + quoted(text) +
                            " is longer than 19 characters, which ibstat cannot show");
  }
  return std::string(text);
}

Outcome<std::string> parse_log_level(std::string_view text) {
  if (std::find(kLogLevels.begin(), kLogLevels.end(), text) == kLogLevels.end()) {
    return fail(EINVAL,
                "log level " + quoted(text) + " is none of trace, debug, info, warn, error, off");
  }
  return std::string(text);
}

Outcome<Settings> parse_toml(std::string_view text, const std::string& origin) {
  if (const auto checked = check_keys(text, origin); !checked) {
    return Failure<control::Error>{checked.error()};
  }
  const toml::parse_result parsed = toml::parse(text);
  const auto at = [&origin](const toml::source_region& where) {
    return origin + ":" + std::to_string(where.begin.line) + ": ";
  };
  if (!parsed) {
    return fail(EINVAL, at(parsed.error().source()) + std::string(parsed.error().description()));
  }
  Settings settings;
  for (const auto& [key, node] : parsed.table()) {
    const auto taken = take_key(key.str(), node, settings);
    if (!taken) return fail(EINVAL, at(key.source()) + taken.error().text);
  }
  return settings;
}

Outcome<Settings> load_toml(const std::string& path) {
  const auto text = text_of_file(path);
  if (!text) return Failure<control::Error>{text.error()};
  return parse_toml(*text, path);
}

std::string default_config_path() {
  const char* base = std::getenv("XDG_CONFIG_HOME");
  if (base != nullptr && *base == '/') return std::string(base) + "/verbena/config.toml";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.config/verbena/config.toml";
}

}  // namespace verbena::settings
