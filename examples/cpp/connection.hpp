// SPDX-License-Identifier: BSD-2-Clause
// Messages over an RC connection of rdma_cm: the code under test.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace example {

struct EndPointEnd {
  void operator()(rdma_cm_id* id) const { rdma_destroy_ep(id); }
};
using EndPoint = std::unique_ptr<rdma_cm_id, EndPointEnd>;

// Throws std::system_error where a call of librdmacm fails, and std::runtime_error where a message
// is not delivered.
class Connection {
 public:
  static Connection to(const std::string& host, const std::string& service);
  Connection(Connection&& other) noexcept;
  ~Connection();

  void send(const std::string& text);
  // Sends a message after which the peer may end. It is no error if the peer does not acknowledge
  // it.
  void send_last(const std::string& text);
  std::string receive();

 private:
  friend class Listener;
  explicit Connection(EndPoint id);
  ibv_wc transmit(const std::string& text);
  void post_receive(std::size_t slot);
  char* slot_at(std::size_t slot) { return memory_.data() + slot * kLongest; }

  static constexpr std::size_t kLongest = 1024;
  static constexpr std::size_t kReceives = 16;  // the buffer behind these is for sending

  EndPoint id_;
  std::vector<char> memory_;
  ibv_mr* region_ = nullptr;
};

class Listener {
 public:
  Listener(const std::string& host, const std::string& service);
  Connection accept();

 private:
  EndPoint id_;
};

}  // namespace example
