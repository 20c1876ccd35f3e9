// SPDX-License-Identifier: BSD-2-Clause
/* An open uverbs node: what libibverbs does with it, and where its descriptor may go. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#define MAX_ATTRIBUTES 4

union request {
  struct ib_uverbs_ioctl_hdr header; /* ends with an array of attributes, of length 0 */
  char bytes[sizeof(struct ib_uverbs_ioctl_hdr) + MAX_ATTRIBUTES * sizeof(struct ib_uverbs_attr)];
};

static union request make_request(unsigned object, unsigned method) {
  union request r;
  memset(&r, 0, sizeof r);
  r.header.length = sizeof r.header;
  r.header.object_id = (uint16_t)object;
  r.header.method_id = (uint16_t)method;
  return r;
}

static void add(union request* r, unsigned id, size_t length, uint64_t data) {
  struct ib_uverbs_attr* attribute = &r->header.attrs[r->header.num_attrs++];
  attribute->attr_id = (uint16_t)id;
  attribute->len = (uint16_t)length;
  attribute->data = data;
  r->header.length = (uint16_t)(r->header.length + sizeof *attribute);
}

static uint64_t address_of(const void* p) { return (uint64_t)(uintptr_t)p; }

/* Reads an event pipe as the kernel's. The writer opens the pipe's other end by its path. */
static void check_event_pipe(int fd) {
  CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 0) == 0);
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int writer = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  const uint64_t sent = 0x1122334455667788;
  uint64_t received = 0;
  CHECK(write(writer, &sent, sizeof sent) == sizeof sent);
  CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLIN);
  CHECK(read(fd, &received, sizeof received) == sizeof received && received == sent);
  CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
  close(writer);
  CHECK(poll(&p, 1, 0) == 0); /* no hang-up when the writer closes */
  close(fd);
}

static bool makes_channel(int fd) {
  struct {
    struct ib_uverbs_cmd_hdr header;
    struct ib_uverbs_create_comp_channel body;
  } command = {{IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 4, 1}, {0}};
  struct ib_uverbs_create_comp_channel_resp response = {~0u};
  command.body.response = address_of(&response);
  if (write(fd, &command, sizeof command) != sizeof command) return false;
  close((int)response.fd);
  return (int)response.fd >= 0;
}

