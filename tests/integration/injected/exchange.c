// SPDX-License-Identifier: BSD-2-Clause
/* Runs operations of one queue pair upon another one, and prints the outcome at both ends.

       exchange [-a] [-b] [-u] [-t TIMEOUT] [-r RETRIES] [-n RNR_RETRIES] [-e EVENTS] [-w SIDE]
   OPERATION COUNT SIZE

   OPERATION is send, imm, write, read or add. Each side is a process of that name, "server" or
   "client", and prints one line of JSON. -b posts all requests at once instead of one after the
   other. -u uses an unreliable connection. -a repeats posts that fail. -w lets one side, c or s,
   wait for an asynchronous event before it begins. At its end the server waits for EVENTS (more)
   events. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sides.h"

enum { kLimitMs = 60000 };

struct task {
  const char* operation;
  unsigned count;
  bool at_once;
  bool again;
  char waits; /* the first letter of the side that waits */
  unsigned events;
};

/* Statuses from here on contain the errno of a failed post. */
enum { kRefused = 100 };

static bool is(const struct task* task, const char* name) {
  return strcmp(task->operation, name) == 0;
}
static bool takes_receives(const struct task* task) { return is(task, "send") || is(task, "imm"); }

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Returns the byte with which a side fills place i. */
static char pattern(unsigned i) { return (char)(i + 1); }
static bool is_filled(const struct side* s, unsigned i) {
  for (size_t at = 0; at < s->size; ++at) {
    if (s->memory[i * s->size + at] != pattern(i)) return false;
  }
  return true;
}
static uint64_t word_of(const struct side* s, unsigned i) {
  uint64_t word;
  memcpy(&word, s->memory + i * s->size, sizeof word);
  return word;
}

static unsigned post_once(const struct side* s, const struct task* task, unsigned i) {
  const uint64_t there = s->peer.memory + i * s->size;
  struct ibv_sge sge = {(uintptr_t)(s->memory + i * s->size), (uint32_t)s->size, s->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1, .imm_data = htonl(i)}, *bad;
  wr.opcode = is(task, "send")    ? IBV_WR_SEND
              : is(task, "imm")   ? IBV_WR_RDMA_WRITE_WITH_IMM
              : is(task, "write") ? IBV_WR_RDMA_WRITE
              : is(task, "read")  ? IBV_WR_RDMA_READ
                                  : IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (is(task, "add")) {
    sge.length = sizeof(uint64_t);
    wr.wr.atomic.remote_addr = there;
    wr.wr.atomic.rkey = s->peer.rkey;
    wr.wr.atomic.compare_add = 1;
  } else {
    wr.wr.rdma.remote_addr = there;
    wr.wr.rdma.rkey = s->peer.rkey;
  }
  const int error = ibv_post_send(s->qp, &wr, &bad);
  if (error != 0 && bad != &wr) die("ibv_post_send");
  return error == 0 ? 0 : (unsigned)error + kRefused;
}
static unsigned post(const struct side* s, const struct task* task, unsigned i) {
  for (;;) {
    const unsigned refused = post_once(s, task, i);
    if (refused == 0 || !task->again) return refused;
  }
}

/* Waits for the next completion. Returns false if none comes. */
static bool await(const struct side* s, struct ibv_wc* wc) {
  for (const int64_t limit = now_ms() + kLimitMs; now_ms() < limit;) {
    const int n = ibv_poll_cq(s->cq, 1, wc);
    if (n < 0) die("ibv_poll_cq");
    if (n == 1) return true;
  }
  return false;
}

static void print_list(const char* name, const unsigned* numbers, unsigned count) {
  printf("\"%s\": [", name);
  for (unsigned i = 0; i < count; ++i) printf("%s%u", i == 0 ? "" : ", ", numbers[i]);
  printf("], ");
}

static void print_end(const struct side* s) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  if (ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init) != 0) die("ibv_query_qp");
  printf("\"state\": %d}\n", attr.qp_state);
  fflush(stdout);
}

static unsigned take_events(const struct side* s, unsigned wanted, unsigned* events) {
  unsigned count = 0;
  for (const int64_t limit = now_ms() + kLimitMs; count < kDepth;) {
    struct pollfd fd = {s->context->async_fd, POLLIN, 0};
    const int64_t rest = count < wanted ? limit - now_ms() : 0;
    if (poll(&fd, 1, rest > 0 ? (int)rest : 0) != 1) break;
    struct ibv_async_event event;
    if (ibv_get_async_event(s->context, &event) != 0) die("ibv_get_async_event");
    events[count++] = event.event_type;
    ibv_ack_async_event(&event);
  }
  return count;
}

