// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/cm_answers.hpp"

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace verbena::control {
namespace {

using Bytes = std::span<const std::uint8_t>;

// QUERY and INIT_QP_ATTR have the same layout.
static_assert(offsetof(rdma_ucm_query, id) == offsetof(rdma_ucm_init_qp_attr, id));
static_assert(offsetof(rdma_ucm_query, option) == offsetof(rdma_ucm_init_qp_attr, qp_state));
static_assert(sizeof(rdma_ucm_query) == sizeof(rdma_ucm_init_qp_attr));

template <typename T>
std::optional<T> load(Bytes bytes, std::size_t at = 0) {
  if (bytes.size() < at + sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Record {
  std::uint32_t command;
  std::uint32_t argument;
  std::uint32_t length;
};

// Returns where a command that changes its ID names it.
std::optional<std::size_t> place_of_id(std::uint32_t command) {
  switch (command) {
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return offsetof(rdma_ucm_destroy_id, id);
    case RDMA_USER_CM_CMD_BIND_IP:
      return offsetof(rdma_ucm_bind_ip, id);
    case RDMA_USER_CM_CMD_BIND:
      return offsetof(rdma_ucm_bind, id);
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      return offsetof(rdma_ucm_resolve_ip, id);
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      return offsetof(rdma_ucm_resolve_addr, id);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return offsetof(rdma_ucm_resolve_route, id);
    case RDMA_USER_CM_CMD_CONNECT:
      return offsetof(rdma_ucm_connect, id);
    case RDMA_USER_CM_CMD_LISTEN:
      return offsetof(rdma_ucm_listen, id);
    case RDMA_USER_CM_CMD_ACCEPT:
      return offsetof(rdma_ucm_accept, id);
    case RDMA_USER_CM_CMD_REJECT:
      return offsetof(rdma_ucm_reject, id);
    case RDMA_USER_CM_CMD_DISCONNECT:
      return offsetof(rdma_ucm_disconnect, id);
    case RDMA_USER_CM_CMD_NOTIFY:
      return offsetof(rdma_ucm_notify, id);
    case RDMA_USER_CM_CMD_SET_OPTION:
      return offsetof(rdma_ucm_set_option, id);
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return offsetof(rdma_ucm_migrate_id, id);
    default:
      return std::nullopt;
  }
}

template <typename Command>
std::optional<CmPromised> parse_promised(const rdma_ucm_cmd_hdr& header, Bytes body) {
  Command command{};
  if (body.size() < offsetof(Command, ece)) return std::nullopt;
  std::memcpy(&command, body.data(), std::min(body.size(), sizeof command));
  CmPromised promised;
  promised.question = {header.cmd, command.conn_param.valid != 0 ? 1u : 0u};
  promised.id = command.id;
  if constexpr (requires { command.uid; }) promised.uid = command.uid;
  promised.private_data_size = command.conn_param.private_data_len;
  return promised;
}

}  // namespace

std::optional<CmQuery> parse_cm_query(Bytes command) {
  const auto header = load<rdma_ucm_cmd_hdr>(command);
  if (!header ||
      (header->cmd != RDMA_USER_CM_CMD_QUERY && header->cmd != RDMA_USER_CM_CMD_INIT_QP_ATTR)) {
    return std::nullopt;
  }
  const auto body = load<rdma_ucm_query>(command, sizeof *header);
  if (!body || header->in < sizeof *body || header->in > command.size() - sizeof *header) {
    return std::nullopt;
  }
  return CmQuery{{header->cmd, body->option}, body->id, body->response, header->out};
}

std::optional<CmPromised> parse_cm_promised(Bytes command) {
  const auto header = load<rdma_ucm_cmd_hdr>(command);
  if (!header || header->in > command.size() - sizeof *header) return std::nullopt;
  const Bytes body = command.subspan(sizeof *header, header->in);
  switch (header->cmd) {
    case RDMA_USER_CM_CMD_CONNECT:
      return parse_promised<rdma_ucm_connect>(*header, body);
    case RDMA_USER_CM_CMD_ACCEPT:
      return parse_promised<rdma_ucm_accept>(*header, body);
    default:
      return std::nullopt;
  }
}

std::optional<std::uint32_t> id_changed_by(Bytes command) {
  const auto header = load<rdma_ucm_cmd_hdr>(command);
  const auto place = header ? place_of_id(header->cmd) : std::nullopt;
  if (!place) return std::nullopt;
  return load<std::uint32_t>(command, sizeof *header + *place);
}

std::optional<std::uint32_t> id_withdrawn_by(Bytes command) {
  const auto header = load<rdma_ucm_cmd_hdr>(command);
  if (!header) return std::nullopt;
  switch (header->cmd) {
    case RDMA_USER_CM_CMD_MIGRATE_ID:
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return id_changed_by(command);
    case RDMA_USER_CM_CMD_LEAVE_MCAST:  // names a membership where DESTROY_ID names an ID
      return load<std::uint32_t>(command, sizeof *header + offsetof(rdma_ucm_destroy_id, id));
    default:
      return std::nullopt;
  }
}

void append_answer(std::vector<std::uint8_t>& answers, const CmQuestion& question, Bytes answer) {
  const Record record{question.command, question.argument,
                      static_cast<std::uint32_t>(answer.size())};
  const auto* begin = reinterpret_cast<const std::uint8_t*>(&record);
  answers.insert(answers.end(), begin, begin + sizeof record);
  answers.insert(answers.end(), answer.begin(), answer.end());
}

std::optional<Bytes> find_answer(Bytes answers, const CmQuestion& question) {
  while (const auto record = load<Record>(answers)) {
    answers = answers.subspan(sizeof *record);
    if (record->length > answers.size()) return std::nullopt;
    if (CmQuestion{record->command, record->argument} == question) {
      return answers.first(record->length);
    }
    answers = answers.subspan(record->length);
  }
  return std::nullopt;
}

}  // namespace verbena::control
