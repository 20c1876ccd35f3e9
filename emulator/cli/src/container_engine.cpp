// SPDX-License-Identifier: BSD-2-Clause
#include "container_engine.hpp"

#include <cstdio>

namespace verbena::cli {
namespace {

struct Version {
  int major = 0;
  int minor = 0;
  bool operator<(const Version& other) const {
    return major != other.major ? major < other.major : minor < other.minor;
  }
};

// Returns the first version that takes --device KIND=NAME from a CDI specification.
Version first_with_cdi(const std::string& engine) {
  return engine == "podman" ? Version{4, 1} : Version{25, 0};
}

// Returns "podman version 4.3.1", or "Docker version 25.0.3, build 4debf41".
std::string asked(const std::string& engine) {
  std::string text;
  std::FILE* pipe = ::popen((engine + " --version 2>/dev/null").c_str(), "re");
  if (pipe == nullptr) return text;
  char line[256];
  if (std::fgets(line, sizeof line, pipe) != nullptr) text = line;
  ::pclose(pipe);
  return text;
}

}  // namespace

std::optional<std::string> why_engine_has_no_cdi(const std::string& engine) {
  const std::string text = asked(engine);
  Version version;
  const auto place = text.find_first_of("0123456789");
  if (place == std::string::npos ||
      std::sscanf(text.c_str() + place, "%d.%d", &version.major, &version.minor) != 2) {
    return "`" + engine + " --version` names no version; is " + engine + " installed?";
  }
  const Version wanted = first_with_cdi(engine);
  if (!(version < wanted)) return std::nullopt;
  return engine + " " + std::to_string(version.major) + "." + std::to_string(version.minor) +
         " does not know CDI; use " + engine + " " + std::to_string(wanted.major) + "." +
         std::to_string(wanted.minor) + " or later, or mount what `verbena env` names by hand";
}

}  // namespace verbena::cli
