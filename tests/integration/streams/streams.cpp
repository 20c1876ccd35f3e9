// SPDX-License-Identifier: BSD-2-Clause
// A program that has refused verbs explained to it under odd circumstances (streams_test.py):
//
//   streams closed FILE   uses everything that makes descriptors; FILE gets a line on each standard
//                         stream that is open in the end, and on each failure
//   streams gone          nobody reads the standard error output any more
//   streams full          the standard error output is a pipe that is full, and later empty
//   streams limited       the standard error output is a file that may not grow
//   streams forked        a child ends after its parent was refused something often
//   streams named NAME    has this name, and waits for the end of its input
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void fail(const char* what) {
  std::printf("%s: %m\n", what);
  std::fflush(stdout);
  std::_Exit(3);
}

template <typename T>
T* need(T* object, const char* what) {
  if (object == nullptr) fail(what);
  return object;
}
#define NEED(call) need((call), #call)
#define ZERO(call) \
  if ((call) != 0) fail(#call)

ibv_context* open_device() {
  int count = 0;
  ibv_device** const all = NEED(ibv_get_device_list(&count));
  if (count == 0) fail("no device");
  ibv_context* const context = NEED(ibv_open_device(all[0]));
  ibv_free_device_list(all);
  return context;
}

struct Device {
  ibv_context* context = open_device();
  ibv_pd* domain = NEED(ibv_alloc_pd(context));

  void be_refused(int times = 1) const {
    for (int i = 0; i < times; ++i) {
      if (ibv_reg_mr(domain, nullptr, 0, 0) != nullptr) fail("an empty region is not refused");
    }
  }
  bool is_alive() const {
    ibv_port_attr port{};
    ibv_async_event event{};
    pollfd events{context->async_fd, POLLIN, 0};
    if (poll(&events, 1, 0) > 0 && ibv_get_async_event(context, &event) == 0) {
      std::printf("event %d\n", event.event_type);
    }
    return ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE;
  }
};

// A queue pair that sends to itself, with a completion channel.
class Loop {
 public:
  explicit Loop(const Device& device) : device_(device) {
    channel_ = NEED(ibv_create_comp_channel(device.context));
    cq_ = NEED(ibv_create_cq(device.context, 16, nullptr, channel_, 0));
    memory_ = NEED(ibv_reg_mr(device.domain, bytes_, sizeof bytes_, IBV_ACCESS_LOCAL_WRITE));
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 1, 1, 0};
    qp_ = NEED(ibv_create_qp(device.domain, &init));
    connect();
  }

  void send() {
    ibv_sge part{reinterpret_cast<std::uintptr_t>(bytes_), 64, memory_->lkey};
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    receive.sg_list = &part;
    receive.num_sge = 1;
    ZERO(ibv_post_recv(qp_, &receive, &bad_receive));
    ZERO(ibv_req_notify_cq(cq_, 0));
    ibv_send_wr send{};
    ibv_send_wr* bad_send = nullptr;
    send.sg_list = &part;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ZERO(ibv_post_send(qp_, &send, &bad_send));
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    ZERO(ibv_get_cq_event(channel_, &cq, &user));
    ibv_ack_cq_events(cq, 1);
    ibv_wc done{};
    for (int left = 2; left > 0;) {
      if (ibv_poll_cq(cq_, 1, &done) == 0) continue;
      if (done.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(done.status));
      --left;
    }
  }

 private:
  void connect() {
    ibv_port_attr port{};
    ZERO(ibv_query_port(device_.context, 1, &port));
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    ZERO(ibv_modify_qp(qp_, &a,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qp_->qp_num;
    a.ah_attr.dlid = port.lid;
    a.ah_attr.port_num = 1;
    ZERO(ibv_modify_qp(qp_, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 7;
    ZERO(ibv_modify_qp(qp_, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
  }

  const Device& device_;
  char bytes_[64] = {};
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  ibv_mr* memory_;
  ibv_qp* qp_;
};

int closed(const char* path) {
  std::string said;
  {
    const Device device;
    Loop loop(device);
    rdma_event_channel* const channel = NEED(rdma_create_event_channel());
    rdma_cm_id* id = nullptr;
    ZERO(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP));
    ibv_context* const import = NEED(ibv_import_device(device.context->cmd_fd));
    for (int i = 0; i < 20; ++i) {
      device.be_refused();
      loop.send();
    }
    if (!device.is_alive()) said += "the device is dead\n";
    if (ibv_pd* const domain = ibv_alloc_pd(import); domain == nullptr) said += "no import\n";
    if (rdma_destroy_id(id) != 0) said += "rdma_cm is dead\n";
    for (int fd = 0; fd <= 2; ++fd) {
      char target[200];
      const std::string link = "/proc/self/fd/" + std::to_string(fd);
      const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
      if (length >= 0) {
        said += std::to_string(fd) + " is " +
                std::string(target, static_cast<std::size_t>(length)) + "\n";
      }
    }
  }
  std::FILE* const file = NEED(std::fopen(path, "w"));
  std::fputs(said.c_str(), file);
  std::fclose(file);
  return 0;
}

bool is_pending(int signal) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, signal) == 1;
}

int gone() {
  const Device device;
  int ends[2];
  ZERO(pipe(ends));
  close(ends[0]);
  dup2(ends[1], STDERR_FILENO);
  device.be_refused(20);
  sigset_t broken;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigprocmask(SIG_BLOCK, &broken, nullptr);
  device.be_refused(20);
  if (is_pending(SIGPIPE)) std::printf("a signal is left\n");
  raise(SIGPIPE);
  device.be_refused(20);
  if (!is_pending(SIGPIPE)) std::printf("the program's own signal is lost\n");
  std::printf(device.is_alive() ? "alive\n" : "dead\n");
  return 0;
}

int full() {
  const Device device;
  int ends[2];
  ZERO(pipe(ends));
  dup2(ends[1], STDERR_FILENO);
  fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
  char bytes[4096] = {};
  while (write(STDERR_FILENO, bytes, sizeof bytes) > 0) {
  }
  fcntl(STDERR_FILENO, F_SETFL, 0);
  const auto begin = std::chrono::steady_clock::now();
  device.be_refused(20);
  const auto passed = std::chrono::steady_clock::now() - begin;
  if (passed > std::chrono::seconds(2)) std::printf("20 lines took too long\n");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  while (read(ends[0], bytes, sizeof bytes) > 0) {
  }
  device.be_refused(2);
  const ssize_t length = read(ends[0], bytes, sizeof bytes - 1);
  if (length <= 0) fail("no line");
  std::printf("%.*s", static_cast<int>(length), bytes);
  std::printf(device.is_alive() ? "alive\n" : "dead\n");
  return 0;
}

int limited() {
  const Device device;
  const rlimit nothing{0, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &nothing);
  device.be_refused(20);
  std::printf(device.is_alive() ? "alive\n" : "dead\n");
  return 0;
}

int forked() {
  const Device device;
  device.be_refused(20);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const Device own;
    own.be_refused(7);
    std::exit(0);
  }
  std::printf("%d %d\n", getpid(), child);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

int named(const char* name) {
  prctl(PR_SET_NAME, name);
  const Device device;
  Loop loop(device);
  device.be_refused();
  std::printf("here\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "closed") return closed(argv[2]);
  if (mode == "gone") return gone();
  if (mode == "full") return full();
  if (mode == "limited") return limited();
  if (mode == "forked") return forked();
  if (mode == "named") return named(argv[2]);
  return 2;
}
