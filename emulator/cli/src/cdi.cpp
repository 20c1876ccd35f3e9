// SPDX-License-Identifier: BSD-2-Clause
// verbena cdi prints a Container Device Interface specification. By it podman, Docker, containerd
// and CRI-O give the emulator's devices to a container: its libraries, its runtime directory, and
// what `verbena env` exports, with the paths that these have inside.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "command.hpp"
#include "container_engine.hpp"
#include "emulator.hpp"
#include "parts.hpp"
#include "private_emulator.hpp"
#include "verbena/control/printable.hpp"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Paths inside the container.
constexpr char kInsidePrefix[] = "/opt/verbena";
constexpr char kRuntimeDir[] = "/run/verbena";

json mount(const std::string& host, const std::string& inside, const char* access) {
  return {{"hostPath", host},
          {"containerPath", inside},
          {"options", {"bind", access, "nosuid", "nodev"}}};
}

// Mounts the files one by one, because the folder may hold other libraries as well.
json mounts_of(const Parts& parts, const Parts& inside) {
  std::set<std::string> libraries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parts.lib_dir, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("libverbena-") && name.ends_with(".so")) libraries.insert(name);
  }
  json mounts = json::array();
  for (const char* name : {"verbena", "verbenad"}) {
    mounts.push_back(mount(parts.bin_dir + "/" + name, inside.bin_dir + "/" + name, "ro"));
  }
  for (const std::string& name : libraries) {
    mounts.push_back(mount(parts.lib_dir + "/" + name, inside.lib_dir + "/" + name, "ro"));
  }
  return mounts;
}

// Each device brings the runtime directory, because engines refuse a device without edits of its
// own.
json specification(const Parts& parts, const Emulator& emulator, const std::string& runtime_dir) {
  Parts inside;
  inside.bin_dir = std::string(kInsidePrefix) + "/bin";
  inside.lib_dir = std::string(kInsidePrefix) + "/lib";
  json variables = json::array();
  for (const auto& [name, value] : bare_environment(inside, kRuntimeDir)) {
    variables.push_back(std::string(name).append("=").append(value));
  }
  json devices = json::array();
  for (const control::DeviceInfo& device : emulator.welcome.devices) {
    json edits = {{"mounts", json::array({mount(runtime_dir, kRuntimeDir, "rw")})}};
    devices.push_back({{"name", device.name}, {"containerEdits", edits}});
  }
  return {{"cdiVersion", "0.5.0"},
          {"kind", "verbena.dev/rdma"},
          {"devices", devices},
          {"containerEdits", {{"env", variables}, {"mounts", mounts_of(parts, inside)}}}};
}

// Makes the file appear complete or not at all, because an engine may read it at any time. A
// device, a pipe or the target of a link, as /dev/stdout, is written to and not replaced.
int write_whole(const std::string& file, const std::string& text) {
  struct stat is {};
  const bool stays = ::lstat(file.c_str(), &is) == 0 && !S_ISREG(is.st_mode);
  const std::string part = stays ? file : file + ".part." + std::to_string(::getpid());
  std::FILE* out = std::fopen(part.c_str(), stays ? "we" : "wxe");
  bool is_written = out != nullptr;
  if (out != nullptr) {
    is_written = std::fputs(text.c_str(), out) >= 0;
    if (!stays) is_written = ::fchmod(::fileno(out), 0644) == 0 && is_written;
    is_written = std::fclose(out) == 0 && is_written;
  }
  if (is_written && (stays || ::rename(part.c_str(), file.c_str()) == 0)) return kOk;
  const int code = errno;
  if (out != nullptr && !stays) ::unlink(part.c_str());
  return complain("cannot write " + file + ": " + std::strerror(code));
}

int print_specification(const PrivateOption& chosen, const std::string& file) {
  const auto parts = find_parts();
  if (!parts) return complain(parts.error().text);
  const auto emulator = chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  if (::access(parts->preload().c_str(), R_OK) != 0) {
    return complain(parts->preload() + ": " + std::strerror(errno) +
                    "; install Verbena again, or see `verbena doctor`");
  }
  const std::string runtime_dir = chosen.runtime_dir();
  std::string text;
  try {
    text = specification(*parts, *emulator, runtime_dir).dump(2) + "\n";
  } catch (const json::type_error&) {
    return complain(
        "JSON, and so a specification, cannot hold a path that is not UTF-8: one of " +
        control::printable(parts->bin_dir + ", " + parts->lib_dir + ", " + runtime_dir));
  }
  if (!file.empty()) return write_whole(file, text);
  std::fputs(text.c_str(), stdout);
  return kOk;
}

}  // namespace

void add_cdi(CLI::App& app, Context& context) {
  struct Options {
    std::string file;
    std::string engine;
    PrivateOption chosen;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "cdi",
      "Print a CDI specification, which gives the devices of the running emulator to containers:\n"
      "  verbena cdi --output /etc/cdi/verbena.json\n"
      "  podman run --device verbena.dev/rdma=verbena0 IMAGE ibv_devinfo");
  command->add_option("--output", options->file, "Write it to this file")->type_name("FILE");
  command
      ->add_option("--check", options->engine,
                   "First check that this engine is new enough: podman or docker")
      ->type_name("ENGINE")
      ->check([](const std::string& word) {
        return word == "podman" || word == "docker" ? "" : "podman or docker, not " + word;
      });
  options->chosen.add_to(*command);
  command->callback([options, &context] {
    if (!options->engine.empty()) {
      if (const auto reason = why_engine_has_no_cdi(options->engine)) {
        context.exit_code = complain(*reason, kUsage);
        return;
      }
    }
    context.exit_code = print_specification(options->chosen, options->file);
  });
}

}  // namespace verbena::cli
