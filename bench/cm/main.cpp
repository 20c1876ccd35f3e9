// SPDX-License-Identifier: BSD-2-Clause
// verbena-bench-cm: how many connections of rdma_cm are made in a second, and how much memory each
// takes in the emulator, the client and the server, while their number grows.
//
//   verbena run -- verbena-bench-cm [CONNECTIONS...]       1000 10000 unless given
//
// No queue pairs are made, because they do not concern rdma_cm. This measures librdmacm, the
// emulator and the messages of its QP1 to itself. Figures of memory need an emulator that has just
// started: one that has had as many connections before uses their memory again. A connection has an
// ID on either side. The rate at each number is that of the last thousand connections, or of all if
// there are fewer.
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "verbena/control/connect.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAtOnce = 32;
constexpr int kTimeoutMs = 10'000;
constexpr std::size_t kLast = 1000;

void need(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

// Returns a process's own memory in bytes, without shared mappings.
long own_memory(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  long kilobytes = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kilobytes;
  }
  need(kilobytes != 0, "RssAnon");
  return kilobytes * 1024;
}

pid_t emulator() {
  const auto channel = verbena::control::connect_to_daemon(verbena::control::runtime_dir_path());
  need(channel.ok(), "no emulator (verbena run -- ...)");
  ucred peer{};
  socklen_t size = sizeof peer;
  need(::getsockopt(channel->fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0, "SO_PEERCRED");
  return peer.pid;
}

rdma_conn_param parameters() {
  rdma_conn_param p{};
  p.qp_num = 0x4001;
  p.responder_resources = p.initiator_depth = 1;
  p.retry_count = p.rnr_retry_count = 7;
  return p;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = port;
  return to;
}

// Returns the next event, which it acknowledges.
rdma_cm_event next_event(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  need(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  const rdma_cm_event copy = *event;
  rdma_ack_cm_event(event);
  return copy;
}

[[noreturn]] void unexpected(const rdma_cm_event& event) {
  std::fprintf(stderr, "%s, status %d\n", rdma_event_str(event.event), event.status);
  std::exit(1);
}

// Accepts every request until it is killed.
[[noreturn]] void serve(int tell) {
  rdma_event_channel* channel = rdma_create_event_channel();
  need(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* listener = nullptr;
  need(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  sockaddr_in here = loopback(0);
  need(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&here)) == 0, "rdma_bind_addr");
  need(rdma_listen(listener, kAtOnce * 2) == 0, "rdma_listen");
  const std::uint16_t port = rdma_get_src_port(listener);
  need(::write(tell, &port, sizeof port) == sizeof port, "write");
  for (;;) {
    const rdma_cm_event event = next_event(channel);
    switch (event.event) {
      case RDMA_CM_EVENT_CONNECT_REQUEST: {
        rdma_conn_param p = parameters();
        need(rdma_accept(event.id, &p) == 0, "rdma_accept");
        break;
      }
      case RDMA_CM_EVENT_ESTABLISHED:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
        rdma_disconnect(event.id);
        need(rdma_destroy_id(event.id) == 0, "rdma_destroy_id");
        break;
      default:
        unexpected(event);
    }
  }
}

class Client {
 public:
  explicit Client(std::uint16_t port) : to_(loopback(port)), channel_(rdma_create_event_channel()) {
    need(channel_ != nullptr, "rdma_create_event_channel");
  }

  // Opens connections until `wanted` are established, a few of them at once.
  void open(std::size_t wanted) {
    while (established_ < wanted) {
      while (ids_.size() < wanted && ids_.size() - established_ < kAtOnce) begin();
      handle();
    }
  }
  void close_all() {
    std::size_t closed = 0;
    for (std::size_t begun = 0; closed < ids_.size(); ++closed) {
      while (begun < ids_.size() && begun - closed < kAtOnce) {
        need(rdma_disconnect(ids_[begun++]) == 0, "rdma_disconnect");
      }
      rdma_cm_event event = next_event(channel_);
      while (event.event == RDMA_CM_EVENT_TIMEWAIT_EXIT) event = next_event(channel_);
      if (event.event != RDMA_CM_EVENT_DISCONNECTED) unexpected(event);
    }
    for (rdma_cm_id* id : ids_) need(rdma_destroy_id(id) == 0, "rdma_destroy_id");
    ids_.clear();
  }

 private:
  void begin() {
    rdma_cm_id* id = nullptr;
    need(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    need(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to_), kTimeoutMs) == 0,
         "rdma_resolve_addr");
    ids_.push_back(id);
  }
  void handle() {
    const rdma_cm_event event = next_event(channel_);
    switch (event.event) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        need(rdma_resolve_route(event.id, kTimeoutMs) == 0, "rdma_resolve_route");
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        rdma_conn_param p = parameters();
        // The CM would take a second connection of the same queue pair for a restart.
        p.qp_num += static_cast<std::uint32_t>(++numbered_);
        need(rdma_connect(event.id, &p) == 0, "rdma_connect");
        break;
      }
      case RDMA_CM_EVENT_CONNECT_RESPONSE:
        need(rdma_establish(event.id) == 0, "rdma_establish");
        ++established_;
        break;
      default:
        unexpected(event);
    }
  }

  sockaddr_in to_;
  rdma_event_channel* channel_;
  std::vector<rdma_cm_id*> ids_;
  std::size_t established_ = 0;
  std::size_t numbered_ = 0;
};

double seconds_of(auto&& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::size_t> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::strtoull(argv[i], nullptr, 10));
  if (counts.empty()) counts = {1000, 10000};
  std::sort(counts.begin(), counts.end());
  need(counts.front() > 0, "CONNECTIONS are numbers");

  int pipe[2];
  need(::pipe(pipe) == 0, "pipe");
  const pid_t server = ::fork();
  need(server >= 0, "fork");
  if (server == 0) serve(pipe[1]);
  ::close(pipe[1]);
  std::uint16_t port = 0;
  need(::read(pipe[0], &port, sizeof port) == sizeof port, "the server has not begun");

  const pid_t processes[] = {emulator(), ::getpid(), server};
  Client client(port);
  client.open(1);  // memory that is allocated only once is not counted
  long before[3];
  std::transform(std::begin(processes), std::end(processes), before, own_memory);
  std::printf("connections  per second  emulator B/id  client B/id  server B/id\n");
  for (const std::size_t count : counts) {
    const std::size_t last = std::min(kLast, count);
    client.open(1 + count - last);
    const double seconds = seconds_of([&] { client.open(1 + count); });
    long each[3];
    for (int i = 0; i < 3; ++i) {
      // The emulator has both IDs of a connection.
      const long ids = static_cast<long>(count) * (i == 0 ? 2 : 1);
      each[i] = (own_memory(processes[i]) - before[i]) / ids;
    }
    std::printf("%11zu  %10.0f  %13ld  %11ld  %11ld\n", count, static_cast<double>(last) / seconds,
                each[0], each[1], each[2]);
  }
  const double seconds = seconds_of([&] { client.close_all(); });
  std::printf("closed       %10.0f\n", static_cast<double>(counts.back()) / seconds);
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
}
