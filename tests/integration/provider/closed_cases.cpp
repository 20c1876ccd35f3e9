// SPDX-License-Identifier: BSD-2-Clause
// A daemon that closes every descriptor from 3 on, including those of a device that it has opened.
// The calls that follow may fail, but they return; files that get the numbers are left alone.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "client.hpp"

namespace client {
namespace {

constexpr int kFirst = 3;
constexpr int kMost = 1024;
constexpr int kRounds = 6;

void close_all() {
  for (int fd = kFirst; fd < kMost; ++fd) ::close(fd);
}

// Files of the program, which have the lowest free numbers.
class Files {
 public:
  Files() {
    for (File& file : all_) {
      file.fd = ::memfd_create("file", MFD_CLOEXEC);
      EXPECT(file.fd >= 0);
      struct stat status {};
      EXPECT(::fstat(file.fd, &status) == 0);
      file.inode = status.st_ino;
    }
  }
  // libibverbs itself closes the numbers in `closed_by_library`.
  void expect_untouched(const std::array<int, 3>& closed_by_library) const {
    for (const File& file : all_) {
      bool is_closed = false;
      for (const int fd : closed_by_library) is_closed = is_closed || fd == file.fd;
      if (is_closed) continue;
      struct stat status {};
      EXPECT(::fstat(file.fd, &status) == 0);
      EXPECT(status.st_ino == file.inode);
      EXPECT(status.st_size == 0);
    }
  }

 private:
  struct File {
    int fd;
    ino_t inode;
  };
  std::array<File, 64> all_;
};

void destroy_whatever_it_says(Loop& loop) {
  ibv_destroy_qp(loop.sender);
  ibv_destroy_qp(loop.receiver);
  ibv_destroy_cq(loop.cq);
  ibv_destroy_comp_channel(loop.channel);
  ibv_dereg_mr(loop.mr);
  ibv_dealloc_pd(loop.pd);
  ibv_close_device(loop.context);
}

// Leaves an event unread and a queue armed.
void use(Loop& loop) {
  for (int i = 0; i < 2; ++i) {
    EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
    loop.post_receive(1);
    loop.post_send(2);
    for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  }
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  loop.post_receive(1);
}

// The progress thread notices the closed descriptors by itself and flushes.
void await_notice(ibv_context* context) {
  ibv_port_attr port;
  while (ibv_query_port(context, 1, &port) == 0) ::usleep(1000);
  ::usleep(20'000);
}

}  // namespace

void close_descriptors() {
  for (int round = 0; round < kRounds; ++round) {
    ibv_context* const context = open_first();
    close_all();
    ibv_close_device(context);
    Loop loop(true);
    use(loop);
    close_all();
    destroy_whatever_it_says(loop);
  }
}

void use_closed_descriptors_again() {
  for (int round = 0; round < kRounds; ++round) {
    Loop loop(true);
    use(loop);
    const std::array<int, 3> librarys{loop.context->cmd_fd, loop.context->async_fd,
                                      loop.channel->fd};
    close_all();
    await_notice(loop.context);
    const Files files;
    destroy_whatever_it_says(loop);
    files.expect_untouched(librarys);
    close_all();
  }
}

}  // namespace client
