// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/ucma.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ucma_layout.hpp"

namespace verbena::cm {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Commands that are newer than the headers of the distribution.
constexpr std::uint32_t kResolveIbService = 23;
constexpr std::uint32_t kWriteCmEvent = 24;

struct ResolveIbService {
  std::uint32_t id;
  std::uint32_t reserved;
  std::uint64_t service_id;
  std::uint8_t service_name[64];
  std::uint32_t flags;
  std::uint32_t reserved2;
};
static_assert(sizeof(ResolveIbService) == 88);

struct WriteCmEvent {
  std::uint32_t id;
  std::uint32_t reserved;
  std::uint32_t event;
  std::uint32_t status;
  std::uint64_t argument;
  std::uint8_t other_parameters[304];  // for events that programs may not write
};
static_assert(sizeof(WriteCmEvent) == 328);

// Cuts the bytes or extends them with zeros to today's structure.
template <typename T>
T load(Bytes bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

// Returns false if there are fewer bytes than even the oldest library sends.
template <typename T>
bool load_at_least(Bytes bytes, std::size_t oldest, T& value) {
  if (bytes.size() < oldest) return false;
  value = load<T>(bytes);
  return true;
}

struct Call {
  RdmaCm& cm;
  TimeNs now;
  ChannelId channel;
  ChannelId other;
  Bytes body;
  Bytes attached;
  std::size_t room;  // size of the response buffer (`out` of the header)
  UcmaReply reply;

  // Answers with `value`, cut to the response buffer, which must hold at least `oldest` bytes.
  template <typename T>
  int answer(std::uint64_t address, const T& value, std::size_t oldest = sizeof(T)) {
    if (room < oldest) return ENOSPC;
    const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
    reply.response_address = address;
    reply.response.assign(begin, begin + std::min(room, sizeof value));
    return 0;
  }
};

template <typename Storage>
std::optional<SocketAddress> address_in(const Storage& storage, std::size_t size) {
  return SocketAddress::parse(
      {reinterpret_cast<const std::uint8_t*>(&storage), std::min(size, sizeof storage)});
}

// --- one function per command -------------------------------------------------------------------

int create_id(Call& c) {
  rdma_ucm_create_id cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_create_id, reserved), cmd)) return EINVAL;
  rdma_ucm_create_id_resp resp{};
  if (c.room < sizeof resp) return ENOSPC;
  if (const int error = c.cm.create_id(c.channel, cmd.uid, cmd.ps, cmd.qp_type, resp.id)) {
    return error;
  }
  return c.answer(cmd.response, resp);
}

int destroy_id(Call& c) {
  rdma_ucm_destroy_id cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_destroy_id, reserved), cmd)) return EINVAL;
  rdma_ucm_destroy_id_resp resp{};
  if (c.room < sizeof resp) return ENOSPC;
  const std::uint64_t uid = c.cm.uid_of(c.channel, cmd.id);
  if (const int error =
          c.cm.destroy_id(c.now, c.channel, cmd.id, resp.events_reported, c.reply.withdrawn)) {
    return error;
  }
  c.reply.destroyed_uid = uid;
  c.reply.destroyed_events = resp.events_reported;
  return c.answer(cmd.response, resp);
}

int bind_ip(Call& c) {
  rdma_ucm_bind_ip cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_bind_ip, id) + sizeof cmd.id, cmd)) return EINVAL;
  const std::optional<SocketAddress> address = address_in(cmd.addr, sizeof cmd.addr);
  if (!address) return EINVAL;
  return c.cm.bind(c.channel, cmd.id, *address);
}

int bind(Call& c) {
  rdma_ucm_bind cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_bind, addr), cmd)) return EINVAL;
  const std::optional<SocketAddress> address = address_in(cmd.addr, cmd.addr_size);
  if (!address || cmd.reserved != 0 || cmd.addr_size != address->size()) return EINVAL;
  return c.cm.bind(c.channel, cmd.id, *address);
}

int resolve_ip(Call& c) {
  rdma_ucm_resolve_ip cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  const std::optional<SocketAddress> source = address_in(cmd.src_addr, sizeof cmd.src_addr);
  const std::optional<SocketAddress> destination = address_in(cmd.dst_addr, sizeof cmd.dst_addr);
  if (!destination || (cmd.src_addr.sin6_family != 0 && !source)) return EINVAL;
  return c.cm.resolve_addr(c.channel, cmd.id, source.value_or(SocketAddress{}), *destination,
                           c.now + TimeNs{cmd.timeout_ms} * 1'000'000);
}

