// SPDX-License-Identifier: BSD-2-Clause
// One process makes contexts, domains and regions, and another imports them.
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "client.hpp"

namespace client {
namespace {

constexpr std::size_t kHalf = 4096;
constexpr std::size_t kMany = 40;

struct Gift {
  std::uint32_t pd = 0;
  std::uint32_t mr = 0;
  std::uint64_t address = 0;
};

Gift accept_gift(int socket, int* fd) {
  Gift gift;
  iovec data{&gift, sizeof gift};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  EXPECT(::recvmsg(socket, &message, 0) == sizeof gift && CMSG_FIRSTHDR(&message) != nullptr);
  std::memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *fd);
  return gift;
}

}  // namespace

// Another program gets this context's descriptor and the numbers of a domain and a region, and
// moves bytes from one half of the region to the other.
void give_away() {
  ibv_context* context = open_first();
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_pd* other = ibv_alloc_pd(context);
  std::vector<char> bytes(2 * kHalf, 'a');
  ibv_mr* mr =
      ibv_reg_mr(pd, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  EXPECT(pd != nullptr && other != nullptr && mr != nullptr);
  std::memset(bytes.data(), 'x', kHalf);
  const int given = ::dup(context->cmd_fd);
  char numbers[100];
  std::snprintf(numbers, sizeof numbers, "%d %u %u %u %p", given, pd->handle, other->handle,
                mr->handle, static_cast<void*>(bytes.data()));
  EXPECT(given >= 0 && ::setenv("GIVEN", numbers, 1) == 0);
  const pid_t child = ::fork();
  EXPECT(child >= 0);
  if (child == 0) {
    ::execl("/proc/self/exe", "client", "import_given", nullptr);
    std::_Exit(2);
  }
  ::close(given);
  int status = 0;
  EXPECT(::waitpid(child, &status, 0) == child && status == 0);
  for (std::size_t i = 0; i < 2 * kHalf; ++i) EXPECT(bytes[i] == (i < kHalf + 100 ? 'x' : 'a'));
  EXPECT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_dealloc_pd(other) == 0);
  EXPECT(ibv_close_device(context) == 0);
}

