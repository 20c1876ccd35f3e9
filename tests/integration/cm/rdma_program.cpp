// SPDX-License-Identifier: BSD-2-Clause
// A program of librdmacm for the tests of load and of sudden death, as a user would write it: a
// server that accepts every request and sends each client one message, and a client that opens
// many connections, receives the message on each and hangs up.
//
//   rdma_program serve PORT [STEP]             stops before STEP: request, accept, established
//   rdma_program connect ADDRESS PORT COUNT AT_ONCE [HOW]      aloud: counts what is established
//   rdma_program stop ADDRESS PORT STEP        stops after STEP: address, route, connect,
//                                              established, message, disconnect
//
// As STEP or HOW, "chroot" and "setuid" make the program change its root directory or its user once
// the first connection is closed. Then several threads of the client connect.
//
// A program that stops prints "stopped" and sleeps until it is killed. A program that ends because
// of a failure prints why and ends with 1.
#include <grp.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int kMessageSize = 64;
constexpr int kBacklog = 1024;

[[noreturn]] void fail(const std::string& what, int status = 0) {
  std::printf("failed: %s%s%s\n", what.c_str(), status != 0 ? ", status " : "",
              status != 0 ? std::to_string(status).c_str() : "");
  std::exit(1);
}

void check(bool good, const char* what) {
  if (!good) fail(std::string(what) + ": " + std::strerror(errno));
}

[[noreturn]] void stop() {
  std::puts("stopped");
  for (;;) ::pause();
}

void change(const std::string& what) {
  constexpr unsigned kNobody = 65534;
  if (what == "chroot") {
    char empty[] = "/tmp/verbena-root-XXXXXX";
    check(::mkdtemp(empty) != nullptr, "mkdtemp");
    check(::chdir(empty) == 0 && ::rmdir(empty) == 0 && ::chroot(".") == 0, "chroot");
  } else if (what == "setuid") {
    check(::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0,
          "setuid");
  }
}

// What all connections of a process share. The first connection's device has it.
struct Device {
  explicit Device(ibv_context* context) {
    cq = ibv_create_cq(context, 4096, nullptr, nullptr, 0);
    check(cq != nullptr, "ibv_create_cq");
    pd = ibv_alloc_pd(context);
    check(pd != nullptr, "ibv_alloc_pd");
    buffer.resize(kMessageSize);
    mr = ibv_reg_mr(pd, buffer.data(), buffer.size(), +IBV_ACCESS_LOCAL_WRITE);
    check(mr != nullptr, "ibv_reg_mr");
  }
  bool add_queue_pair(rdma_cm_id* id) const {
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.cap = {4, 4, 1, 1, 0};
    attributes.sq_sig_all = 1;
    return rdma_create_qp(id, pd, &attributes) == 0;
  }
  ibv_sge message() const {
    return {reinterpret_cast<std::uintptr_t>(buffer.data()), kMessageSize, mr->lkey};
  }

  ibv_cq* cq = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<char> buffer;
};

rdma_conn_param parameters() {
  rdma_conn_param p{};
  p.responder_resources = p.initiator_depth = 1;
  p.retry_count = p.rnr_retry_count = 7;
  return p;
}

struct Event {
  explicit Event(rdma_event_channel* channel) {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    type = event->event;
    status = event->status;
    id = event->id;
    rdma_ack_cm_event(event);
  }
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
};

class Server {
 public:
  Server(int port, std::string step) : step_(std::move(step)) {
    channel_ = rdma_create_event_channel();
    check(channel_ != nullptr, "rdma_create_event_channel");
    check(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    rdma_addrinfo hints{};
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* any = nullptr;
    check(rdma_getaddrinfo(nullptr, std::to_string(port).c_str(), &hints, &any) == 0,
          "rdma_getaddrinfo");
    check(rdma_bind_addr(listener_, any->ai_src_addr) == 0, "rdma_bind_addr");
    rdma_freeaddrinfo(any);
    check(rdma_listen(listener_, kBacklog) == 0, "rdma_listen");
    std::puts("listening");
  }

  [[noreturn]] void run() {
    for (;;) {
      const Event event(channel_);
      switch (event.type) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
          stop_before("request");
          accept(event.id);
          stop_before("established");
          break;
        case RDMA_CM_EVENT_ESTABLISHED:
          send(event.id);
          break;
        case RDMA_CM_EVENT_DISCONNECTED:
          rdma_disconnect(event.id);
          end(event.id);
          change(std::exchange(step_, ""));
          break;
        case RDMA_CM_EVENT_REJECTED:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_CONNECT_ERROR:
          end(event.id);
          break;
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
          break;
        default:
          fail(rdma_event_str(event.type), event.status);
      }
      for (ibv_wc done[16]; device_ != nullptr && ibv_poll_cq(device_->cq, 16, done) > 0;) {
      }
    }
  }

