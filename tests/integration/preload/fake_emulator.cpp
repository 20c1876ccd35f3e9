// SPDX-License-Identifier: BSD-2-Clause
// A fake emulator: two devices with fixed attributes, a shadow tree, the control protocol, and
// nothing behind them. The preload library cannot tell the difference, and the tests need no room
// of the emulator but the protocol.
//
//   fake_emulator RUNTIME_DIR [--deaf]
//
// It prints "ready" when it accepts requests. With --deaf it accepts connections and never answers.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "verbena/control/address_plan.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/control/codec.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/control/status_messages.hpp"

namespace {

namespace fs = std::filesystem;
using namespace verbena;
using namespace verbena::control;

DeviceInfo infiniband_device() {
  DeviceInfo d;
  d.name = "verbena0";
  d.uverbs_number = kFirstUverbsNumber;
  d.netlink_index = kFirstNetlinkIndex;
  d.address = *IpAddress::parse("127.1.0.1");
  d.prefix_length = 24;
  d.subnet = *IpAddress::parse("127.1.0.0");
  d.node_guid = node_guid_of(d.address);
  d.port_guid = port_guid_of(d.address, d.persona);
  d.lid = 1;
  d.sm_lid = 1;
  d.cap_mask = 0x02510868;
  d.firmware_version = "1.2.3";
  d.node_description = "the tests' own";
  d.gids = {{Gid::link_local(d.port_guid), GidType::kInfiniBand, 0, ""}};
  d.pkeys = {0xffff};
  return d;
}

DeviceInfo roce_device() {
  DeviceInfo d = infiniband_device();
  d.name = "roce0";
  d.uverbs_number = kFirstUverbsNumber + 1;
  d.netlink_index = kFirstNetlinkIndex + 1;
  d.persona = Persona::kRoce;
  d.address = *IpAddress::parse("127.0.0.1");
  d.node_guid = node_guid_of(d.address);
  d.port_guid = port_guid_of(d.address, d.persona);
  d.lid = d.sm_lid = 0;
  d.if_index = 1;
  d.if_name = "lo";
  // The second of the three GID table entries is free.
  d.gids = {{Gid::from_ip(d.address), GidType::kRoceV2, 1, "lo"},
            {Gid{}, GidType::kRoceV2, 0, ""},
            {Gid::from_ip(*IpAddress::parse("::1")), GidType::kRoceV2, 1, "lo"}};
  return d;
}

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text << '\n';
}

std::string guid_text(std::uint64_t guid) {
  char text[24];
  std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x",
                static_cast<unsigned>(guid >> 48 & 0xffff),
                static_cast<unsigned>(guid >> 32 & 0xffff),
                static_cast<unsigned>(guid >> 16 & 0xffff), static_cast<unsigned>(guid & 0xffff));
  return text;
}

void put_counter(const fs::path& shadow, const std::string& device, unsigned value) {
  put(shadow / "sys/class/infiniband" / device / "ports/1/counters/port_xmit_packets",
      std::to_string(value));
}

void put_device(const fs::path& shadow, const DeviceInfo& d) {
  const fs::path sys = shadow / "sys/class";
  const fs::path at = sys / "infiniband" / d.name;
  const fs::path port = at / "ports/1";
  const std::string verbs = "uverbs" + std::to_string(d.uverbs_number);
  const bool is_roce = d.persona == Persona::kRoce;
  for (const auto& [name, text] :
       std::vector<std::pair<const char*, std::string>>{{"node_type", "1: CA"},
                                                        {"node_guid", guid_text(d.node_guid)},
                                                        {"sys_image_guid", guid_text(d.node_guid)},
                                                        {"fw_ver", d.firmware_version},
                                                        {"hw_rev", "0"},
                                                        {"hca_type", "Verbena"},
                                                        {"node_desc", d.node_description},
                                                        {"device/numa_node", "-1"}}) {
    put(at / name, text);
  }
  for (const auto& [name, text] : std::vector<std::pair<const char*, std::string>>{
           {"state", "4: ACTIVE"},
           {"phys_state", "5: LinkUp"},
           {"rate", "100 Gb/sec (4X EDR)"},
           {"link_layer", is_roce ? "Ethernet" : "InfiniBand"},
           {"lid", "0x" + std::to_string(d.lid)},
           {"lid_mask_count", "0"},
           {"sm_lid", "0x" + std::to_string(d.sm_lid)},
           {"sm_sl", "0"},
           {"cap_mask", "0x02510868"},
           {"pkeys/0", "0xffff"}}) {
    put(port / name, text);
  }
  for (std::size_t i = 0; i < d.gids.size(); ++i) {
    const std::string index = std::to_string(i);
    put(port / "gids" / index, d.gids[i].gid.to_string());
    put(port / "gid_attrs/types" / index, is_roce ? "RoCE v2" : "IB/RoCE v1");
    if (!d.gids[i].if_name.empty()) put(port / "gid_attrs/ndevs" / index, d.gids[i].if_name);
  }
  put_counter(shadow, d.name, 0);
  put(sys / "infiniband_verbs" / verbs / "ibdev", d.name);
  put(sys / "infiniband_verbs" / verbs / "dev",
      "231:" + std::to_string(kUverbsMinorBase + d.uverbs_number));
  put(sys / "infiniband_verbs" / verbs / "abi_version", "1");
  put(shadow / "dev/infiniband" / verbs, "");
}