int resolve_addr(Call& c) {
  rdma_ucm_resolve_addr cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_resolve_addr, src_addr), cmd)) return EINVAL;
  const std::optional<SocketAddress> source = address_in(cmd.src_addr, cmd.src_size);
  const std::optional<SocketAddress> destination = address_in(cmd.dst_addr, cmd.dst_size);
  if (cmd.reserved != 0 || (cmd.src_size != 0 && (!source || cmd.src_size != source->size())) ||
      !destination || cmd.dst_size != destination->size()) {
    return EINVAL;
  }
  return c.cm.resolve_addr(c.channel, cmd.id, source.value_or(SocketAddress{}), *destination,
                           c.now + TimeNs{cmd.timeout_ms} * 1'000'000);
}

int resolve_route(Call& c) {
  rdma_ucm_resolve_route cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  return c.cm.resolve_route(c.channel, cmd.id);
}

int query_route(Call& c) {
  rdma_ucm_query cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_query, option), cmd)) return EINVAL;
  RouteInfo info;
  if (const int error = c.cm.query(c.channel, cmd.id, info)) return error;
  return c.answer(cmd.response, ucma::to_route_response(info),
                  offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

int answer_path(Call& c, std::uint64_t address, const RouteInfo& info) {
  // This is rdma_ucm_query_path_resp, whose last member is an array of any length.
  struct {
    std::uint32_t num_paths;
    std::uint32_t reserved;
    ib_path_rec_data path;
  } resp{};
  constexpr std::size_t kHead = sizeof(rdma_ucm_query_path_resp);
  static_assert(offsetof(decltype(resp), path) == kHead);
  if (info.has_path) {
    resp.num_paths = 1;
    resp.path = ucma::to_path_data(info.path);
  }
  return c.answer(address, resp, kHead);
}

int query(Call& c) {
  rdma_ucm_query cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  RouteInfo info;
  if (const int error = c.cm.query(c.channel, cmd.id, info)) return error;
  constexpr std::size_t kOldest = offsetof(rdma_ucm_query_addr_resp, ibdev_index);
  switch (cmd.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return c.answer(cmd.response, ucma::to_addr_response(info), kOldest);
    case RDMA_USER_CM_QUERY_PATH:
      return answer_path(c, cmd.response, info);
    case RDMA_USER_CM_QUERY_GID:
      return c.answer(cmd.response, ucma::to_gid_response(info), kOldest);
    default:
      return ENOSYS;
  }
}

int connect(Call& c) {
  rdma_ucm_connect cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_connect, ece), cmd)) return EINVAL;
  if (cmd.conn_param.valid == 0) return EINVAL;
  return c.cm.connect(c.now, c.channel, cmd.id, ucma::from_abi(cmd.conn_param),
                      ucma::from_abi(cmd.ece));
}

int listen(Call& c) {
  rdma_ucm_listen cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  return c.cm.listen(c.now, c.channel, cmd.id, static_cast<std::int32_t>(cmd.backlog));
}

int accept(Call& c) {
  rdma_ucm_accept cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_accept, ece), cmd)) return EINVAL;
  const ConnParam param = ucma::from_abi(cmd.conn_param);
  return c.cm.accept(c.now, c.channel, cmd.id, cmd.uid,
                     cmd.conn_param.valid != 0 ? &param : nullptr, ucma::from_abi(cmd.ece));
}

int reject(Call& c) {
  rdma_ucm_reject cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  return c.cm.reject(c.now, c.channel, cmd.id, cmd.reason,
                     Bytes(cmd.private_data).first(cmd.private_data_len));
}

int disconnect(Call& c) {
  rdma_ucm_disconnect cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  return c.cm.disconnect(c.now, c.channel, cmd.id);
}

int init_qp_attr(Call& c) {
  rdma_ucm_init_qp_attr cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  QpAttr attr;
  if (const int error = c.cm.init_qp_attr(c.channel, cmd.id, cmd.qp_state, attr)) return error;
  return c.answer(cmd.response, ucma::to_abi(attr));
}

int get_event(Call& c) {
  rdma_ucm_get_event cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  constexpr std::size_t kOldest = offsetof(rdma_ucm_event_resp, reserved);
  if (c.room < kOldest) return ENOSPC;
  const std::optional<RdmaEvent> event = c.cm.get_event(c.channel);
  if (!event) return EAGAIN;
  return c.answer(cmd.response, ucma::to_abi(*event), kOldest);
}

int set_option(Call& c) {
  rdma_ucm_set_option cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  if (c.attached.size() != cmd.optlen) return EFAULT;
  return c.cm.set_option(c.channel, cmd.id, cmd.level, cmd.optname, c.attached);
}

int notify(Call& c) {
  rdma_ucm_notify cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  return c.cm.notify(c.now, c.channel, cmd.id, cmd.event);
}

int join(Call& c, std::uint64_t response, std::uint32_t id, std::uint64_t uid,
         const std::optional<SocketAddress>& address, std::uint16_t flags) {
  rdma_ucm_create_id_resp resp{};
  if (!address) return EINVAL;
  if (c.room < sizeof resp) return ENOSPC;
  if (const int error = c.cm.join(c.channel, id, uid, *address, flags, resp.id)) return error;
  return c.answer(response, resp);
}