void import_given() {
  int given = -1;
  unsigned pd_number = 0, other_number = 0, mr_number = 0;
  void* start = nullptr;
  EXPECT(std::sscanf(std::getenv("GIVEN"), "%d %u %u %u %p", &given, &pd_number, &other_number,
                     &mr_number, &start) == 5);
  ibv_context* context = ibv_import_device(given);
  EXPECT(context != nullptr);
  EXPECT(ibv_import_pd(context, 0xfffff) == nullptr && errno == ENOENT);
  ibv_pd* pd = ibv_import_pd(context, pd_number);
  ibv_pd* other = ibv_import_pd(context, other_number);
  EXPECT(pd != nullptr && other != nullptr);
  EXPECT(ibv_import_mr(pd, 0xfffff00) == nullptr && errno == ENOENT);
  EXPECT(ibv_import_mr(other, mr_number) == nullptr && errno == EINVAL);
  static char bytes[64];
  ibv_mr* own = ibv_reg_mr(pd, bytes, sizeof bytes, +IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* mr = ibv_import_mr(pd, mr_number);
  EXPECT(mr != nullptr && mr->length == 2 * kHalf);
  // The owner's keys are valid here as well, although this process has registered before.
  EXPECT(own != nullptr && mr->rkey == mr_number && mr->lkey == mr_number && own->rkey != mr->rkey);
  EXPECT(ibv_dereg_mr(own) == 0);
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ibv_qp* qp = make_qp(pd, cq);
  ibv_port_attr port;
  EXPECT(ibv_query_port(context, 1, &port) == 0);
  connect(qp, {port.lid, qp->qp_num, 7}, 7);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  ibv_sge sge{address, 100, mr->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = address + kHalf;
  wr.wr.rdma.rkey = mr->rkey;
  ibv_send_wr* bad = nullptr;
  EXPECT(ibv_post_send(qp, &wr, &bad) == 0);
  ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
  }
  EXPECT(wc.status == IBV_WC_SUCCESS);
  // The bounds are those of the original, and events name the queue pair that libibverbs made.
  wr.wr.rdma.remote_addr = address + 2 * kHalf;
  EXPECT(ibv_post_send(qp, &wr, &bad) == 0);
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
  }
  // the responder is this queue pair itself, which is in error now
  EXPECT(wc.status != IBV_WC_SUCCESS);
  pollfd events{context->async_fd, POLLIN, 0};
  EXPECT(::poll(&events, 1, 10'000) == 1);
  ibv_async_event event{};
  EXPECT(ibv_get_async_event(context, &event) == 0);
  EXPECT(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == qp);
  ibv_ack_async_event(&event);
  EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  ibv_unimport_pd(other);
  EXPECT(ibv_close_device(context) == 0);
}

namespace {

void send_gift(const Gift& gift, int fd) {
  iovec data{const_cast<Gift*>(&gift), sizeof gift};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* fds = CMSG_FIRSTHDR(&message);
  fds->cmsg_level = SOL_SOCKET;
  fds->cmsg_type = SCM_RIGHTS;
  fds->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(fds), &fd, sizeof(int));
  EXPECT(::sendmsg(STDIN_FILENO, &message, 0) == sizeof gift);
}

constexpr int kShared = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

// The owner of a region, which obeys orders of one letter.
class Owner {
 public:
  Owner() : context_(open_first()), pd_(ibv_alloc_pd(context_)) {
    mr_ = ibv_reg_mr(pd_, bytes_, kHalf, kShared);
    EXPECT(mr_ != nullptr);
    send_gift({pd_->handle, mr_->handle, reinterpret_cast<std::uintptr_t>(bytes_)},
              context_->cmd_fd);
  }
  void obey(char word) {
    switch (word) {
      case 'c':
        EXPECT(ibv_dereg_mr(mr_) == 0 && ibv_dealloc_pd(pd_) == 0);
        EXPECT(ibv_close_device(context_) == 0);
        return;
      case 'd':  // the memory gets other uses at once
        EXPECT(ibv_dereg_mr(mr_) == 0);
        std::memset(bytes_, 'n', sizeof bytes_);
        return;
      case 'n':
        for (const char byte : bytes_) EXPECT(byte == 'n');
        return;
      case 'r':
        std::memset(bytes_, 'n', kHalf);
        std::memset(bytes_ + kHalf, 's', kHalf);
        EXPECT(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes_ + kHalf, kHalf,
                            0) == 0);
        return;
      case 'o':
        return follow_what_is_mapped();
      case 'm':
        return register_many();
      case 's':
        return deregister_many_beside_a_stopped_importer();
      default:
        fail("no such order: %c", word);
    }
  }

 private:
  // The region becomes an on-demand one, whose first page is missing.
  void follow_what_is_mapped() {
    constexpr std::size_t kPage = 4096;
    void* const at =
        ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(at != MAP_FAILED && ::munmap(at, kPage) == 0);
    EXPECT(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, nullptr,
                        at, 2 * kPage, kShared | IBV_ACCESS_ON_DEMAND) == 0);
  }
  void register_many() {
    std::uint32_t numbers[kMany];
    for (std::size_t i = 0; i < kMany; ++i) {
      many_[i] = ibv_reg_mr(pd_, bytes_, kHalf, kShared);
      EXPECT(many_[i] != nullptr);
      numbers[i] = many_[i]->handle;
    }
    EXPECT(::write(STDIN_FILENO, numbers, sizeof numbers) == sizeof numbers);
  }
  void deregister_many_beside_a_stopped_importer() {
    const pid_t importer = ::getppid();
    EXPECT(::kill(importer, SIGSTOP) == 0);
    while (state_of(importer) != 'T') ::sched_yield();
    for (ibv_mr* const mr : many_) EXPECT(ibv_dereg_mr(mr) == 0);
    EXPECT(::kill(importer, SIGCONT) == 0);
  }
  static char state_of(pid_t process) {
    char path[40], state = 0;
    std::snprintf(path, sizeof path, "/proc/%d/stat", process);
    std::FILE* const file = std::fopen(path, "r");
    EXPECT(file != nullptr && std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    std::fclose(file);
    return state;
  }

  ibv_context* context_;
  ibv_pd* pd_;
  ibv_mr* mr_ = nullptr;
  ibv_mr* many_[kMany] = {};
  char bytes_[2 * kHalf] = {};
};

}  // namespace

// Sends a region and its context's descriptor to the process that started this program; then obeys.
void own_and_wait() {
  static Owner owner;
  char word = 0;
  while (::read(STDIN_FILENO, &word, 1) == 1) {
    owner.obey(word);
    EXPECT(::write(STDIN_FILENO, &word, 1) == 1);
  }
}

