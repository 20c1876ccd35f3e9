// SPDX-License-Identifier: BSD-2-Clause
// Provokes one event of rdma_cm, with librdmacm as a user would: client and server are in one
// process and talk over 127.0.0.1.
//
//   events_program CASE        main() lists the cases
//   events_program resolve ADDRESS      also prints the address that it would send from
//   events_program bind ADDRESS
//
// The program prints each event as a line, "EVENT STATUS". Where the emulator has to do something,
// it prints "ready" and goes on when its standard input has a line. It prints "done" if all events
// came as expected.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace {

constexpr std::uint16_t kPort = 7475;
constexpr int kTimeoutMs = 2000;
constexpr std::uint32_t kNoQueuePair = 0x4001;  // any number: nothing is sent

void check(bool good, const std::string& what) {
  if (good) return;
  std::printf("failed: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

void await_the_emulator() {
  std::puts("ready");
  check(std::getchar() != EOF, "nobody said go on");
}

sockaddr_in address(std::uint32_t ip, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(ip);
  to.sin_port = htons(port);
  return to;
}

class Side {
 public:
  Side() : channel_(rdma_create_event_channel()) {
    check(channel_ != nullptr, "rdma_create_event_channel");
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  // rdma_destroy_id waits until each event of the ID was acknowledged, exactly once.
  ~Side() {
    for (rdma_cm_id* each : {listener, id}) {
      if (each == nullptr) continue;
      if (each->qp != nullptr) rdma_destroy_qp(each);
      check(rdma_destroy_id(each) == 0, "rdma_destroy_id");
    }
    rdma_destroy_event_channel(channel_);
  }

  rdma_cm_id* make(rdma_port_space space) {
    rdma_cm_id* made = nullptr;
    check(rdma_create_id(channel_, &made, nullptr, space) == 0, "rdma_create_id");
    return made;
  }
  void bind(rdma_cm_id* to, std::uint16_t port) {
    sockaddr_in here = address(INADDR_LOOPBACK, port);
    check(rdma_bind_addr(to, reinterpret_cast<sockaddr*>(&here)) == 0, "rdma_bind_addr");
  }
  void listen(rdma_port_space space = RDMA_PS_TCP) {
    listener = make(space);
    bind(listener, kPort);
    check(rdma_listen(listener, 4) == 0, "rdma_listen");
  }
  void resolve_addr(rdma_port_space space = RDMA_PS_TCP) {
    id = make(space);
    sockaddr_in to = address(INADDR_LOOPBACK, kPort);
    check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), kTimeoutMs) == 0,
          "rdma_resolve_addr");
  }
  void resolve_route() { check(rdma_resolve_route(id, kTimeoutMs) == 0, "rdma_resolve_route"); }
  void add_queue_pair() {
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {4, 4, 1, 1, 0};
    check(rdma_create_qp(id, nullptr, &attributes) == 0, "rdma_create_qp");
  }
  void connect() {
    rdma_conn_param p = parameters();
    check(rdma_connect(id, &p) == 0, "rdma_connect");
  }
  void accept() {
    rdma_conn_param p = parameters();
    check(rdma_accept(id, &p) == 0, "rdma_accept");
  }
  void say_next() {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel_, &event) == 0, "rdma_get_cm_event");
    std::printf("%s %d\n", rdma_event_str(event->event), event->status);
    rdma_ack_cm_event(event);
  }
  // Waits for the event, prints it, and keeps the new ID of a request.
  void expect(rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel_, &event) == 0, "rdma_get_cm_event");
    std::printf("%s %d\n", rdma_event_str(event->event), event->status);
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) id = event->id;
    const bool wanted = event->event == type;
    rdma_ack_cm_event(event);
    if (wanted) return;
    std::printf("failed: not %s\n", rdma_event_str(type));
    std::exit(1);
  }

  // Moves the ID of a request to this side's channel.
  void take_over(Side& from) {
    check(rdma_migrate_id(from.id, channel_) == 0, "rdma_migrate_id");
    id = std::exchange(from.id, nullptr);
  }

  rdma_cm_id* listener = nullptr;
  rdma_cm_id* id = nullptr;

 private:
  static rdma_conn_param parameters() {
    rdma_conn_param p{};
    p.qp_num = kNoQueuePair;
    p.responder_resources = p.initiator_depth = 1;
    p.retry_count = p.rnr_retry_count = 7;
    return p;
  }

  rdma_event_channel* channel_;
};

struct Pair {
  void resolve(rdma_port_space space = RDMA_PS_TCP) {
    client.resolve_addr(space);
    client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    client.resolve_route();
    client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }
  void request() {
    server.listen();
    resolve();
    client.connect();
    server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  }

  Side server;
  Side client;
};

