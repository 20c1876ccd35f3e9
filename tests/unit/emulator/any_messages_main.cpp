// SPDX-License-Identifier: BSD-2-Clause
// any_messages [--seed FIRST] [--seeds N]: runs a whole emulator in this process. Clients send it
// every message of the protocol in any order: well-formed, with numbers that it gave out, that are
// guessed or that are outdated. They do not always read, and end at any time. After each seed the
// emulator must still answer a new client.
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "../control/samples.hpp"
#include "event_loop.hpp"
#include "instance.hpp"
#include "server.hpp"
#include "verbena/base/random.hpp"
#include "verbena/cm_service/cm_service.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/control/cm_messages.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/control/runtime_dir.hpp"
#include "verbena/fabric/plan.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::daemon {
namespace {

constexpr int kSteps = 1500;
constexpr std::size_t kClients = 6;
constexpr int kPatienceMs = 60'000;

// Fills in the fields of a message, mostly with values from other messages to give it a meaning.
class Filler {
 public:
  explicit Filler(Random& random) : random_(random) {}

  template <typename... T>
  void operator()(T&... values) {
    (put(values), ...);
  }
  void remember(std::uint32_t number) { numbers_[next_++ % numbers_.size()] = number; }
  void remember(const IpAddress& address) { address_ = address; }
  const IpAddress& address() const { return address_; }

 private:
  template <std::unsigned_integral T>
  void put(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = random_.below(2) == 1;
      return;
    }
    switch (random_.below(8)) {
      case 0:
        value = static_cast<T>(random_.below(2) == 0 ? random_.next() : ~std::uint64_t{0});
        return;
      case 1:
      case 2:
        value = static_cast<T>(random_.below(4));
        return;
      default:
        value = static_cast<T>(numbers_[random_.below(numbers_.size())] + random_.below(2));
    }
  }
  template <typename T>
  requires std::is_enum_v<T>
  void put(T& value) { value = static_cast<T>(random_.below(8)); }
  void put(std::string& text) {
    static const std::array<const char*, 8> kTexts{"a",
                                                   "b",
                                                   "",
                                                   "any",
                                                   "loss=10% every=2",
                                                   "raise=qp-fatal qp=any:1",
                                                   "port-down device=a after=1ms",
                                                   "fail=rdma_connect:ENOMEM"};
    text = kTexts[random_.below(kTexts.size())];
  }
  void put(IpAddress& address) { address = random_.below(4) == 0 ? IpAddress::v4(1) : address_; }
  void put(Gid& gid) {
    for (std::uint8_t& byte : gid.bytes) byte = static_cast<std::uint8_t>(random_.below(3));
    gid.bytes[0] = 0xff;
  }
  template <typename T>
  void put(std::vector<T>& list) {
    list.resize(random_.below(3));
    for (T& element : list) put(element);
  }
  template <typename T>
  requires requires(Filler& a, T& m) { T::fields(a, m); }
  void put(T& value) { T::fields(*this, value); }

  Random& random_;
  std::array<std::uint32_t, 16> numbers_{};
  std::size_t next_ = 0;
  IpAddress address_;
};

class Clients {
 public:
  Clients(std::string dir, std::uint64_t seed) : dir_(std::move(dir)), random_(seed) {}

  void play() {
    for (int i = 0; i < kSteps; ++i) {
      control::Channel& client = clients_[random_.below(kClients)];
      if (!client.is_open()) {
        begin(client);
      } else if (random_.below(150) == 0) {
        client = {};
      } else if (random_.below(3) == 0) {
        read(client);
      } else {
        send_any(client, std::make_index_sequence<std::tuple_size_v<control::AllMessages>>{});
      }
    }
  }

