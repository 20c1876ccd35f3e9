// SPDX-License-Identifier: BSD-2-Clause
// The cases of the program. lifecycle.py says what each is for.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "client.hpp"

namespace client {
namespace {

bool is_readable(int fd, int timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

// An armed queue raises one event, through epoll. Arming again raises the next.
void channel_events() {
  Loop loop(true);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event want{EPOLLIN, {}};
  EXPECT(::epoll_ctl(epoll, EPOLL_CTL_ADD, loop.channel->fd, &want) == 0);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
    loop.post_receive(i);
    loop.post_send(100 + i);
    epoll_event got{};
    EXPECT(::epoll_wait(epoll, &got, 1, 10'000) == 1);
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    EXPECT(ibv_get_cq_event(loop.channel, &cq, &user) == 0);
    EXPECT(cq == loop.cq && user == &loop);
    ibv_ack_cq_events(cq, 1);
    for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
    EXPECT(!is_readable(loop.channel->fd, 0));
  }
  ::close(epoll);
  loop.destroy();
}

// A queue that is armed for solicited messages only sleeps through ordinary ones.
void solicited_events() {
  Loop loop(true);
  EXPECT(ibv_req_notify_cq(loop.cq, 1) == 0);
  loop.post_receive(1);
  loop.post_send(2);
  EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  EXPECT(!is_readable(loop.channel->fd, 0));
  loop.destroy();
}

// Destroying a queue removes its unread event; its channel still works.
void unread_events() {
  Loop loop(true);
  ibv_cq* other = ibv_create_cq(loop.context, 16, nullptr, loop.channel, 0);
  EXPECT(other != nullptr);
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(1);
  loop.post_send(2);
  EXPECT(is_readable(loop.channel->fd, 10'000));
  EXPECT(ibv_destroy_cq(loop.cq) == EBUSY);
  EXPECT(ibv_destroy_qp(loop.sender) == 0);
  EXPECT(ibv_destroy_qp(loop.receiver) == 0);
  EXPECT(ibv_destroy_cq(loop.cq) == 0);
  EXPECT(!is_readable(loop.channel->fd, 0));
  EXPECT(ibv_destroy_comp_channel(loop.channel) == EBUSY);
  EXPECT(ibv_destroy_cq(other) == 0);
  EXPECT(ibv_destroy_comp_channel(loop.channel) == 0);
  EXPECT(ibv_dereg_mr(loop.mr) == 0);
  EXPECT(ibv_dealloc_pd(loop.pd) == 0);
  EXPECT(ibv_close_device(loop.context) == 0);
}

// Destroying a queue waits for the acknowledgement of an event that was read.
void unacknowledged_events() {
  Loop loop(true);
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(1);
  loop.post_send(2);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  EXPECT(ibv_get_cq_event(loop.channel, &cq, &user) == 0);
  EXPECT(ibv_destroy_qp(loop.sender) == 0);
  EXPECT(ibv_destroy_qp(loop.receiver) == 0);
  bool acknowledged = false;
  std::thread later([&] {
    ::usleep(100'000);
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
  });
  EXPECT(ibv_destroy_cq(loop.cq) == 0);
  EXPECT(acknowledged);
  later.join();
}

// A refused call returns EBUSY and changes nothing.
void busy_objects() {
  Loop loop;
  EXPECT(ibv_dealloc_pd(loop.pd) == EBUSY);
  EXPECT(ibv_destroy_cq(loop.cq) == EBUSY);
  loop.post_receive(1);
  loop.post_send(2);
  EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  loop.destroy();
}

// Prints this side's address, and reads the peer's from standard input.
void exchange(ibv_qp* qp) {
  ibv_port_attr port;
  EXPECT(ibv_query_port(qp->context, 1, &port) == 0);
  say("%u %u", port.lid, qp->qp_num);
  Peer peer{0, 0, 7};
  EXPECT(std::scanf("%u %u", &peer.lid, &peer.qpn) == 2);
  connect(qp, peer, 7);
  say("connected");
  int go = 0;
  EXPECT(std::scanf("%d", &go) == 1);
}

struct Side {
  ibv_context* context = open_first();
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
  ibv_qp* qp = make_qp(pd, cq);
  char bytes[64] = {};
  ibv_mr* mr = ibv_reg_mr(pd, bytes, sizeof bytes, int{IBV_ACCESS_LOCAL_WRITE});

  ibv_sge sge() { return {reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, mr->lkey}; }
  void receive() {
    ibv_sge one = sge();
    ibv_recv_wr wr{};
    wr.sg_list = &one;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    EXPECT(ibv_post_recv(qp, &wr, &bad) == 0);
  }
  void send() {
    ibv_sge one = sge();
    ibv_send_wr wr{};
    wr.sg_list = &one;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    EXPECT(ibv_post_send(qp, &wr, &bad) == 0);
  }
  ibv_wc poll() {
    ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    return wc;
  }
};

void send_one() {
  Side side;
  exchange(side.qp);
  side.send();
  const ibv_wc wc = side.poll();
  say("status %d", wc.status);
}

void receive_one_and_exit() {
  Side side;
  side.receive();
  exchange(side.qp);
  EXPECT(side.poll().status == IBV_WC_SUCCESS);
  std::exit(0);
}

// Connects, and waits until it is killed or told to end.
void wait_connected() {
  Side side;
  side.receive();
  exchange(side.qp);
}

// A queue pair that gets an engine of its own, with a receive that stays unused.
struct Beside {
  explicit Beside(const Loop& loop) : cq(ibv_create_cq(loop.context, 1, nullptr, nullptr, 0)) {
    EXPECT(cq != nullptr);
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = cq;
    init.cap = {1, 1, 1, 1, 0};
    qp = ibv_create_qp(loop.pd, &init);
    EXPECT(qp != nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    EXPECT(ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
           0);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    EXPECT(ibv_post_recv(qp, &wr, &bad) == 0);
  }
  void expect_flushed_and_destroy() {
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    EXPECT(wc.status == IBV_WC_WR_FLUSH_ERR);
    EXPECT(ibv_destroy_qp(qp) == 0);
    EXPECT(ibv_destroy_cq(cq) == 0);
  }
  ibv_cq* cq;
  ibv_qp* qp = nullptr;
};

// The daemon is killed while two engines have work.
void lose_daemon() {
  EXPECT(::setenv("VERBENA_ENGINES", "2", 1) == 0);
  Loop loop(true);
  Beside one(loop);
  Beside two(loop);
  EXPECT(one.qp->qp_num >> 14 != two.qp->qp_num >> 14);
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(42);
  say("ready");
  ibv_async_event event{};
  EXPECT(ibv_get_async_event(loop.context, &event) == 0);
  EXPECT(event.event_type == IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  EXPECT(is_readable(loop.channel->fd, 10'000));
  const ibv_wc wc = loop.poll();
  EXPECT(wc.wr_id == 42 && wc.status == IBV_WC_WR_FLUSH_ERR);
  loop.post_send(43);
  EXPECT(loop.poll().status == IBV_WC_WR_FLUSH_ERR);
  EXPECT(ibv_alloc_pd(loop.context) == nullptr && errno == EIO);
  EXPECT(ibv_create_cq(loop.context, 1, nullptr, nullptr, 0) == nullptr && errno == EIO);
  ibv_port_attr port{};
  EXPECT(ibv_query_port(loop.context, 1, &port) == EIO && errno == EIO);
  one.expect_flushed_and_destroy();
  two.expect_flushed_and_destroy();
  EXPECT(!is_readable(loop.context->async_fd, 0));
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  EXPECT(ibv_get_cq_event(loop.channel, &cq, &user) == 0);
  ibv_ack_cq_events(cq, 1);
  loop.destroy();
  say("done");
}

// Each call looks again for devices.
void list_again() {
  for (int round = 0; round < 2; ++round) {
    ibv_device** list = ibv_get_device_list(nullptr);
    EXPECT(list != nullptr && list[0] != nullptr && list[1] == nullptr);
    say("%s", ibv_get_device_name(list[0]));
    ibv_free_device_list(list);
    EXPECT(std::getchar() == '\n');
  }
}

// Sends a message to itself, and waits for its completions through the channel.
void exchange_by_event(Loop& loop) {
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(1);
  loop.post_send(2);
  EXPECT(is_readable(loop.channel->fd, 10'000));
  for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  EXPECT(ibv_get_cq_event(loop.channel, &cq, &user) == 0);
  ibv_ack_cq_events(cq, 1);
}

// A child that executes another program can open the device as any program does.
void fork_and_exec() {
  Loop loop(true);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    EXPECT(child >= 0);
    if (child == 0) {
      ::execl("/proc/self/exe", "client", "busy_objects", nullptr);
      std::_Exit(1);
    }
    exchange_by_event(loop);
    int status = 0;
    EXPECT(::waitpid(child, &status, 0) == child && status == 0);
  }
  loop.destroy();
}

// A child that outlives its parent must not keep the parent's slot.
void leave_a_child() {
  Side side;
  if (::fork() == 0) {
    int go = 0;
    [[maybe_unused]] const int got = std::scanf("%d", &go);
    std::_Exit(0);
  }
  say("ready");
  ::pause();
}

// More queue pairs than a slot has numbers: the last ones work as well.
void many_queue_pairs() {
  constexpr int kCount = 20'000;
  Loop loop;
  std::vector<ibv_qp*> all;
  std::set<std::uint32_t> numbers;
  for (int i = 0; i < kCount; ++i) {
    all.push_back(make_qp(loop.pd, loop.cq));
    numbers.insert(all.back()->qp_num);
  }
  EXPECT(numbers.size() == kCount);
  ibv_port_attr port;
  EXPECT(ibv_query_port(loop.context, 1, &port) == 0);
  ibv_qp* first = all.front();
  ibv_qp* last = all.back();
  connect(first, {port.lid, last->qp_num, 5}, 5);
  connect(last, {port.lid, first->qp_num, 5}, 5);
  std::swap(loop.sender, first);
  std::swap(loop.receiver, last);
  for (int round = 0; round < 10; ++round) {
    loop.post_receive(1);
    loop.post_send(2);
    for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
    std::swap(loop.sender, loop.receiver);
  }
  loop.sender = first;
  loop.receiver = last;
  for (ibv_qp* qp : all) EXPECT(ibv_destroy_qp(qp) == 0);
  loop.destroy();
}

// Makes very small queue pairs, and keeps them until standard input has a character.
void hundred_thousand_queue_pairs() {
  constexpr int kCount = 100'000;
  ibv_context* context = open_first();
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  EXPECT(pd != nullptr && cq != nullptr);
  std::vector<ibv_qp*> all;
  for (int i = 0; i < kCount; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_UD;
    init.cap = {1, 1, 1, 1, 0};
    all.push_back(ibv_create_qp(pd, &init));
    EXPECT(all.back() != nullptr);
  }
  say("ready");
  std::getchar();
  for (ibv_qp* qp : all) EXPECT(ibv_destroy_qp(qp) == 0);
  EXPECT(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
}

// A process without free descriptors gets EMFILE, and goes on with what it has.
void few_descriptors() {
  const rlimit few{256, 256};
  EXPECT(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  Loop loop(true);
  std::vector<ibv_comp_channel*> channels;
  while (ibv_comp_channel* one = ibv_create_comp_channel(loop.context)) channels.push_back(one);
  EXPECT(errno == EMFILE);
  EXPECT(channels.size() > 100);
  EXPECT(ibv_open_device(loop.context->device) == nullptr);
  EXPECT(errno == EMFILE);
  for (int round = 0; round < 2; ++round) {
    exchange_by_event(loop);
    for (ibv_comp_channel* one : channels) EXPECT(ibv_destroy_comp_channel(one) == 0);
    channels.clear();
  }
  ibv_context* other = ibv_open_device(loop.context->device);
  EXPECT(other != nullptr);
  EXPECT(ibv_close_device(other) == 0);
  loop.destroy();
}

// Waits for an event on a connected queue pair without traffic.
void stay_idle() {
  Loop loop(true);
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(1);
  loop.post_send(2);
  for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  say("ready");
  int go = 0;
  EXPECT(std::scanf("%d", &go) == 1);
  loop.post_receive(1);
  loop.post_send(2);
  for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
}

// Keeps its dead device until another emulator is there, and then opens it anew.
void outlive_daemon() {
  ibv_context* const dead = open_first();
  say("ready");
  ibv_async_event event{};
  EXPECT(ibv_get_async_event(dead, &event) == 0);
  EXPECT(event.event_type == IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  say("lost");
  int go = 0;
  EXPECT(std::scanf("%d", &go) == 1);
  Loop loop;
  loop.post_receive(1);
  loop.post_send(2);
  for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  loop.destroy();
  EXPECT(ibv_close_device(dead) == 0);
  say("works");
}

}  // namespace

const std::vector<Case> kCases = {
    {"channel_events", &channel_events},
    {"solicited_events", &solicited_events},
    {"unread_events", &unread_events},
    {"unacknowledged_events", &unacknowledged_events},
    {"busy_objects", &busy_objects},
    {"send_one", &send_one},
    {"receive_one_and_exit", &receive_one_and_exit},
    {"wait_connected", &wait_connected},
    {"lose_daemon", &lose_daemon},
    {"outlive_daemon", &outlive_daemon},
    {"list_again", &list_again},
    {"fork_and_go_on", &fork_and_go_on},
    {"fork_and_exec", &fork_and_exec},
    {"fork_beside_busy_threads", &fork_beside_busy_threads},
    {"fork_beside_an_exchange", &fork_beside_an_exchange},
    {"fork_beside_a_blocked_reader", &fork_beside_a_blocked_reader},
    {"leave_a_child", &leave_a_child},
    {"leave_main_thread", &leave_main_thread},
    {"cancel_a_close", &cancel_a_close},
    {"make_sockets_unseen", &make_sockets_unseen},
    {"clear_environment_first", &clear_environment_first},
    {"clear_environment_later", &clear_environment_later},
    {"change_network", &change_network},
    {"change_root", &change_root},
    {"change_root_and_user", &change_root_and_user},
    {"change_user", &change_user},
    {"give_away", &give_away},
    {"give_a_device", &give_a_device},
    {"import_and_await_events", &import_and_await_events},
    {"import_given", &import_given},
    {"own_and_wait", &own_and_wait},
    {"orphaned_import", &orphaned_import},
    {"import_of_a_closed_context", &import_of_a_closed_context},
    {"import_of_a_deregistered_region", &import_of_a_deregistered_region},
    {"import_of_a_changed_region", &import_of_a_changed_region},
    {"import_by_the_stopped", &import_by_the_stopped},
    {"import_of_a_number_used_again", &import_of_a_number_used_again},
    {"many_queue_pairs", &many_queue_pairs},
    {"hundred_thousand_queue_pairs", &hundred_thousand_queue_pairs},
    {"few_descriptors", &few_descriptors},
    {"close_descriptors", &close_descriptors},
    {"use_closed_descriptors_again", &use_closed_descriptors_again},
    {"stay_idle", &stay_idle},
};

}  // namespace client
