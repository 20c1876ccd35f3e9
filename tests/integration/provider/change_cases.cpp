// SPDX-License-Identifier: BSD-2-Clause
// A program that clears its environment, or changes its root directory, its user or its network
// namespace, as servers do once they have opened what they need.
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "client.hpp"

namespace client {
namespace {

constexpr unsigned kNobody = 65534;

// What a program asks about its port.
struct Port {
  explicit Port(ibv_context* context) {
    EXPECT(ibv_query_gid(context, 1, 0, &gid) == 0);
    EXPECT(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0);
    rows = ibv_query_gid_table(context, table.data(), table.size(), 0);
    EXPECT(rows > 0);
    EXPECT(ibv_query_pkey(context, 1, 0, &pkey) == 0);
    __be16 none = 0;
    EXPECT(ibv_query_pkey(context, 1, 1000, &none) == -1);
  }
  void expect_same(const Port& other) const {
    EXPECT(std::memcmp(&gid, &other.gid, sizeof gid) == 0);
    EXPECT(std::memcmp(&entry, &other.entry, sizeof entry) == 0);
    EXPECT(rows == other.rows && pkey == other.pkey);
    EXPECT(std::memcmp(&table[0], &other.table[0], sizeof table[0]) == 0);
  }
  ibv_gid gid{};
  ibv_gid_entry entry{};
  std::array<ibv_gid_entry, 16> table{};
  ssize_t rows = 0;
  __be16 pkey = 0;
};

void expect_event(const Loop& loop) {
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  EXPECT(ibv_get_cq_event(loop.channel, &cq, &user) == 0);
  EXPECT(cq == loop.cq);
  ibv_ack_cq_events(cq, 1);
}

// Sends a message and is woken by its completion.
void exchange(Loop& loop) {
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(1);
  loop.post_send(2);
  expect_event(loop);
  for (int i = 0; i < 2; ++i) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
}

// Leaves an event unread in the channel.
void leave_event(Loop& loop) {
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(1);
  loop.post_send(2);
  for (int i = 0; i < 2; ++i) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
}

bool holds_event(ibv_comp_channel* channel) {
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  EXPECT(::fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
  const bool holds = ibv_get_cq_event(channel, &cq, &user) == 0;
  EXPECT(holds || errno == EAGAIN);
  EXPECT(::fcntl(channel->fd, F_SETFL, 0) == 0);
  if (holds) ibv_ack_cq_events(cq, 1);
  return holds;
}

// Makes new objects for the channel: a queue, memory, and two queue pairs.
Loop loop_beside(const Loop& loop, ibv_comp_channel* channel) {
  Loop beside(loop);
  beside.channel = channel;
  beside.cq = ibv_create_cq(loop.context, 16, nullptr, channel, 0);
  EXPECT(beside.cq != nullptr);
  beside.sender = make_qp(loop.pd, beside.cq);
  beside.receiver = make_qp(loop.pd, beside.cq);
  ibv_port_attr port;
  EXPECT(ibv_query_port(loop.context, 1, &port) == 0);
  connect(beside.sender, {port.lid, beside.receiver->qp_num, 1}, 1);
  connect(beside.receiver, {port.lid, beside.sender->qp_num, 1}, 1);
  beside.memory.resize(4 << 20);  // too large for its pages to be touched
  beside.mr =
      ibv_reg_mr(loop.pd, beside.memory.data(), beside.memory.size(), +IBV_ACCESS_LOCAL_WRITE);
  EXPECT(beside.mr != nullptr);
  return beside;
}

void destroy_beside(const Loop& beside) {
  EXPECT(ibv_dereg_mr(beside.mr) == 0);
  EXPECT(ibv_destroy_qp(beside.sender) == 0 && ibv_destroy_qp(beside.receiver) == 0);
  EXPECT(ibv_destroy_cq(beside.cq) == 0);
}

// The channel wakes the program, and an event of a queue that is destroyed goes with it.
void expect_works(const Loop& loop, ibv_comp_channel* channel) {
  Loop first = loop_beside(loop, channel);
  Loop second = loop_beside(loop, channel);
  for (int i = 0; i < 3; ++i) exchange(first);
  EXPECT(!holds_event(channel));
  leave_event(first);
  leave_event(second);
  destroy_beside(first);
  expect_event(second);
  EXPECT(!holds_event(channel));
  exchange(second);
  destroy_beside(second);
  EXPECT(ibv_destroy_comp_channel(channel) == 0);
}

// The process could leave its root directory by a directory that is open.
void expect_no_directory_is_open() {
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat is {};
    EXPECT(::fstat(fd, &is) != 0 || !S_ISDIR(is.st_mode));
  }
}

// The new root is an empty directory without a name.
void leave_root() {
  char empty[] = "/tmp/verbena-root-XXXXXX";
  EXPECT(::mkdtemp(empty) != nullptr);
  EXPECT(::chdir(empty) == 0 && ::rmdir(empty) == 0 && ::chroot(".") == 0);
}

void become_nobody() {
  EXPECT(::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
}

// The new network has the addresses of the old one's loopback, but nobody at them.
void leave_network() {
  EXPECT(::unshare(CLONE_NEWNET) == 0);
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  EXPECT(fd >= 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  EXPECT(::ioctl(fd, SIOCSIFFLAGS, &request) == 0 && ::close(fd) == 0);
}

// Everything that a program does with an open device works after `change` as it did before.
void expect_nothing_lost_by(void (*change)()) {
  Loop loop(true);
  ibv_comp_channel* const early = ibv_create_comp_channel(loop.context);
  EXPECT(early != nullptr);
  const Port before(loop.context);
  expect_no_directory_is_open();
  change();
  expect_no_directory_is_open();
  before.expect_same(Port(loop.context));
  exchange(loop);
  expect_works(loop, early);
  for (int i = 0; i < 2; ++i) {
    ibv_comp_channel* const late = ibv_create_comp_channel(loop.context);
    EXPECT(late != nullptr);
    expect_works(loop, late);
  }
  expect_no_directory_is_open();
  // This is a limit of ours: a device that is not open cannot be opened any more.
  EXPECT(ibv_open_device(loop.context->device) == nullptr);
  exchange(loop);
  loop.destroy();
}

// The device works after `change` as it did before, and so does one that is opened then.
void expect_more_can_be_opened_after(void (*change)()) {
  Loop loop(true);
  const Port before(loop.context);
  change();
  before.expect_same(Port(loop.context));
  exchange(loop);
  ibv_comp_channel* const channel = ibv_create_comp_channel(loop.context);
  EXPECT(channel != nullptr);
  expect_works(loop, channel);
  Loop another(true);
  exchange(another);
  another.destroy();
  loop.destroy();
}

}  // namespace

void clear_environment_first() {
  EXPECT(::clearenv() == 0);
  clear_environment_later();
}

void clear_environment_later() {
  expect_more_can_be_opened_after([] { EXPECT(::clearenv() == 0); });
}

void change_network() { expect_more_can_be_opened_after(leave_network); }

void change_root() { expect_nothing_lost_by(leave_root); }

void change_user() { expect_nothing_lost_by(become_nobody); }

void change_root_and_user() {
  expect_nothing_lost_by([] {
    leave_root();
    become_nobody();
  });
}

}  // namespace client