class FakeEmulator {
 public:
  FakeEmulator(const std::string& dir, bool is_deaf)
      : shadow_(shadow_path(dir)), is_deaf_(is_deaf) {
    for (const DeviceInfo& d : devices_) put_device(shadow_, d);
    put(shadow_ / "sys/class/infiniband_verbs/abi_version", "6");
    put(shadow_ / "sys/class/infiniband_mad/abi_version", "5");
  }

  void answer(int fd, const Incoming& in) {
    if (is_deaf_) return;
    switch (in.type()) {
      case MessageType::kHello:
        reply(fd, in, Welcome{static_cast<std::uint32_t>(::getpid()), "test", devices_});
        break;
      case MessageType::kRefreshCounters: {
        const auto request = decode<RefreshCounters>(in.payload);
        put_counter(shadow_, request->device, ++refreshes_);
        reply(fd, in, Ack{});
        break;
      }
      case MessageType::kQueryResources:
        answer_resources(fd, in);
        break;
      default:
        reply(fd, in, Refused{EOPNOTSUPP, "the tests' own emulator does not do that"});
    }
  }

 private:
  template <typename Message>
  static void reply(int fd, const Incoming& in, const Message& message) {
    (void)!send_packet(fd, encode(message, in.header.sequence), {}, 0).ok();
  }

  // Answers in two parts, with more queue pairs than fit into one netlink message.
  static void answer_resources(int fd, const Incoming& in) {
    const auto request = decode<QueryResources>(in.payload);
    for (const bool last : {false, true}) {
      ContextResources context;
      context.device = request->device;
      context.slot = last ? 2 : 1;
      context.pid = static_cast<std::uint32_t>(::getpid());
      context.comm = "test";
      context.counts = {1, 2, 60, 4, 5};
      for (std::uint32_t i = 0; request->of == ResourcesOf::kQueuePairs && i < 60; ++i) {
        QpStatus qp;
        qp.qpn = (last ? 0x8000 : 0x4000) + i;
        qp.type = 2;   // RC
        qp.state = 3;  // RTS
        qp.peer_qpn = 77;
        context.qps.push_back(qp);
      }
      reply(fd, in, Resources{last, {context}, 3, {}});
    }
  }

  fs::path shadow_;
  bool is_deaf_;
  std::vector<DeviceInfo> devices_{infiniband_device(), roce_device()};
  unsigned refreshes_ = 0;
};

int listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ::unlink(path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return -1;
  return ::listen(fd, 128) == 0 ? fd : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string dir = argv[1];
  if (!make_runtime_dir(dir)) return 1;
  FakeEmulator emulator(dir, argc > 2 && std::strcmp(argv[2], "--deaf") == 0);
  const int listener = listen_at(control_socket_path(dir));
  if (listener < 0) return 1;
  std::puts("ready");
  std::fflush(stdout);
  std::vector<pollfd> polled{{listener, POLLIN, 0}};
  while (::poll(polled.data(), polled.size(), -1) > 0) {
    for (std::size_t i = polled.size(); i-- > 1;) {
      if (polled[i].revents == 0) continue;
      const auto in = receive_packet(polled[i].fd, MSG_DONTWAIT);
      if (in) {
        emulator.answer(polled[i].fd, *in);
      } else {
        ::close(polled[i].fd);
        polled.erase(polled.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (polled[0].revents != 0) {
      polled.push_back({::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), POLLIN, 0});
    }
  }
  return 1;
}