static void be_client(struct side* s, const struct task* task, int fd) {
  unsigned statuses[kDepth] = {0}, corrupt[kDepth], corrupted = 0, posted = 0, events[kDepth];
  uint32_t succeeded = 0;
  char word;
  hear(fd, &word, 1);
  if (!is(task, "read") && !is(task, "add")) {
    for (unsigned i = 0; i < task->count; ++i) memset(s->memory + i * s->size, pattern(i), s->size);
  }
  const unsigned event_count = task->waits == 'c' ? take_events(s, 1, events) : 0;
  for (unsigned i = 0; task->at_once && i < task->count; ++i) {
    statuses[i] = post(s, task, i);
    posted += statuses[i] == 0;
  }
  for (unsigned i = 0; i < (task->at_once ? posted : task->count); ++i) {
    struct ibv_wc wc;
    if (!task->at_once && (statuses[i] = post(s, task, i)) != 0) continue;
    if (!await(s, &wc)) die("no completion comes");
    statuses[wc.wr_id] = wc.status;
    if (wc.status != IBV_WC_SUCCESS) continue;
    ++succeeded;
    const unsigned at = (unsigned)wc.wr_id;
    if ((is(task, "read") && !is_filled(s, at)) ||
        (is(task, "add") && word_of(s, at) != 100 + at)) {
      corrupt[corrupted++] = at;
    }
  }
  tell(fd, &succeeded, sizeof succeeded);
  printf("{\"side\": \"client\", ");
  print_list("statuses", statuses, task->count);
  print_list("corrupt", corrupt, corrupted);
  print_list("events", events, event_count);
  print_end(s);
  hear(fd, &word, 1); /* waits until the server has seen everything */
}

/* Waits for `wanted` receives while completions come, takes the rest, and returns their number. */
static unsigned take_receives(const struct side* s, uint32_t wanted, unsigned* received) {
  unsigned count = 0;
  for (struct ibv_wc wc; count < wanted && await(s, &wc);) {
    if (wc.status == IBV_WC_SUCCESS) received[count++] = (unsigned)wc.wr_id;
  }
  for (struct ibv_wc wc; ibv_poll_cq(s->cq, 1, &wc) == 1;) {
    if (wc.status == IBV_WC_SUCCESS && count < kDepth) received[count++] = (unsigned)wc.wr_id;
  }
  return count;
}

static void be_server(struct side* s, const struct task* task, int fd) {
  unsigned received[kDepth], corrupt[kDepth], changed[kDepth], refused[kDepth];
  unsigned events[2 * kDepth], corrupted = 0, changes = 0, refusals = 0;
  for (unsigned i = 0; i < task->count; ++i) {
    const uint64_t start = 100 + i;
    if (is(task, "read")) memset(s->memory + i * s->size, pattern(i), s->size);
    if (is(task, "add")) memcpy(s->memory + i * s->size, &start, sizeof start);
    for (int error = -1; takes_receives(task) && error != 0;) {
      error = post_receive(s, i);
      if (error == 0 || task->again) continue;
      refused[refusals++] = (unsigned)error + kRefused;
      break;
    }
  }
  const unsigned early = task->waits == 's' ? take_events(s, 1, events) : 0;
  tell(fd, "r", 1);
  uint32_t succeeded;
  hear(fd, &succeeded, sizeof succeeded);
  const bool counts = takes_receives(task) && s->type == IBV_QPT_RC;
  const unsigned count = take_receives(s, counts ? succeeded : 0, received);
  const unsigned event_count = early + take_events(s, task->events, events + early);
  for (unsigned i = 0; i < task->count && !is(task, "read"); ++i) {
    const bool is_there = is(task, "add") ? word_of(s, i) == 101 + i : is_filled(s, i);
    const bool is_untouched =
        is(task, "add") ? word_of(s, i) == 100 + i : s->memory[i * s->size] == 0;
    if (is_there) {
      changed[changes++] = i;
    } else if (!is_untouched) {
      corrupt[corrupted++] = i;
    }
  }
  printf("{\"side\": \"server\", ");
  print_list("received", received, count);
  print_list("refused", refused, refusals);
  print_list("changed", changed, changes);
  print_list("corrupt", corrupt, corrupted);
  print_list("events", events, event_count);
  print_end(s);
  tell(fd, "e", 1);
}

int main(int argc, char** argv) {
  struct side side = {.type = IBV_QPT_RC,
                      .timeout = 14,
                      .retries = 7,
                      .rnr_retries = 7,
                      .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
  struct task task = {0};
  for (int option; (option = getopt(argc, argv, "abut:r:n:e:w:")) != -1;) {
    if (option == 'a') task.again = true;
    if (option == 'b') task.at_once = true;
    if (option == 'u') side.type = IBV_QPT_UC;
    if (option == 't') side.timeout = (uint8_t)atoi(optarg);
    if (option == 'r') side.retries = (uint8_t)atoi(optarg);
    if (option == 'n') side.rnr_retries = (uint8_t)atoi(optarg);
    if (option == 'e') task.events = (unsigned)atoi(optarg);
    if (option == 'w') task.waits = *optarg;
    if (option == '?') return 2;
  }
  if (optind + 3 != argc) return 2;
  task.operation = argv[optind];
  task.count = (unsigned)atoi(argv[optind + 1]);
  side.size = strtoul(argv[optind + 2], NULL, 0);
  if (task.count > kDepth || side.size < sizeof(uint64_t)) return 2;
  int is_client;
  const int fd = fork_sides(&is_client);
  prctl(PR_SET_NAME, is_client ? "client" : "server");
  open_side(&side, fd);
  if (is_client) {
    be_client(&side, &task, fd);
    return 0;
  }
  be_server(&side, &task, fd);
  int status = 1;
  wait(&status);
  return status != 0;
}