int join_ip_mcast(Call& c) {
  rdma_ucm_join_ip_mcast cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_join_ip_mcast, id) + sizeof cmd.id, cmd)) {
    return EINVAL;
  }
  return join(c, cmd.response, cmd.id, cmd.uid, address_in(cmd.addr, sizeof cmd.addr),
              RDMA_MC_JOIN_FLAG_FULLMEMBER);
}

int join_mcast(Call& c) {
  rdma_ucm_join_mcast cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_join_mcast, addr), cmd)) return EINVAL;
  const std::optional<SocketAddress> address = address_in(cmd.addr, cmd.addr_size);
  if (!address || address->size() != cmd.addr_size) return EINVAL;
  return join(c, cmd.response, cmd.id, cmd.uid, address, cmd.join_flags);
}

int leave_mcast(Call& c) {
  rdma_ucm_destroy_id cmd;
  if (!load_at_least(c.body, offsetof(rdma_ucm_destroy_id, reserved), cmd)) return EINVAL;
  rdma_ucm_destroy_id_resp resp{};
  if (c.room < sizeof resp) return ENOSPC;
  if (const int error = c.cm.leave(c.channel, cmd.id, resp.events_reported, c.reply.withdrawn)) {
    return error;
  }
  return c.answer(cmd.response, resp);
}

int migrate_id(Call& c) {
  rdma_ucm_migrate_id cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  rdma_ucm_migrate_resp resp{};
  if (c.room < sizeof resp) return ENOSPC;
  if (c.other == 0) return EINVAL;
  if (const int error =
          c.cm.migrate(c.channel, c.other, cmd.id, resp.events_reported, c.reply.withdrawn)) {
    return error;
  }
  return c.answer(cmd.response, resp);
}

int resolve_ib_service(Call& c) {
  ResolveIbService cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  return c.cm.resolve_service(c.channel, cmd.id, cmd.flags);
}

int write_cm_event(Call& c) {
  WriteCmEvent cmd;
  if (!load_at_least(c.body, sizeof cmd, cmd)) return EINVAL;
  return c.cm.write_event(c.channel, cmd.id, cmd.event, static_cast<std::int32_t>(cmd.status),
                          cmd.argument);
}

int dispatch(Call& c, std::uint32_t command) {
  switch (command) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return create_id(c);
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return destroy_id(c);
    case RDMA_USER_CM_CMD_BIND_IP:
      return bind_ip(c);
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      return resolve_ip(c);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return resolve_route(c);
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
      return query_route(c);
    case RDMA_USER_CM_CMD_CONNECT:
      return connect(c);
    case RDMA_USER_CM_CMD_LISTEN:
      return listen(c);
    case RDMA_USER_CM_CMD_ACCEPT:
      return accept(c);
    case RDMA_USER_CM_CMD_REJECT:
      return reject(c);
    case RDMA_USER_CM_CMD_DISCONNECT:
      return disconnect(c);
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return init_qp_attr(c);
    case RDMA_USER_CM_CMD_GET_EVENT:
      return get_event(c);
    case RDMA_USER_CM_CMD_SET_OPTION:
      return set_option(c);
    case RDMA_USER_CM_CMD_NOTIFY:
      return notify(c);
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
      return join_ip_mcast(c);
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return leave_mcast(c);
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return migrate_id(c);
    case RDMA_USER_CM_CMD_QUERY:
      return query(c);
    case RDMA_USER_CM_CMD_BIND:
      return bind(c);
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      return resolve_addr(c);
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return join_mcast(c);
    case kResolveIbService:
      return resolve_ib_service(c);
    case kWriteCmEvent:
      return write_cm_event(c);
    // The kernel has no GET_OPTION either.
    case RDMA_USER_CM_CMD_GET_OPTION:
      return ENOSYS;
    default:
      return EINVAL;
  }
}

}  // namespace

UcmaReply Ucma::execute(TimeNs now, ChannelId channel, Bytes command, Bytes attached,
                        ChannelId other) {
  return execute_in({}, now, channel, command, attached, other);
}

UcmaReply Ucma::execute_in(std::vector<std::uint8_t> response, TimeNs now, ChannelId channel,
                           Bytes command, Bytes attached, ChannelId other) {
  UcmaReply refused;
  refused.error = EINVAL;
  if (command.size() < kHeaderSize) return refused;
  const auto header = load<rdma_ucm_cmd_hdr>(command);
  const Bytes body = command.subspan(kHeaderSize);
  if (header.in > body.size()) return refused;
  Call call{cm_, now, channel, other, body.first(header.in), attached, header.out, {}};
  response.clear();
  call.reply.response = std::move(response);
  call.reply.error = dispatch(call, header.cmd);
  return std::move(call.reply);
}

bool Ucma::is_get_event(Bytes command) {
  return command.size() >= kHeaderSize &&
         load<rdma_ucm_cmd_hdr>(command).cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

}  // namespace verbena::cm