namespace {

// A region of another process, and a queue pair that sends to itself.
struct Imported {
  Imported() {
    int ends[2];
    EXPECT(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    owner = ::fork();
    EXPECT(owner >= 0);
    if (owner == 0) {
      ::dup2(ends[1], STDIN_FILENO);
      ::execl("/proc/self/exe", "client", "own_and_wait", nullptr);
      std::_Exit(2);
    }
    ::close(ends[1]);
    socket = ends[0];
    int given = -1;
    gift = accept_gift(socket, &given);
    context = ibv_import_device(given);
    EXPECT(context != nullptr);
    pd = ibv_import_pd(context, gift.pd);
    EXPECT(pd != nullptr);
    mr = ibv_import_mr(pd, gift.mr);
    EXPECT(mr != nullptr);
    own = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    EXPECT(own != nullptr && cq != nullptr);
  }
  // Gives the owner an order, and waits until it is done.
  void order(char word) const {
    EXPECT(::write(socket, &word, 1) == 1);
    char answer = 0;
    EXPECT(::read(socket, &answer, 1) == 1 && answer == word);
  }
  void kill_owner() {
    int status = 0;
    EXPECT(::kill(owner, SIGKILL) == 0 && ::waitpid(owner, &status, 0) == owner);
  }
  ibv_qp* connected() {
    ibv_qp* qp = make_qp(pd, cq);
    ibv_port_attr port;
    EXPECT(ibv_query_port(context, 1, &port) == 0);
    connect(qp, {port.lid, qp->qp_num, 7}, 7);
    return qp;
  }
  // read_by() writes the imported bytes into this process's, and write_by() does the reverse.
  ibv_wc_status read_by(ibv_qp* qp) {
    return write(qp, {gift.address, sizeof bytes, mr->lkey}, bytes, own->rkey);
  }
  ibv_wc_status write_by(ibv_qp* qp) {
    return write(qp, {reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, own->lkey},
                 reinterpret_cast<const void*>(gift.address), mr->rkey);
  }
  ibv_wc_status write(ibv_qp* qp, ibv_sge from, const void* to, std::uint32_t rkey) {
    ibv_send_wr wr{};
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to);
    wr.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    EXPECT(ibv_post_send(qp, &wr, &bad) == 0);
    ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    return wc.status;
  }
  void close() {
    EXPECT(ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(own) == 0);
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    EXPECT(ibv_close_device(context) == 0);
  }

  pid_t owner = -1;
  int socket = -1;
  Gift gift;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_mr* own = nullptr;
  ibv_cq* cq = nullptr;
  char bytes[64] = {};
};

// Expects that the imported memory can be neither read nor written. Each attempt breaks its queue
// pair.
void expect_no_access(Imported& imported) {
  ibv_qp* reader = imported.connected();
  EXPECT(imported.read_by(reader) == IBV_WC_LOC_PROT_ERR);
  ibv_qp* writer = imported.connected();
  const ibv_wc_status status = imported.write_by(writer);
  // The request may be flushed, because the queue pair sends to itself and its own NAK breaks it.
  EXPECT(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_WR_FLUSH_ERR);
  EXPECT(ibv_destroy_qp(reader) == 0 && ibv_destroy_qp(writer) == 0);
}

// Forks a child with this number, unless another process is faster: the kernel counts on from here.
pid_t fork_as(pid_t number) {
  std::FILE* last = std::fopen("/proc/sys/kernel/ns_last_pid", "w");
  EXPECT(last != nullptr);
  std::fprintf(last, "%d", number - 1);
  EXPECT(std::fclose(last) == 0);
  return ::fork();
}

// Has memory at the address of the owner's, and ends with 0 if that memory did not change.
[[noreturn]] void hold_memory_at(std::uint64_t address, int ready, int go_on) {
  constexpr std::uint64_t kPage = 4096;
  auto* const start = reinterpret_cast<char*>(address & ~(kPage - 1));
  constexpr std::size_t kSize = kHalf + kPage;
  void* const memory = ::mmap(start, kSize, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != start) std::_Exit(3);
  std::memset(start, 'v', kSize);
  char byte = 'r';
  if (::write(ready, &byte, 1) != 1 || ::read(go_on, &byte, 1) != 1) std::_Exit(4);
  for (std::size_t i = 0; i < kSize; ++i) {
    if (start[i] != 'v') std::_Exit(5);
  }
  std::_Exit(0);
}

}  // namespace

// The process whose memory was imported is killed. Only requests that use this memory fail.
void orphaned_import() {
  Imported imported;
  ibv_qp* qp = imported.connected();
  EXPECT(imported.read_by(qp) == IBV_WC_SUCCESS && imported.write_by(qp) == IBV_WC_SUCCESS);
  imported.kill_owner();
  EXPECT(ibv_import_mr(imported.pd, imported.gift.mr) == nullptr && errno == ENOENT);
  expect_no_access(imported);
  EXPECT(ibv_destroy_qp(qp) == 0);
  imported.close();
}

