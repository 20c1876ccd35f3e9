// SPDX-License-Identifier: BSD-2-Clause
#include "kernel_features.hpp"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "verbena/control/unique_fd.hpp"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace verbena::cli {
namespace {

control::UniqueFd udp_socket() {
  return control::UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

}  // namespace

bool can_steer_by_filter() {
  const control::UniqueFd fd = udp_socket();
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) return false;
  sock_filter first_socket[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  const sock_fprog program{1, first_socket};
  return ::setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) ==
         0;
}

bool can_segment_udp() {
  const control::UniqueFd fd = udp_socket();
  const int size = 1024;
  return ::setsockopt(fd.get(), IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) == 0;
}

bool can_coalesce_udp() {
  const control::UniqueFd fd = udp_socket();
  const int on = 1;
  return ::setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0;
}

bool can_watch_processes() {
  const control::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return static_cast<bool>(fd);
}

std::uint64_t receive_buffer_max() {
  std::ifstream file("/proc/sys/net/core/rmem_max");
  std::uint64_t bytes = 0;
  file >> bytes;
  return bytes;
}

}  // namespace verbena::cli