 private:
  void stop_before(const char* step) const {
    if (step_ == step) stop();
  }
  void accept(rdma_cm_id* id) {
    if (device_ == nullptr) device_ = std::make_unique<Device>(id->verbs);
    // The client may have gone meanwhile, which is no failure of the server.
    if (!device_->add_queue_pair(id)) return end(id);
    stop_before("accept");
    rdma_conn_param p = parameters();
    if (rdma_accept(id, &p) != 0) end(id);
  }
  void send(rdma_cm_id* id) const {
    ibv_sge sge = device_->message();
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(id->qp, &wr, &bad) == 0, "ibv_post_send");
  }
  static void end(rdma_cm_id* id) {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
  }

  std::string step_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  std::unique_ptr<Device> device_;
};

class Client {
 public:
  Client(const char* address, const char* port, std::string step) : step_(std::move(step)) {
    channel_ = rdma_create_event_channel();
    check(channel_ != nullptr, "rdma_create_event_channel");
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    check(rdma_getaddrinfo(address, port, &hints, &to_) == 0, "rdma_getaddrinfo");
  }

  // Opens this many connections, receives the server's message on each, and closes them.
  void run(int connections) {
    messages_ = established_ = closed_ = 0;
    is_closing_ = false;
    std::vector<rdma_cm_id*> ids(static_cast<std::size_t>(connections));
    for (rdma_cm_id*& id : ids) {
      check(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
      check(rdma_resolve_addr(id, nullptr, to_->ai_dst_addr, 2000) == 0, "rdma_resolve_addr");
    }
    while (established_ < connections) handle();
    while (messages_ < connections) {
      poll();
      if (has_event()) handle();
    }
    stop_after("message");
    is_closing_ = true;
    for (rdma_cm_id* id : ids) check(rdma_disconnect(id) == 0, "rdma_disconnect");
    stop_after("disconnect");
    while (closed_ < connections) handle();
    for (rdma_cm_id* id : ids) {
      rdma_destroy_qp(id);
      check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
    }
  }

 private:
  void stop_after(const char* step) const {
    if (step_ == step) stop();
  }
  void handle() {
    const Event event(channel_);
    switch (event.type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        stop_after("address");
        check(rdma_resolve_route(event.id, 2000) == 0, "rdma_resolve_route");
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        stop_after("route");
        connect(event.id);
        stop_after("connect");
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
        ++established_;
        ++established_ever_;
        if (step_ == "aloud") std::printf("established %d\n", established_ever_);
        stop_after("established");
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
        ++closed_;
        if (!is_closing_) fail("disconnected");
        break;
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        break;
      default:
        fail(rdma_event_str(event.type), event.status);
    }
  }
  void connect(rdma_cm_id* id) {
    if (device_ == nullptr) device_ = std::make_unique<Device>(id->verbs);
    check(device_->add_queue_pair(id), "rdma_create_qp");
    ibv_sge sge = device_->message();
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_recv(id->qp, &wr, &bad) == 0, "ibv_post_recv");
    rdma_conn_param p = parameters();
    check(rdma_connect(id, &p) == 0, "rdma_connect");
  }
  bool has_event() const {
    pollfd one{channel_->fd, POLLIN, 0};
    return ::poll(&one, 1, 0) > 0;
  }
  void poll() {
    ibv_wc done{};
    const int count = ibv_poll_cq(device_->cq, 1, &done);
    check(count >= 0, "ibv_poll_cq");
    if (count == 0) return;
    if (done.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(done.status));
    ++messages_;
  }

  std::string step_;
  rdma_event_channel* channel_ = nullptr;
  rdma_addrinfo* to_ = nullptr;
  std::unique_ptr<Device> device_;
  bool is_closing_ = false;
  int established_ = 0;
  int established_ever_ = 0;
  int messages_ = 0;
  int closed_ = 0;
};

// Several threads connect at once after the change, each with the channel that it has had before.
void run_changed(Client& client, char** argv, const std::string& how) {
  constexpr std::size_t kThreads = 4;
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < kThreads; ++i) {
    clients.push_back(std::make_unique<Client>(argv[2], argv[3], ""));
  }
  client.run(1);
  change(how);
  std::vector<std::thread> threads;
  for (const auto& one : clients) {
    threads.emplace_back([&one, at_once = std::atoi(argv[5])] {
      for (int i = 0; i < 5; ++i) one->run(at_once);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "serve") Server(std::atoi(argv[2]), argc > 3 ? argv[3] : "").run();
  if (what == "stop" && argc == 5) {
    Client(argv[2], argv[3], argv[4]).run(1);
  } else if (what == "connect" && argc >= 6) {
    const std::string how = argc > 6 ? argv[6] : "";
    Client client(argv[2], argv[3], how);
    const int at_once = std::atoi(argv[5]);
    if (how == "chroot" || how == "setuid") run_changed(client, argv, how);
    for (int left = std::atoi(argv[4]); left > 0; left -= at_once) client.run(at_once);
    std::puts("done");
    return 0;
  }
  fail("usage: serve PORT [STEP] | connect ADDRESS PORT COUNT AT_ONCE [aloud] | stop ...");
}