 private:
  void begin(control::Channel& client) {
    auto connected = control::connect_to_daemon(dir_);
    if (!connected) return;
    client = std::move(*connected);
    (void)control::say_hello(client, control::ClientKind::kProvider);
    if (random_.below(4) == 0) return;
    control::OpenDevice open;
    open.name = random_.below(2) == 0 ? "a" : "b";
    open.network = control::network_namespace();
    send(client, open);
  }
  // Remembers numbers from the emulator's messages, because later messages name them.
  void read(control::Channel& client) {
    while (const auto in = control::receive_packet(client.fd(), MSG_DONTWAIT)) {
      fill_.remember(in->header.sequence);
      if (const auto opened = control::decode<control::DeviceOpened>(in->payload)) {
        fill_.remember(opened->device.address);
        fill_.remember(opened->slot << Qpn::kIndexBits);
        fill_.remember(opened->slot);
      } else if (in->payload.size() >= 4) {
        std::uint32_t first = 0;
        std::memcpy(&first, in->payload.data(), sizeof first);
        fill_.remember(first);
      }
    }
  }
  template <typename Message>
  void send(control::Channel& client, const Message& message) {
    std::uint32_t sequence = 0;
    fill_(sequence);
    (void)control::send_packet(client.fd(), control::encode(message, sequence), {}, MSG_DONTWAIT);
  }
  template <std::size_t... kPlaces>
  void send_any(control::Channel& client, std::index_sequence<kPlaces...>) {
    const std::size_t place = random_.below(sizeof...(kPlaces) + 30);
    if (place >= sizeof...(kPlaces)) return send_cm(client);
    (void)((kPlaces == place && (send_filled<kPlaces>(client), true)) || ...);
  }
  template <std::size_t kPlace>
  void send_filled(control::Channel& client) {
    using Message = std::tuple_element_t<kPlace, control::AllMessages>;
    if constexpr (!std::is_same_v<Message, control::Down>) {
      Message message;
      fill_(message);
      send(client, message);
    }
  }
  void send_cm(control::Channel& client) {
    if (random_.below(4) == 0) {
      control::OpenCmChannel open;
      open.channel = 1 + random_.below(kClients);
      return send(client, open);
    }
    control::CmCommand command;
    command.channel = 1 + random_.below(kClients);
    command.other = random_.below(2 + kClients);
    command.command = any_command();
    if (random_.below(5) != 0) return send(client, command);
    control::CmPosted posted;
    posted.command = command.command;
    send(client, posted);
  }
  std::uint32_t any_id() { return 0x8000 + static_cast<std::uint32_t>(random_.below(12)); }
  template <typename Body>
  static std::vector<std::uint8_t> written(std::uint32_t number, const Body& body) {
    const rdma_ucm_cmd_hdr header{number, sizeof body, 0xffff};
    std::vector<std::uint8_t> bytes(sizeof header + sizeof body);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
    return bytes;
  }
  void put_address(sockaddr_in6& to, bool is_any) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(static_cast<std::uint16_t>(7000 + random_.below(2)));
    in.sin_addr.s_addr = is_any ? 0 : htonl(fill_.address().v4_host_order());
    std::memcpy(&to, &in, sizeof in);
  }
  std::vector<std::uint8_t> any_command() {
    switch (random_.below(8)) {
      case 0: {
        rdma_ucm_create_id body{};
        body.uid = random_.below(5);
        body.ps = 0x106;
        return written(RDMA_USER_CM_CMD_CREATE_ID, body);
      }
      case 1: {
        rdma_ucm_bind_ip body{};
        put_address(body.addr, random_.below(2) == 0);
        body.id = any_id();
        return written(RDMA_USER_CM_CMD_BIND_IP, body);
      }
      case 2: {
        rdma_ucm_resolve_ip body{};
        put_address(body.dst_addr, false);
        body.id = any_id();
        return written(RDMA_USER_CM_CMD_RESOLVE_IP, body);
      }
      case 3: {
        rdma_ucm_connect body{};
        body.id = any_id();
        body.conn_param.valid = 1;
        return written(RDMA_USER_CM_CMD_CONNECT, body);
      }
      case 4: {
        rdma_ucm_accept body{};
        body.id = any_id();
        body.uid = random_.below(5);
        body.conn_param.valid = random_.below(2) == 0;
        return written(RDMA_USER_CM_CMD_ACCEPT, body);
      }
      default: {
        // Most other commands name the ID in one of the first words.
        std::array<std::uint32_t, 98> body{};
        for (std::size_t i = 0; i < 4; ++i) body[i] = any_id();
        const bool is_simple = random_.below(2) == 0;
        return written(
            is_simple ? RDMA_USER_CM_CMD_RESOLVE_ROUTE + 3 * random_.below(2) : random_.below(26),
            body);
      }
    }
  }

  std::string dir_;
  Random random_;
  Filler fill_{random_};
  std::array<control::Channel, kClients> clients_;
};