static void probe_channels(int fd) {
  CHECK_QUIET(makes_channel(fd));
  struct {
    struct ib_uverbs_cmd_hdr header;
    struct ib_uverbs_create_comp_channel body;
  } command = {{IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 4, 1}, {0}};
  struct ib_uverbs_create_comp_channel_resp response = {~0u};
  command.body.response = address_of(&response);
  CHECK(write(fd, &command, sizeof command) == sizeof command);
  check_event_pipe((int)response.fd);

  response.fd = ~0u;
  union request invoke = make_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  add(&invoke, UVERBS_ATTR_CORE_IN, 8, 0);
  add(&invoke, UVERBS_ATTR_CORE_OUT, sizeof response, address_of(&response));
  add(&invoke, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL);
  CHECK_QUIET(ioctl(fd, RDMA_VERBS_IOCTL, &invoke) == 0);
  CHECK((invoke.header.attrs[1].flags & UVERBS_ATTR_F_VALID_OUTPUT) != 0);
  check_event_pipe((int)response.fd);

  union request async = make_request(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
  add(&async, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, ~0u);
  CHECK_QUIET(ioctl(fd, RDMA_VERBS_IOCTL, &async) == 0);
  check_event_pipe((int)async.header.attrs[0].data_s64);
}

static void probe_refusals(int fd) {
  const struct ib_uverbs_cmd_hdr query = {IB_USER_VERBS_CMD_QUERY_DEVICE, 4, 1};
  CHECK(write(fd, &query, sizeof query) == -1 && errno == EOPNOTSUPP);
  CHECK(write(fd, "x", 1) == -1 && errno == EINVAL);
  union request probe = make_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  add(&probe, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_QUERY_DEVICE);
  CHECK(ioctl(fd, RDMA_VERBS_IOCTL, &probe) == -1 && errno == EPROTONOSUPPORT);
  CHECK(ioctl(fd, FIONREAD, &probe) == -1 && errno == ENOTTY);
  const struct ib_uverbs_cmd_hdr are_you_there = {0x56425641, 2, 0};
  CHECK(write(fd, &are_you_there, sizeof are_you_there) == sizeof are_you_there);
}

static int gid_entry(int fd, uint32_t port, uint64_t index, struct ib_uverbs_gid_entry* entry) {
  union request r = make_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
  add(&r, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 4, port);
  add(&r, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 8, index);
  add(&r, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4, 0);
  add(&r, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, sizeof *entry, address_of(entry));
  return ioctl(fd, RDMA_VERBS_IOCTL, &r);
}

static int gid_table(int fd, struct ib_uverbs_gid_entry* entries, size_t room, uint64_t* count) {
  union request r = make_request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
  add(&r, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, sizeof *entries);
  add(&r, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0);
  add(&r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, room * sizeof *entries, address_of(entries));
  add(&r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8, address_of(count));
  return ioctl(fd, RDMA_VERBS_IOCTL, &r);
}

static void probe_gids(int fd) {
  struct ib_uverbs_gid_entry entries[4];
  uint64_t count = 0;
  CHECK_QUIET(gid_entry(fd, 1, 0, entries) == 0);
  const unsigned char* bytes = (const unsigned char*)entries[0].gid;
  CHECK(bytes[0] == 0xfe && bytes[1] == 0x80 && bytes[15] == 1);
  CHECK(entries[0].port_num == 1 && entries[0].gid_type == 0 && entries[0].netdev_ifindex == 0);
  CHECK(gid_entry(fd, 1, 1, entries) == -1 && errno == EINVAL);
  CHECK(gid_entry(fd, 2, 0, entries) == -1 && errno == EINVAL);
  CHECK_QUIET(gid_table(fd, entries, 4, &count) == 0 && count == 1);

  const int roce = open("/dev/infiniband/uverbs193", O_RDWR | O_CLOEXEC);
  CHECK_QUIET(gid_entry(roce, 1, 2, entries) == 0);
  CHECK(entries[0].gid_type == 2 && entries[0].netdev_ifindex == 1);
  CHECK(gid_entry(roce, 1, 1, entries) == -1 && errno == ENODATA); /* a free entry */
  CHECK_QUIET(gid_table(roce, entries, 4, &count) == 0 && count == 2);
  CHECK(entries[0].gid_index == 0 && entries[1].gid_index == 2);
  CHECK(gid_table(roce, entries, 1, &count) == -1 && errno == EINVAL);
  close(roce);
}

static void probe_duplicates(int fd) {
  const int copies[] = {dup(fd), fcntl(fd, F_DUPFD, 100), fcntl(fd, F_DUPFD_CLOEXEC, 100),
                        dup2(fd, 90), dup3(fd, 91, O_CLOEXEC)};
  for (size_t i = 0; i < sizeof copies / sizeof *copies; ++i) {
    CHECK(makes_channel(copies[i]));
    CHECK(looks_like_node(copies[i]));
    close(copies[i]);
  }
  /* This number was closed by a call that is not wrapped, and is another file now. */
  const int gone = dup(fd);
  CHECK(close_range((unsigned)gone, (unsigned)gone, 0) == 0);
  CHECK(open("/dev/null", O_WRONLY) == gone);
  CHECK(write(gone, "anything", 8) == 8);
  CHECK(!looks_like_node(gone));
  close(gone);
}

static void probe_passing(int fd) {
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  char byte = 0;
  struct iovec part = {&byte, 1};
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
  CHECK(sendmsg(pair[0], &message, 0) == 1);
  CHECK(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC) == 1);
  int received = -1;
  memcpy(&received, CMSG_DATA(&control.header), sizeof received);
  CHECK(looks_like_node(received)); /* ibv_import_device checks this first */
  CHECK(makes_channel(received));
  close(received);
  close(pair[0]);
  close(pair[1]);
}

static void probe_children(int fd) {
  pid_t child = fork();
  if (child == 0) _exit(looks_like_node(fd) && makes_channel(fd) ? 0 : 1);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  child = fork();
  if (child == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", dup(fd)); /* dup drops close-on-exec */
    execl(own_program, own_program, "--inherited", number, (char*)NULL);
    _exit(127);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void probe_inherited(int fd) {
  struct ib_uverbs_gid_entry entry;
  CHECK(gid_entry(fd, 1, 0, &entry) == 0);
  CHECK(looks_like_node(fd));
  CHECK(makes_channel(fd));
}

void probe_node(void) {
  const int fd = open(NODE, O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  const int open_on_exec = open(NODE, O_RDWR | O_NONBLOCK);
  CHECK((fcntl(open_on_exec, F_GETFD) & FD_CLOEXEC) == 0);
  CHECK((fcntl(open_on_exec, F_GETFL) & O_NONBLOCK) != 0);
  close(open_on_exec);
  CHECK(open("/dev/infiniband/uverbs999", O_RDWR) == -1 && errno == ENOENT);
  probe_channels(fd);
  probe_refusals(fd);
  probe_gids(fd);
  probe_duplicates(fd);
  probe_passing(fd);
  probe_children(fd);
  close(fd);
}
