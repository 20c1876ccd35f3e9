// SPDX-License-Identifier: BSD-2-Clause
#include "connection.hpp"

#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace example {
namespace {

void check(int result, const char* what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

EndPoint end_point(const std::string& host, const std::string& service, int flags,
                   std::size_t receives) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = flags;
  rdma_addrinfo* found = nullptr;
  check(rdma_getaddrinfo(host.c_str(), service.c_str(), &hints, &found), "rdma_getaddrinfo");
  const std::unique_ptr<rdma_addrinfo, void (*)(rdma_addrinfo*)> address(found, rdma_freeaddrinfo);
  ibv_qp_init_attr attributes{};
  attributes.cap.max_send_wr = 1;
  attributes.cap.max_recv_wr = static_cast<std::uint32_t>(receives);
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.sq_sig_all = 1;
  rdma_cm_id* id = nullptr;
  check(rdma_create_ep(&id, address.get(), nullptr, &attributes), "rdma_create_ep");
  return EndPoint(id);
}

void check(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {
    throw std::runtime_error(ibv_wc_status_str(completion.status));
  }
}

}  // namespace

Connection::Connection(EndPoint id) : id_(std::move(id)), memory_((kReceives + 1) * kLongest) {
  region_ = rdma_reg_msgs(id_.get(), memory_.data(), memory_.size());
  check(region_ == nullptr ? -1 : 0, "rdma_reg_msgs");
  for (std::size_t slot = 0; slot < kReceives; ++slot) post_receive(slot);
}

Connection::Connection(Connection&& other) noexcept
    : id_(std::move(other.id_)),
      memory_(std::move(other.memory_)),
      region_(std::exchange(other.region_, nullptr)) {}

Connection::~Connection() {
  if (region_ != nullptr) rdma_dereg_mr(region_);
}

Connection Connection::to(const std::string& host, const std::string& service) {
  Connection connection(end_point(host, service, 0, kReceives));
  check(rdma_connect(connection.id_.get(), nullptr), "rdma_connect");
  return connection;
}

void Connection::post_receive(std::size_t slot) {
  check(rdma_post_recv(id_.get(), slot_at(slot), slot_at(slot), kLongest, region_),
        "rdma_post_recv");
}

void Connection::send(const std::string& text) { check(transmit(text)); }

void Connection::send_last(const std::string& text) { transmit(text); }

ibv_wc Connection::transmit(const std::string& text) {
  if (text.size() > kLongest) throw std::length_error("the message is too long");
  char* const slot = slot_at(kReceives);
  std::memcpy(slot, text.data(), text.size());
  check(rdma_post_send(id_.get(), nullptr, slot, text.size(), region_, 0), "rdma_post_send");
  ibv_wc completion{};
  check(rdma_get_send_comp(id_.get(), &completion) == 1 ? 0 : -1, "rdma_get_send_comp");
  return completion;
}

std::string Connection::receive() {
  ibv_wc completion{};
  check(rdma_get_recv_comp(id_.get(), &completion) == 1 ? 0 : -1, "rdma_get_recv_comp");
  check(completion);
  char* const slot = reinterpret_cast<char*>(completion.wr_id);
  std::string text(slot, completion.byte_len);
  post_receive(static_cast<std::size_t>(slot - memory_.data()) / kLongest);
  return text;
}

Listener::Listener(const std::string& host, const std::string& service)
    : id_(end_point(host, service, RAI_PASSIVE, 16)) {
  check(rdma_listen(id_.get(), 1), "rdma_listen");
}

Connection Listener::accept() {
  rdma_cm_id* id = nullptr;
  check(rdma_get_request(id_.get(), &id), "rdma_get_request");
  Connection connection{EndPoint(id)};
  check(rdma_accept(id, nullptr), "rdma_accept");
  return connection;
}

}  // namespace example