// Plays a seed. Returns what is wrong afterwards; null: nothing.
const char* play(const std::string& dir, std::uint64_t seed) {
  { Clients(dir, seed).play(); }
  auto asker = control::connect_to_daemon(dir);
  if (!asker || !control::say_hello(*asker, control::ClientKind::kCommand, kPatienceMs)) {
    return "nobody is answered any more";
  }
  const bool answers = asker->call<control::Ack>(control::Stay{}, kPatienceMs).ok();
  return answers ? nullptr : "a question is not answered";
}

int run(std::uint64_t first, std::uint64_t seeds) {
  const std::string dir =
      std::filesystem::temp_directory_path() / ("any-" + std::to_string(::getpid()));
  spdlog::set_level(spdlog::level::off);
  EventLoop loop;
  auto instance = Instance::claim(dir);
  if (!instance) return std::fprintf(stderr, "%s\n", instance.error().text.c_str()), 1;
  instance->remove_files_at_end();
  Shares shares(1000);
  settings::Settings wishes;
  const auto part = static_cast<std::uint32_t>(::getpid()) & 0x1fff;
  wishes.fabric = settings::FabricRange{IpAddress::v4(0x7fd00000u + (part << 8)), 24};
  wishes.devices = {"a", "b"};
  const auto devices =
      fabric::plan_devices(wishes, {0, "any", "0.1.0", fabric::list_interfaces().value(), 1});
  if (!devices) return std::fprintf(stderr, "%s\n", devices.error().text.c_str()), 1;
  auto fabric = fabric::Fabric::open(*devices, control::shadow_path(dir), loop, shares.descriptors);
  if (!fabric) return std::fprintf(stderr, "%s\n", fabric.error().text.c_str()), 1;
  int result = 0;
  {
    Server server(loop, *instance, **fabric, shares, false);
    cm_service::CmService cm(**fabric, server.clients(), loop, link::monotonic_now_ns, first);
    server.set_extension(&cm);
    auto listening = instance->listen();
    if (!listening) return std::fprintf(stderr, "%s\n", listening.error().text.c_str()), 1;
    server.start(std::move(*listening));
    std::thread emulator([&loop] { loop.run(); });
    for (std::uint64_t seed = first; seed < first + seeds && result == 0; ++seed) {
      std::fprintf(stderr, "\rseed %llu ", static_cast<unsigned long long>(seed));
      if (const char* wrong = play(dir, seed)) {
        std::fprintf(stderr, "%s\n", wrong);
        result = 1;
      }
    }
    loop.at_end_of_turn([&loop] { loop.stop(); });
    emulator.join();
    server.set_extension(nullptr);
  }
  fabric->reset();
  instance->release();
  std::fprintf(stderr, "\n");
  return result;
}

}  // namespace
}  // namespace verbena::daemon

int main(int argc, char** argv) {
  std::uint64_t seeds = 1, first = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    (std::strcmp(argv[i], "--seeds") == 0 ? seeds : first) = std::strtoull(argv[i + 1], nullptr, 0);
  }
  return verbena::daemon::run(first, seeds);
}
