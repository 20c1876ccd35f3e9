// SPDX-License-Identifier: BSD-2-Clause
// Transfers by WRITE, SEND, READ and FETCH_ADD, one after the other over RC, with every byte
// checked at both ends.
//
//   transfers PORT [HOST] [--size BYTES] [--depth N] [--count N] [--adds N] [--timeout N]
//   [--retries N]
//
// Without HOST it is the server. It keeps `depth` requests outstanding. The client prints megabytes
// per second of each kind: "write 12.3 send 11.9 read 12.1 adds 4567". It ends with 1 and prints
// why if a request fails or a byte is wrong.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;

struct Options {
  int port = 0;
  const char* host = nullptr;
  std::uint32_t size = 65536, depth = 16, count = 256, adds = 1000;
  int timeout = 14, retries = 7;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "transfers: %s\n", what.c_str());
  std::exit(1);
}
void need(bool is_fine, const char* what) {
  if (!is_fine) fail(std::string(what) + ": " + std::strerror(errno));
}

// Fills the bytes with a sequence that follows from the seed.
void fill(std::vector<std::uint8_t>& bytes, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::uint8_t& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
}
void check(const std::vector<std::uint8_t>& bytes, std::uint64_t seed, const char* kind) {
  std::vector<std::uint8_t> wanted(bytes.size());
  fill(wanted, seed);
  if (bytes != wanted) fail(std::string("wrong bytes of ") + kind);
}

class Side {
 public:
  explicit Side(const Options& options);
  void serve();
  void drive();

 private:
  struct Here {
    ibv_gid gid;
    std::uint32_t qpn, psn, rkey, lid;
    std::uint64_t address;
  };
  int meet();
  void connect_qp();
  void exchange(const void* mine, void* theirs, std::size_t length);
  void barrier();
  void post(ibv_wr_opcode opcode, std::uint32_t index, std::uint32_t length, std::uint64_t add);
  double run(ibv_wr_opcode opcode, std::uint32_t count, std::uint32_t length);
  void await_receives();
  ibv_wc next_completion();

  const Options& o_;
  std::vector<std::uint8_t> memory_;
  std::vector<std::uint64_t> sums_;
  std::uint64_t counter_ = 0;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr *mr_ = nullptr, *sums_mr_ = nullptr, *counter_mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Here mine_{}, peer_{};
  std::uint32_t counter_rkey_ = 0;
  std::uint64_t counter_address_ = 0;
  int tcp_ = -1;
};

Side::Side(const Options& options)
    : o_(options), memory_(std::size_t{options.size} * options.count), sums_(options.depth) {
  ibv_device** list = ibv_get_device_list(nullptr);
  need(list != nullptr && list[0] != nullptr, "no device");
  context_ = ibv_open_device(list[0]);
  need(context_ != nullptr, "ibv_open_device");
  pd_ = ibv_alloc_pd(context_);
  cq_ = ibv_create_cq(context_, static_cast<int>(o_.count + o_.depth + 16), nullptr, nullptr, 0);
  mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), kAccess);
  sums_mr_ = ibv_reg_mr(pd_, sums_.data(), sums_.size() * 8, kAccess);
  counter_mr_ = ibv_reg_mr(pd_, &counter_, sizeof counter_, kAccess);
  need(cq_ != nullptr && mr_ != nullptr && sums_mr_ != nullptr && counter_mr_ != nullptr,
       "objects");
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {o_.depth, o_.count, 1, 1, 0};
  init.sq_sig_all = 1;
  qp_ = ibv_create_qp(pd_, &init);
  need(qp_ != nullptr, "ibv_create_qp");
  ibv_port_attr port;
  need(ibv_query_port(context_, 1, &port) == 0, "ibv_query_port");
  need(ibv_query_gid(context_, 1, 0, &mine_.gid) == 0, "ibv_query_gid");
  mine_.lid = port.lid;
  mine_.qpn = qp_->qp_num;
  mine_.psn = 77;
  mine_.rkey = mr_->rkey;
  mine_.address = reinterpret_cast<std::uintptr_t>(memory_.data());
  tcp_ = meet();
  connect_qp();
}