// --- the cases -------------------------------------------------------------------------------

// The client's queue pair is the program's own, so the program gets the response and confirms it.
void life() {
  Pair p;
  p.request();
  p.server.accept();
  p.client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  check(rdma_establish(p.client.id) == 0, "rdma_establish");
  p.server.expect(RDMA_CM_EVENT_ESTABLISHED);
  check(rdma_disconnect(p.client.id) == 0, "rdma_disconnect");
  p.server.expect(RDMA_CM_EVENT_DISCONNECTED);
  check(rdma_disconnect(p.server.id) == 0, "rdma_disconnect");
  p.client.expect(RDMA_CM_EVENT_DISCONNECTED);
  p.client.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  p.server.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

// The queue pairs are librdmacm's, so the library confirms the response by itself.
void established() {
  Pair p;
  p.server.listen();
  p.resolve();
  p.client.add_queue_pair();
  p.client.connect();
  p.server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  p.server.add_queue_pair();
  p.server.accept();
  p.client.expect(RDMA_CM_EVENT_ESTABLISHED);
  p.server.expect(RDMA_CM_EVENT_ESTABLISHED);
}

// The passive side moves to another channel, and its first message comes before the confirmation.
void moved() {
  Pair p;
  Side elsewhere;
  p.request();
  elsewhere.take_over(p.server);
  elsewhere.accept();
  p.client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  check(rdma_notify(elsewhere.id, IBV_EVENT_COMM_EST) == 0, "rdma_notify");
  elsewhere.expect(RDMA_CM_EVENT_ESTABLISHED);
}

// As on hardware, the passive side's queue pair answers with the traffic class of the request's
// path.
void type_of_service() {
  constexpr std::uint8_t kClass = 0x68;
  Pair p;
  p.server.listen();
  p.client.resolve_addr();
  p.client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  std::uint8_t wanted = kClass;
  check(
      rdma_set_option(p.client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &wanted, sizeof wanted) == 0,
      "rdma_set_option");
  p.client.resolve_route();
  p.client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  p.client.add_queue_pair();
  p.client.connect();
  p.server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  p.server.add_queue_pair();
  p.server.accept();
  p.client.expect(RDMA_CM_EVENT_ESTABLISHED);
  p.server.expect(RDMA_CM_EVENT_ESTABLISHED);
  for (const Side* side : {&p.client, &p.server}) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    check(ibv_query_qp(side->id->qp, &attributes, IBV_QP_AV, &made) == 0, "ibv_query_qp");
    const int path = side->id->route.num_paths > 0 ? side->id->route.path_rec->traffic_class : -1;
    // Without a GRH no packet carries a traffic class.
    const int packets =
        attributes.ah_attr.is_global != 0 ? attributes.ah_attr.grh.traffic_class : kClass;
    std::printf("traffic class %#x, path %#x\n", packets, path);
  }
}

// librdmacm brings the queue pair to RTS when the response comes. From ERR that is refused.
void connect_error() {
  Pair p;
  p.server.listen();
  p.resolve();
  p.client.add_queue_pair();
  p.client.connect();
  p.server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  p.server.accept();
  ibv_qp_attr broken{};
  broken.qp_state = IBV_QPS_ERR;
  check(ibv_modify_qp(p.client.id->qp, &broken, IBV_QP_STATE) == 0, "ibv_modify_qp");
  p.client.expect(RDMA_CM_EVENT_CONNECT_ERROR);
}

void nobody_listens() {
  Pair p;
  p.resolve();
  p.client.connect();
  p.client.expect(RDMA_CM_EVENT_REJECTED);
}

void too_much_data() {
  Pair p;
  p.resolve();
  const char data[57] = {};
  rdma_conn_param parameters{};
  parameters.private_data = data;
  parameters.private_data_len = sizeof data;
  parameters.qp_num = 17;
  check(rdma_connect(p.client.id, &parameters) != 0 && errno == EINVAL, "rdma_connect");
}

// librdmacm itself refuses an ID without a device.
void disconnected_first() {
  Pair p;
  p.resolve();
  check(rdma_disconnect(p.client.id) != 0 && errno == EINVAL, "rdma_disconnect");
}

void resolved_twice() {
  Pair p;
  p.client.resolve_addr();
  sockaddr_in to = address(INADDR_LOOPBACK, kPort);
  check(
      rdma_resolve_addr(p.client.id, nullptr, reinterpret_cast<sockaddr*>(&to), kTimeoutMs) != 0 &&
          errno == EINVAL,
      "rdma_resolve_addr");
}

void rejected() {
  Pair p;
  p.request();
  check(rdma_reject(p.server.id, "no", 2) == 0, "rdma_reject");
  p.client.expect(RDMA_CM_EVENT_REJECTED);
}