// The owner lives on, but has closed the context of the region.
void import_of_a_closed_context() {
  Imported imported;
  ibv_qp* qp = imported.connected();
  EXPECT(imported.read_by(qp) == IBV_WC_SUCCESS && ::write(imported.socket, "c", 1) == 1);
  while (imported.read_by(qp) == IBV_WC_SUCCESS) {
  }
  expect_no_access(imported);
  EXPECT(ibv_destroy_qp(qp) == 0);
  imported.close();
  imported.kill_owner();
}

// The owner lives on with the context, but has deregistered the region. From the moment that the
// call returns, no handle leads to its memory.
void import_of_a_deregistered_region() {
  Imported imported;
  ibv_qp* qp = imported.connected();
  EXPECT(imported.read_by(qp) == IBV_WC_SUCCESS && imported.write_by(qp) == IBV_WC_SUCCESS);
  ibv_mr* const again = ibv_import_mr(imported.pd, imported.gift.mr);
  EXPECT(again != nullptr && again->lkey != imported.mr->lkey);
  imported.order('d');
  expect_no_access(imported);
  std::swap(imported.mr->lkey, again->lkey);
  std::swap(imported.mr->rkey, again->rkey);
  expect_no_access(imported);
  imported.order('n');
  EXPECT(ibv_import_mr(imported.pd, imported.gift.mr) == nullptr && errno == ENOENT);
  EXPECT(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(again) == 0);
  imported.close();
  imported.kill_owner();
}

// The owner has given its region other memory, and the key leads there from now on.
void import_of_a_changed_region() {
  Imported imported;
  imported.order('r');
  expect_no_access(imported);
  imported.gift.address += kHalf;
  ibv_qp* qp = imported.connected();
  EXPECT(imported.read_by(qp) == IBV_WC_SUCCESS && imported.bytes[0] == 's');
  EXPECT(imported.write_by(qp) == IBV_WC_SUCCESS);
  EXPECT(ibv_destroy_qp(qp) == 0);
  imported.order('o');
  ibv_mr* const late = ibv_import_mr(imported.pd, imported.gift.mr);
  EXPECT(late != nullptr);
  ibv_unimport_mr(late);
  imported.order('d');
  expect_no_access(imported);
  imported.close();
  imported.kill_owner();
}

// The importer is stopped and does not answer. The owner goes on after a while, and does not wait
// for it again.
void import_by_the_stopped() {
  Imported imported;
  std::uint32_t numbers[kMany];
  EXPECT(::write(imported.socket, "m", 1) == 1);
  EXPECT(::read(imported.socket, numbers, sizeof numbers) == sizeof numbers);
  char answer = 0;
  EXPECT(::read(imported.socket, &answer, 1) == 1);
  std::vector<ibv_mr*> all;
  for (const std::uint32_t number : numbers) {
    all.push_back(ibv_import_mr(imported.pd, number));
    EXPECT(all.back() != nullptr);
  }
  imported.order('s');
  for (ibv_mr* const mr : all) {
    ibv_qp* qp = imported.connected();
    const auto bytes = reinterpret_cast<const void*>(imported.gift.address);
    while (imported.write(qp, {imported.gift.address, 1, mr->lkey}, bytes, mr->rkey) ==
           IBV_WC_SUCCESS) {
    }
    EXPECT(ibv_destroy_qp(qp) == 0);
    ibv_unimport_mr(mr);
  }
  imported.close();
  imported.kill_owner();
}

// Another process has the owner's process id, and memory at the same address. The test runs in a
// PID namespace, where it can choose the next process id.
void import_of_a_number_used_again() {
  Imported imported;
  ibv_qp* qp = imported.connected();
  EXPECT(imported.read_by(qp) == IBV_WC_SUCCESS && ibv_destroy_qp(qp) == 0);
  imported.kill_owner();
  int ready[2], go_on[2];
  EXPECT(::pipe(ready) == 0 && ::pipe(go_on) == 0);
  pid_t other = -1;
  for (int attempt = 0; attempt < 100; ++attempt) {
    other = fork_as(imported.owner);
    EXPECT(other >= 0);
    if (other == 0 && ::getpid() != imported.owner) std::_Exit(0);
    if (other == 0) hold_memory_at(imported.gift.address, ready[1], go_on[0]);
    if (other == imported.owner) break;
    ::waitpid(other, nullptr, 0);
  }
  EXPECT(other == imported.owner);
  char byte = 0;
  EXPECT(::read(ready[0], &byte, 1) == 1);
  expect_no_access(imported);
  EXPECT(::write(go_on[1], &byte, 1) == 1);
  int status = 0;
  EXPECT(::waitpid(other, &status, 0) == other && status == 0);
  imported.close();
}

}  // namespace client
