// SPDX-License-Identifier: BSD-2-Clause
// Exchanges the addresses of two queue pairs over TCP.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

struct Address {
  std::uint8_t gid[16];
  std::uint32_t qpn;
  std::uint32_t lid;
};

class Exchange {
 public:
  // Waits for one client.
  static Exchange accept(std::uint16_t port) {
    const Exchange listener;
    const int on = 1;
    ::setsockopt(listener.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in any = address("0.0.0.0", port);
    check(::bind(listener.fd_, reinterpret_cast<const sockaddr*>(&any), sizeof any), "bind");
    check(::listen(listener.fd_, 1), "listen");
    const int fd = ::accept(listener.fd_, nullptr, nullptr);
    check(fd, "accept");
    return Exchange(fd);
  }

  static Exchange to(const std::string& host, std::uint16_t port) {
    Exchange made;
    const sockaddr_in server = address(host, port);
    check(::connect(made.fd_, reinterpret_cast<const sockaddr*>(&server), sizeof server),
          "connect");
    return made;
  }

  Exchange(Exchange&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Exchange() { ::close(fd_); }

  // Sends this side's address and waits for the other side's.
  Address swap(const Address& own) {
    check(::send(fd_, &own, sizeof own, MSG_NOSIGNAL) == sizeof own ? 0 : -1, "send");
    Address theirs{};
    const ssize_t got = ::recv(fd_, &theirs, sizeof theirs, MSG_WAITALL);
    if (got == 0) errno = ECONNRESET;
    check(got == sizeof theirs ? 0 : -1, "the other side");
    return theirs;
  }

 private:
  Exchange() : Exchange(::socket(AF_INET, SOCK_STREAM, 0)) {}
  explicit Exchange(int fd) : fd_(fd) { check(fd, "socket"); }

  static void check(int result, const char* what) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  }

  static sockaddr_in address(const std::string& host, std::uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    if (::inet_pton(AF_INET, host.c_str(), &made.sin_addr) != 1) {
      throw std::invalid_argument(host + " is no IPv4 address");
    }
    return made;
  }

  int fd_;
};