int Side::meet() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(o_.port));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (o_.host != nullptr) {
    ::inet_pton(AF_INET, o_.host, &address.sin_addr);
    need(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connect");
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
  }
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  need(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  need(::listen(fd, 1) == 0, "listen");
  std::printf("listening\n");
  std::fflush(stdout);
  const int peer = ::accept(fd, nullptr, nullptr);
  need(peer >= 0, "accept");
  ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return peer;
}

void Side::exchange(const void* mine, void* theirs, std::size_t length) {
  need(::send(tcp_, mine, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length),
       "the peer is gone");
  need(::recv(tcp_, theirs, length, MSG_WAITALL) == static_cast<ssize_t>(length),
       "the peer is gone");
}

void Side::barrier() {
  char mine = 'b', theirs = 0;
  exchange(&mine, &theirs, 1);
}

void Side::connect_qp() {
  exchange(&mine_, &peer_, sizeof mine_);
  exchange(&counter_mr_->rkey, &counter_rkey_, sizeof counter_rkey_);
  const std::uint64_t counter = reinterpret_cast<std::uintptr_t>(&counter_);
  exchange(&counter, &counter_address_, sizeof counter);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = kAccess;
  need(ibv_modify_qp(qp_, &a,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "INIT");
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer_.qpn;
  a.rq_psn = peer_.psn;
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 12;
  a.ah_attr.port_num = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.dlid = static_cast<std::uint16_t>(peer_.lid);
  a.ah_attr.grh.dgid = peer_.gid;
  a.ah_attr.grh.hop_limit = 64;
  need(ibv_modify_qp(qp_, &a,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = mine_.psn;
  a.timeout = static_cast<std::uint8_t>(o_.timeout);
  a.retry_cnt = static_cast<std::uint8_t>(o_.retries);
  a.rnr_retry = 7;
  a.max_rd_atomic = 16;
  need(ibv_modify_qp(qp_, &a,
                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

ibv_wc Side::next_completion() {
  ibv_wc wc;
  int got;
  while ((got = ibv_poll_cq(cq_, 1, &wc)) == 0) {
  }
  if (got < 0) fail("ibv_poll_cq");
  if (wc.status != IBV_WC_SUCCESS) {
    fail(std::string("completion: ") + ibv_wc_status_str(wc.status));
  }
  return wc;
}

void Side::post(ibv_wr_opcode opcode, std::uint32_t index, std::uint32_t length,
                std::uint64_t add) {
  const std::size_t offset = std::size_t{index} * o_.size;
  const bool is_atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory_.data()) + offset, length, mr_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = index;
  wr.opcode = opcode;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (is_atomic) {
    sge = {reinterpret_cast<std::uintptr_t>(&sums_[index % o_.depth]), 8, sums_mr_->lkey};
    wr.wr.atomic = {counter_address_, add, 0, counter_rkey_};
  } else {
    wr.wr.rdma = {peer_.address + offset, peer_.rkey};
  }
  need(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
}

// Returns the seconds that the transfer took.
double Side::run(ibv_wr_opcode opcode, std::uint32_t count, std::uint32_t length) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint32_t posted = 0;
  std::uint64_t sum = 0;
  for (std::uint32_t done = 0; done < count; ++done) {
    for (; posted < count && posted - done < o_.depth; ++posted)
      post(opcode, posted, length, posted + 1);
    const ibv_wc wc = next_completion();
    if (wc.wr_id != done) fail("a completion out of order");
    if (opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) continue;
    if (sums_[done % o_.depth] != sum) fail("FETCH_ADD returned a wrong value");
    sum += done + 1;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Side::await_receives() {
  for (std::uint32_t i = 0; i < o_.count; ++i) {
    const ibv_wc wc = next_completion();
    if (wc.wr_id != i || wc.byte_len != o_.size) fail("a receive out of order");
  }
}

void Side::drive() {
  const double bytes = static_cast<double>(memory_.size());
  fill(memory_, 1);
  barrier();
  const double write = run(IBV_WR_RDMA_WRITE, o_.count, o_.size);
  barrier();
  fill(memory_, 2);
  barrier();
  const double send = run(IBV_WR_SEND, o_.count, o_.size);
  barrier();
  barrier();
  const double read = run(IBV_WR_RDMA_READ, o_.count, o_.size);
  check(memory_, 3, "READ");
  const double adds = run(IBV_WR_ATOMIC_FETCH_AND_ADD, o_.adds, 8);
  barrier();
  const double all = (3 * bytes + 8.0 * o_.adds) / 1e6 / (write + send + read + adds);
  std::printf("write %.2f send %.2f read %.2f adds %.0f all %.2f\n", bytes / 1e6 / write,
              bytes / 1e6 / send, bytes / 1e6 / read, o_.adds / adds, all);
}

void Side::serve() {
  barrier();
  barrier();
  check(memory_, 1, "WRITE");
  for (std::uint32_t i = 0; i < o_.count; ++i) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory_.data()) + std::size_t{i} * o_.size,
                o_.size, mr_->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    need(ibv_post_recv(qp_, &wr, &bad) == 0, "ibv_post_recv");
  }
  barrier();
  await_receives();
  barrier();
  check(memory_, 2, "SEND");
  fill(memory_, 3);
  barrier();
  barrier();
  if (counter_ != std::uint64_t{o_.adds} * (o_.adds + 1) / 2) fail("FETCH_ADD left a wrong sum");
  std::printf("all is well\n");
}

Options options_of(int argc, char** argv) {
  Options o;
  if (argc < 2) fail("usage: transfers PORT [HOST] [OPTION VALUE]...");
  o.port = std::atoi(argv[1]);
  int i = 2;
  if (i < argc && argv[i][0] != '-') o.host = argv[i++];
  for (; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const int value = std::atoi(argv[i + 1]);
    if (option == "--size")
      o.size = static_cast<std::uint32_t>(value);
    else if (option == "--depth")
      o.depth = static_cast<std::uint32_t>(value);
    else if (option == "--count")
      o.count = static_cast<std::uint32_t>(value);
    else if (option == "--adds")
      o.adds = static_cast<std::uint32_t>(value);
    else if (option == "--timeout")
      o.timeout = value;
    else if (option == "--retries")
      o.retries = value;
    else
      fail("what is " + option + "?");
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  Side side(options);
  if (options.host != nullptr) {
    side.drive();
  } else {
    side.serve();
  }
  std::fflush(stdout);
  std::_Exit(0);
}
