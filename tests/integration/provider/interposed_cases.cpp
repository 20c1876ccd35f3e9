// SPDX-License-Identifier: BSD-2-Clause
// A library that stands in for calls of the C library, as librspreload does: it makes an rsocket of
// each socket, by verbs, and waits for ever if a verb makes a socket.
#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>

#include "client.hpp"

namespace {

std::atomic<bool> refuses_internet{false};

}  // namespace

extern "C" __attribute__((visibility("default"))) int socket(int domain, int type, int protocol) {
  if (refuses_internet && (domain == AF_INET || domain == AF_INET6)) {
    client::fail("the plugin has called socket(%d, %d, %d)", domain, type, protocol);
  }
  using Socket = int(int, int, int);
  static auto* const next = reinterpret_cast<Socket*>(::dlsym(RTLD_NEXT, "socket"));
  return next(domain, type, protocol);
}

namespace client {

void make_sockets_unseen() {
  refuses_internet = true;
  Loop loop;
  loop.post_receive(1);
  loop.post_send(2);
  for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  loop.destroy();
}

}  // namespace client