// UD has no connection, but the request for the service (SIDR) needs an answer all the same.
void unreachable() {
  Pair p;
  p.resolve(RDMA_PS_UDP);
  p.client.connect();
  p.client.expect(RDMA_CM_EVENT_UNREACHABLE);
}

void addr_error() {
  Pair p;
  await_the_emulator();  // the emulator takes the port down
  p.client.resolve_addr();
  p.client.expect(RDMA_CM_EVENT_ADDR_ERROR);
}

// Resolves the address and prints the event, whichever it is.
void resolve_address(const char* text) {
  Side side;
  side.id = side.make(RDMA_PS_TCP);
  sockaddr_in to = address(0, kPort);
  check(inet_pton(AF_INET, text, &to.sin_addr) == 1, text);
  check(rdma_resolve_addr(side.id, nullptr, reinterpret_cast<sockaddr*>(&to), kTimeoutMs) == 0,
        "rdma_resolve_addr");
  side.say_next();
  const sockaddr* from = rdma_get_local_addr(side.id);
  char name[INET_ADDRSTRLEN] = "none";
  if (from->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(from)->sin_addr, name, sizeof name);
  }
  std::printf("from %s\n", name);
}

void bind_address(const char* text) {
  Side side;
  side.id = side.make(RDMA_PS_TCP);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* here = nullptr;
  check(getaddrinfo(text, nullptr, &hints, &here) == 0, text);
  check(rdma_bind_addr(side.id, here->ai_addr) == 0, "rdma_bind_addr");
  freeaddrinfo(here);
}

void route_error() {
  Pair p;
  p.client.resolve_addr();
  p.client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  await_the_emulator();  // the emulator takes the port down
  p.client.resolve_route();
  p.client.expect(RDMA_CM_EVENT_ROUTE_ERROR);
}

// The event leaves the connection as it is.
void addr_change() {
  Pair p;
  p.request();
  p.server.accept();
  p.client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  check(rdma_establish(p.client.id) == 0, "rdma_establish");
  p.server.expect(RDMA_CM_EVENT_ESTABLISHED);
  await_the_emulator();  // the emulator announces its addresses anew
  p.client.expect(RDMA_CM_EVENT_ADDR_CHANGE);
  p.server.expect(RDMA_CM_EVENT_ADDR_CHANGE);  // for the listener
  p.server.expect(RDMA_CM_EVENT_ADDR_CHANGE);  // for the connection
  check(rdma_disconnect(p.client.id) == 0, "rdma_disconnect");
  p.server.expect(RDMA_CM_EVENT_DISCONNECTED);
}

void join(Side& side) {
  side.id = side.make(RDMA_PS_UDP);
  side.bind(side.id, 0);
  sockaddr_in group = address(0xef010203, 0);
  check(rdma_join_multicast(side.id, reinterpret_cast<sockaddr*>(&group), nullptr) == 0,
        "rdma_join_multicast");
  side.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
}

void multicast() {
  Side side;
  join(side);
  sockaddr_in group = address(0xef010203, 0);
  check(rdma_leave_multicast(side.id, reinterpret_cast<sockaddr*>(&group)) == 0,
        "rdma_leave_multicast");
}

void multicast_error() {
  Side side;
  join(side);
  await_the_emulator();  // the emulator takes the port down
  side.expect(RDMA_CM_EVENT_MULTICAST_ERROR);
}

void device_removal() {
  Pair p;
  p.request();
  await_the_emulator();  // the emulator ends
  p.client.expect(RDMA_CM_EVENT_DEVICE_REMOVAL);
  p.server.expect(RDMA_CM_EVENT_DEVICE_REMOVAL);  // for the listener
}

const std::map<std::string, std::function<void()>> kCases{
    {"life", life},
    {"established", established},
    {"moved", moved},
    {"type_of_service", type_of_service},
    {"connect_error", connect_error},
    {"nobody_listens", nobody_listens},
    {"rejected", rejected},
    {"too_much_data", too_much_data},
    {"disconnected_first", disconnected_first},
    {"resolved_twice", resolved_twice},
    {"unreachable", unreachable},
    {"addr_error", addr_error},
    {"route_error", route_error},
    {"addr_change", addr_change},
    {"multicast", multicast},
    {"multicast_error", multicast_error},
    {"device_removal", device_removal},
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 3) {
    const bool resolves = argv[1] == std::string("resolve");
    (resolves ? resolve_address : bind_address)(argv[2]);
    std::puts("done");
    return 0;
  }
  const auto wanted = kCases.find(argc == 2 ? argv[1] : "");
  if (wanted == kCases.end()) {
    std::puts("failed: usage: events_program CASE");
    return 2;
  }
  wanted->second();
  std::puts("done");
  return 0;
}
