// SPDX-License-Identifier: BSD-2-Clause
// verbena-connected: what connected queue pairs cost that do nothing, as JSON.
//
//   verbena-connected memory [QPS]    memory of one process before and after making them
//   verbena-connected idle [SECONDS]  two processes, one message, then silence: what they use
//
// Run it where it can see a device: verbena run -- verbena-connected idle
#include <dirent.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr std::uint32_t kPsn = 99;
constexpr int kLimitMs = 30'000;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void expect(bool holds, const char* what) {
  if (!holds) fail(what);
}

struct Address {
  std::uint32_t lid = 0;
  std::uint32_t qpn = 0;
};

class Device {
 public:
  Device() {
    ibv_device** list = ibv_get_device_list(nullptr);
    expect(list != nullptr && list[0] != nullptr, "no device (verbena run -- ...)");
    context_ = ibv_open_device(list[0]);
    expect(context_ != nullptr, "ibv_open_device");
    ibv_free_device_list(list);
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    expect(channel_ != nullptr, "ibv_create_comp_channel");
    cq_ = ibv_create_cq(context_, 64, nullptr, channel_, 0);
    expect(cq_ != nullptr, "ibv_create_cq");
    ibv_port_attr port{};
    expect(ibv_query_port(context_, 1, &port) == 0, "ibv_query_port");
    lid_ = port.lid;
  }

  // Makes a queue pair with 16 requests each way, which small programs ask for.
  ibv_qp* make_qp() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_RC;
    init.cap = {16, 16, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    expect(qp != nullptr, "ibv_create_qp");
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    expect(ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
           "INIT");
    return qp;
  }

  Address address_of(const ibv_qp* qp) const { return {lid_, qp->qp_num}; }

  static void connect(ibv_qp* qp, Address peer) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_4096;
    a.dest_qp_num = peer.qpn;
    a.rq_psn = kPsn;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 12;
    a.ah_attr.dlid = static_cast<std::uint16_t>(peer.lid);
    a.ah_attr.port_num = 1;
    expect(ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
           "RTR");
    a = {};
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    a.sq_psn = kPsn;
    a.max_rd_atomic = 1;
    expect(ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
           "RTS");
  }

  void arm() { expect(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq"); }
  // Sleeps until a completion comes.
  void await() {
    pollfd event{channel_->fd, POLLIN, 0};
    ibv_wc wc;
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
      expect(::poll(&event, 1, kLimitMs) == 1, "no completion");
      ibv_cq* cq = nullptr;
      void* user = nullptr;
      ibv_get_cq_event(channel_, &cq, &user);
      ibv_ack_cq_events(cq, 1);
      arm();
    }
    expect(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
  }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::uint32_t lid_ = 0;
};

// Returns the private memory of this process in bytes. Shared memory is not its cost.
double private_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  double sum = 0;
  for (std::string line; std::getline(file, line);) {
    unsigned long kib = 0;
    if (std::sscanf(line.c_str(), "Private_Clean: %lu", &kib) == 1 ||
        std::sscanf(line.c_str(), "Private_Dirty: %lu", &kib) == 1) {
      sum += 1024.0 * static_cast<double>(kib);
    }
  }
  return sum;
}

int measure_memory(int count) {
  const double nothing = private_bytes();
  Device device;
  const double before = private_bytes();
  std::vector<ibv_qp*> all;
  for (int i = 0; i < count; ++i) all.push_back(device.make_qp());
  // Each queue pair is connected to another one of this process.
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    Device::connect(all[i], device.address_of(all[i + 1]));
    Device::connect(all[i + 1], device.address_of(all[i]));
  }
  const double after = private_bytes();
  std::printf("{\"device_bytes\": %.0f, \"qps\": %d, \"bytes\": %.0f, \"bytes_per_qp\": %.0f}\n",
              before - nothing, count, after - before, (after - before) / count);
  return 0;
}

struct Use {
  double cpu_us = 0;
  long wake_ups = 0;
};

// Returns what all threads of this process have used so far.
Use use_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return {us(usage.ru_utime) + us(usage.ru_stime), usage.ru_nvcsw};
}

// Runs one of the two processes: a message each way, a pause until deadlines expire, then silence.
Use stay_silent(int channel, bool first, unsigned seconds) {
  Device device;
  ibv_qp* qp = device.make_qp();
  const Address own = device.address_of(qp);
  Address peer;
  expect(::write(channel, &own, sizeof own) == sizeof own, "write");
  expect(::read(channel, &peer, sizeof peer) == sizeof peer, "read");
  Device::connect(qp, peer);
  device.arm();
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  expect(ibv_post_recv(qp, &receive, &bad_receive) == 0, "ibv_post_recv");
  char token = 0;
  expect(::write(channel, &token, 1) == 1 && ::read(channel, &token, 1) == 1, "token");
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (first) expect(ibv_post_send(qp, &send, &bad) == 0, "ibv_post_send");
  device.await();
  if (!first) expect(ibv_post_send(qp, &send, &bad) == 0, "ibv_post_send");
  device.await();
  ::sleep(2);
  const Use before = use_so_far();
  ::sleep(seconds);
  const Use after = use_so_far();
  // The sleep of the measurement itself is one wake-up.
  return {after.cpu_us - before.cpu_us, after.wake_ups - before.wake_ups - 1};
}

int measure_idle(unsigned seconds) {
  int ends[2];
  expect(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  const pid_t child = ::fork();
  expect(child >= 0, "fork");
  if (child == 0) {
    const Use use = stay_silent(ends[1], false, seconds);
    expect(::write(ends[1], &use, sizeof use) == sizeof use, "write");
    ::_exit(0);
  }
  const Use here = stay_silent(ends[0], true, seconds);
  Use there;
  expect(::read(ends[0], &there, sizeof there) == sizeof there, "read");
  int status = 0;
  expect(::waitpid(child, &status, 0) == child && status == 0, "child");
  std::printf("{\"seconds\": %u, \"cpu_us\": %.0f, \"wake_ups\": %ld}\n", seconds,
              here.cpu_us + there.cpu_us, here.wake_ups + there.wake_ups);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (argc <= 3 && what == "memory") return measure_memory(number > 0 ? number : 10'000);
  if (argc <= 3 && what == "idle") {
    return measure_idle(number > 0 ? static_cast<unsigned>(number) : 10);
  }
  std::fputs("usage: verbena-connected memory [QPS] | idle [SECONDS]\n", stderr);
  return 2;
}
