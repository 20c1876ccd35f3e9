// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/shadow_tree.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "sysfs_text.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::fabric {
namespace {

namespace fs = std::filesystem;
using control::DeviceInfo;

void make_dirs(const std::string& path) { fs::create_directories(path); }

// Throws like the functions of std::filesystem: a full disk ends the whole construction.
void write_new(const std::string& path, const std::string& text) {
  errno = 0;  // a short write does not set it
  const control::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const bool written =
      fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written) {
    throw fs::filesystem_error(
        "cannot write", path, std::error_code(errno != 0 ? errno : ENOSPC, std::system_category()));
  }
}

void link_to(const std::string& target, const std::string& at) { fs::create_symlink(target, at); }

std::string port_dir(const std::string& root, const DeviceInfo& d) {
  return root + "/sys/class/infiniband/" + d.name + "/ports/" +
         std::to_string(control::kPortNumber);
}

// Says whether a GID has a network interface. Those of InfiniBand ports have none in the kernel.
bool has_interface(const DeviceInfo& d, std::size_t row) {
  return d.persona == control::Persona::kRoce && !d.gids[row].if_name.empty();
}

std::string in(std::string directory, std::string_view name) {
  directory += '/';
  return directory += name;
}

std::string ndev_file(std::size_t row) { return "/gid_attrs/ndevs/" + std::to_string(row); }

void build_port(const std::string& at, const DeviceInfo& d) {
  for (const char* dir :
       {"/gids", "/gid_attrs/types", "/gid_attrs/ndevs", "/pkeys", "/counters", "/hw_counters"}) {
    make_dirs(at + dir);
  }
  for (const auto& [name, text] : port_attributes(d)) write_new(in(at, name), text);
  for (std::size_t i = 0; i < d.gids.size(); ++i) {
    for (const auto& [name, text] : gid_attributes(d, i)) write_new(in(at, name), text);
    if (has_interface(d, i)) write_new(at + ndev_file(i), d.gids[i].if_name + "\n");
  }
  for (std::size_t i = 0; i < d.pkeys.size(); ++i) {
    write_new(at + "/pkeys/" + std::to_string(i), hex_text(d.pkeys[i], 4));
  }
  for (const auto& [name, value] : counter_files(Totals{})) {
    write_new(in(at, name), std::to_string(value) + "\n");
  }
}

void build_device(const std::string& sys, const DeviceInfo& d) {
  const std::string verbs = "uverbs" + std::to_string(d.uverbs_number);
  const std::string at = sys + "/class/infiniband/" + d.name;
  make_dirs(at + "/device/net");
  make_dirs(at + "/device/infiniband/" + d.name);
  make_dirs(at + "/device/infiniband_verbs/" + verbs);
  for (const auto& [name, text] : device_attributes(d)) write_new(in(at, name), text);
  if (!d.if_name.empty()) {
    link_to("/sys/class/net/" + d.if_name, at + "/device/net/" + d.if_name);
  }
  build_port(at + "/ports/" + std::to_string(control::kPortNumber), d);

  const std::string chardev = sys + "/class/infiniband_verbs/" + verbs;
  make_dirs(chardev);
  write_new(chardev + "/ibdev", d.name + "\n");
  write_new(chardev + "/dev", std::to_string(control::kUverbsMajor) + ":" +
                                  std::to_string(control::kUverbsMinorBase + d.uverbs_number) +
                                  "\n");
  write_new(chardev + "/abi_version", std::to_string(control::kDeviceAbiVersion) + "\n");
  link_to("../../infiniband/" + d.name + "/device", chardev + "/device");
}

}  // namespace

control::Outcome<control::Done> ShadowTree::create(const std::vector<DeviceInfo>& devices) {
  const std::string fresh = root_ + ".new";
  std::error_code ignored;
  try {
    fs::remove_all(fresh);
    build(fresh, devices);
    fs::remove_all(root_, ignored);
    fs::rename(fresh, root_);
  } catch (const std::system_error& e) {
    fs::remove_all(fresh, ignored);
    return control::fail(e.code().value(),
                         "cannot make the shadow of sysfs in " + root_ + ": " + e.code().message() +
                             "; make room, or set VERBENA_RUNTIME_DIR to another place");
  }
  written_.clear();
  is_given_up_ = false;
  return control::Done{};
}

void ShadowTree::build(const std::string& at, const std::vector<DeviceInfo>& devices) {
  const std::string sys = at + "/sys";
  for (const char* dir :
       {"/class/infiniband", "/class/infiniband_verbs", "/class/infiniband_mad"}) {
    make_dirs(sys + dir);
  }
  make_dirs(at + "/dev/infiniband");
  write_new(sys + "/class/infiniband_verbs/abi_version",
            std::to_string(control::kUverbsAbiVersion) + "\n");
  write_new(sys + "/class/infiniband_mad/abi_version", "5\n");
  make_dirs(sys + "/class/misc/rdma_cm");
  write_new(sys + "/class/misc/rdma_cm/abi_version", "4\n");
  write_new(sys + "/class/misc/rdma_cm/dev", "10:0\n");
  write_new(at + "/dev/infiniband/rdma_cm", "");
  for (const DeviceInfo& d : devices) {
    build_device(sys, d);
    write_new(at + "/dev/infiniband/uverbs" + std::to_string(d.uverbs_number), "");
  }
}

void ShadowTree::write_port(const DeviceInfo& d) {
  if (is_given_up_) return;
  const std::string at = port_dir(root_, d);
  for (const auto& [name, text] : port_attributes(d)) replace(in(at, name), text);
  for (std::size_t i = 0; i < d.gids.size(); ++i) {
    for (const auto& [name, text] : gid_attributes(d, i)) replace(in(at, name), text);
    write_ndev(at + ndev_file(i), has_interface(d, i) ? d.gids[i].if_name : "");
  }
}

// Writes the file, or removes it, because free rows have none. Nothing depends on the time of its
// directory.
void ShadowTree::write_ndev(const std::string& path, const std::string& interface) {
  std::error_code ignored;
  try {
    if (interface.empty()) {
      fs::remove(path, ignored);
    } else {
      write_new(path, interface + "\n");
    }
  } catch (const std::system_error&) {
    // The disk is full, and nothing better can be done.
  }
}

void ShadowTree::write_counters(const DeviceInfo& d, const Totals& totals) {
  if (is_given_up_) return;
  const std::string at = port_dir(root_, d);
  for (const auto& [name, value] : counter_files(totals)) {
    replace(in(at, name), std::to_string(value) + "\n");
  }
}

void ShadowTree::replace(const std::string& path, const std::string& text) {
  std::string& before = written_[path];
  if (before == text) return;
  // A missing file (the user emptied the directory) is no error.
  const control::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return;
  const ssize_t n = ::pwrite(fd.get(), text.data(), text.size(), 0);
  if (n != static_cast<ssize_t>(text.size())) return;
  // Shortens the file only afterwards, so that a reader never finds an empty one.
  if (before.empty() || before.size() > text.size()) (void)!::ftruncate(fd.get(), n);
  before = text;
}

void ShadowTree::remove() {
  if (is_given_up_) return;
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

}  // namespace verbena::fabric
