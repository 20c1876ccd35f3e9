// SPDX-License-Identifier: BSD-2-Clause
#include "any_calls.hpp"

#include <array>

namespace verbena::cm::sim {

AnyCalls::AnyCalls(std::uint64_t seed) : random_(seed), world_(seed, seed % 2 == 0) {
  // Each fault is left out of about half of the runs.
  const auto sometimes = [this](std::uint32_t ppm) { return one_in(2) ? ppm : 0; };
  lost_ppm_ = sometimes(100'000);
  doubled_ppm_ = sometimes(100'000);
  damaged_ppm_ = sometimes(50'000);
  world_.network = [this](const Flight& flight) { return carry(flight); };
  for (std::uint64_t& call : favourites_) call = random_.below(kCalls);
  space_ = one_in(2) ? 0x106 : one_in(2) ? 0x111 : 0x13f;
  const bool catches_up = one_in(2);
  for (int i = 0; i < 2; ++i) {
    Host& added = world_.add_host();
    for (ChannelId channel = 1; channel <= kChannels; ++channel) {
      added.cm.open_channel(channel, static_cast<limits::Holder>(1 + channel / 3));
    }
    if (!catches_up) continue;
    added.cm.set_catch_up([this, &added](ChannelId channel) {
      if (one_in(2)) added.cm.get_event(channel);
    });
  }
}

std::string AnyCalls::play() {
  for (int i = 0; i < kSteps; ++i) {
    at_ = random_.below(2);
    step();
    if (!world_.is_consistent()) {
      return "after step " + std::to_string(i) + ", " + call_ + ": the books are wrong";
    }
  }
  begin("the end of all programs");
  for (const auto& host : world_.hosts) {
    for (ChannelId channel = 1; channel <= kChannels; ++channel) {
      host->cm.close_channel(world_.now, channel);
    }
    host->ports.present = host->ports.up = host->ports.neighbours_answer = true;
  }
  while (world_.step()) {
  }
  for (const auto& host : world_.hosts) {
    if (host->cm.ids() != 0 || host->cm.agent().size() != 0) return "something is left of them";
  }
  return world_.is_consistent() ? "" : "at the end the books are wrong";
}

void AnyCalls::step() {
  switch (random_.below(20)) {
    case 0:
      return listen_somewhere();
    case 1:
    case 2:
      return connect_to_somewhere();
    case 3:
      return open_or_close();
    case 4:
      return change_surroundings();
    case 5:
      return forge();
    case 6:
    case 7:
      begin("get_event");
      return (void)done(cm().get_event(any_channel()) ? 0 : 1);
    case 8:
    case 9:
    case 10:
      begin("the network");
      world_.step();
      return;
    case 11:
      begin("time");
      for (const TimeNs end = world_.now + random_.below(10 * kSecond); world_.step(end);) {
      }
      return;
    default:
      return call_on_id();
  }
}

// Mostly one of the newest IDs. IDs of connection requests have the numbers just above `newest_`,
// which only holds what create_id returned.
IdHandle AnyCalls::any_id() {
  const IdHandle newest = newest_[at_];
  const std::uint64_t back = random_.below(one_in(6) ? newest - IdTable::kFirstHandle + 3 : 7);
  return newest + 2 - static_cast<IdHandle>(back);
}

IdHandle AnyCalls::make_id(ChannelId channel) {
  IdHandle id = 0;
  if (done(cm().create_id(channel, any_name(), any_space(), 2, id)) == 0) newest_[at_] = id;
  return id;
}

ChannelId AnyCalls::channel_of(IdHandle id) {
  if (one_in(8)) return any_channel();
  for (ChannelId channel = 1; channel <= kChannels; ++channel) {
    RouteInfo info;
    if (cm().query(channel, id, info) == 0) return channel;
  }
  return any_channel();
}

std::uint16_t AnyCalls::any_space() {
  constexpr std::array<std::uint16_t, 3> kSpaces{0x106, 0x111, 0x13f};
  return one_in(8) ? kSpaces[random_.below(kSpaces.size())] : space_;
}

SocketAddress AnyCalls::any_address(bool is_far) {
  if (one_in(20)) return {};
  const auto port = static_cast<std::uint16_t>(one_in(4) ? 0 : 7000 + random_.below(3));
  const HostPorts& near = host().ports;
  const HostPorts& far = world_.hosts[1 - at_]->ports;
  const HostPorts& own = is_far != one_in(5) ? far : near;
  if (one_in(6)) return SocketAddress::of_gid(own.find(1) ? own.find(1)->gid : Gid{}, port, 0xffff);
  if (!is_far && one_in(2)) return SocketAddress::of(IpAddress::v4(0), port);
  return SocketAddress::of(own.default_port_address(), port);
}

ConnParam AnyCalls::any_param() {
  ConnParam param;
  param.qp_num = static_cast<std::uint32_t>(0x4000 + random_.below(4));
  param.responder_resources = param.initiator_depth = static_cast<std::uint8_t>(random_.next());
  param.private_data.assign(std::vector<std::uint8_t>(random_.below(one_in(4) ? 256 : 50), 7));
  return param;
}

int AnyCalls::done(int error) {
  if (error == 0) ++succeeded_;
  return error;
}

void AnyCalls::listen_somewhere() {
  begin("a listener");
  const ChannelId channel = any_channel();
  const IdHandle id = make_id(channel);
  (void)done(cm().bind(channel, id, any_address(false)));
  if (one_in(4)) return;
  (void)done(cm().listen(world_.now, channel, id, static_cast<std::int32_t>(random_.below(4))));
}

void AnyCalls::connect_to_somewhere() {
  begin("a client");
  const ChannelId channel = any_channel();
  const IdHandle id = make_id(channel);
  const TimeNs until = world_.now + random_.below(kSecond);
  (void)done(cm().resolve_addr(channel, id, {}, any_address(true), until));
  (void)done(cm().resolve_route(channel, id));
  (void)done(cm().connect(world_.now, channel, id, any_param(), Ece{}));
}

void AnyCalls::open_or_close() {
  const ChannelId channel = any_channel();
  begin("open_channel");
  cm().open_channel(channel, static_cast<limits::Holder>(1 + channel / 3));
  if (!one_in(4)) return;
  begin("close_channel");
  cm().close_channel(world_.now, channel);
}

void AnyCalls::change_surroundings() {
  HostPorts& ports = host().ports;
  switch (random_.below(4)) {
    case 0:
      begin("the port goes down or up");
      ports.up = !ports.up;
      if (!ports.up) cm().handle_port_down(1);
      return;
    case 1:
      begin("another hardware address");
      return cm().handle_address_change(1);
    case 2:
      begin("neighbours fall silent, or answer");
      ports.neighbours_answer = !ports.neighbours_answer;
      return;
    default:
      begin("the device goes or comes");
      if (ports.present) cm().remove_device(world_.now, 1);
      ports.present = !ports.present;
  }
}

void AnyCalls::call_on_id() {
  const IdHandle id = any_id();
  const ChannelId channel = channel_of(id);
  const TimeNs now = world_.now;
  std::uint32_t reported = 0, withdrawn = 0, number = 0;
  QpAttr attributes;
  RouteInfo info;
  const ConnParam param = any_param();
  const std::array<std::uint8_t, 4> value{static_cast<std::uint8_t>(random_.below(2))};
  switch (one_in(4) ? random_.below(kCalls) : favourites_[random_.below(favourites_.size())]) {
    case 0:
      begin("destroy_id");
      return (void)done(cm().destroy_id(now, channel, id, reported, withdrawn));
    case 1:
    case 2:
      begin("migrate");
      return (void)done(cm().migrate(any_channel(), channel, id, reported, withdrawn));
    case 3:
      begin("bind");
      return (void)done(cm().bind(channel, id, any_address(false)));
    case 4:
      begin("resolve_addr");
      return (void)done(cm().resolve_addr(channel, id, any_address(false), any_address(true),
                                          now + random_.below(kSecond)));
    case 5:
      begin("resolve_route");
      return (void)done(cm().resolve_route(channel, id));
    case 6:
      begin("listen");
      return (void)done(cm().listen(now, channel, id, 1));
    case 7:
      begin("connect");
      return (void)done(cm().connect(now, channel, id, param, Ece{}));
    case 8:
    case 9:
      begin("accept");
      return (void)done(
          cm().accept(now, channel, id, any_name(), one_in(3) ? nullptr : &param, Ece{}));
    case 10:
      begin("reject");
      return (void)done(cm().reject(now, channel, id, 0, param.private_data.view()));
    case 11:
      begin("disconnect");
      return (void)done(cm().disconnect(now, channel, id));
    case 12:
      begin("notify");
      return (void)done(cm().notify(now, channel, id, one_in(4) ? 6 : 4));
    case 13:
      begin("set_option");
      return (void)done(cm().set_option(channel, id, 0,
                                        static_cast<std::uint32_t>(random_.below(4)),
                                        std::span(value).first(one_in(2) ? 1 : 4)));
    case 14:
      begin("join");
      memberships_ += done(cm().join(channel, id, any_name(), any_address(true), 0, number)) == 0;
      return;
    case 15:
      begin("leave");
      number = any_membership();
      for (ChannelId any = 1; any <= kChannels; ++any) {
        if (done(cm().leave(any, number, reported, withdrawn)) == 0) return;
      }
      return;
    case 16:
      begin("break_promise");
      return cm().break_promise(channel, id, any_name(), 22);
    case 17:
      begin("write_event");
      return (void)done(cm().write_event(channel, id, 18, 0, 0));
    case 18:
      begin("init_qp_attr");
      (void)done(
          cm().init_qp_attr(channel, id, static_cast<std::uint32_t>(random_.below(5)), attributes));
      return (void)done(cm().query(channel, id, info));
    case 19:
      begin("promise_after");
      if (const RdmaEvent* event = cm().pending_event(channel, random_.below(3))) {
        (void)cm().promise_after(*event);
      }
      return;
    default:
      begin("resolve_service");
      return (void)done(cm().resolve_service(channel, id, 1));
  }
}

// Sends a datagram that was seen before again, from either host and with up to three bytes changed.
void AnyCalls::forge() {
  begin("a forged datagram");
  if (seen_.empty()) return;
  OutMad mad = seen_[random_.below(seen_.size())];
  for (std::uint64_t i = random_.below(4); i > 0; --i) {
    mad.bytes[random_.below(mad.bytes.size())] = static_cast<std::uint8_t>(random_.next());
  }
  const HostPorts& from = world_.hosts[random_.below(2)]->ports;
  const IpAddress source = one_in(4) ? IpAddress::v4(0x0a00004d) : from.default_port_address();
  cm().handle_mad(world_.now, 1, source, mad.bytes);
}

std::vector<Flight> AnyCalls::carry(const Flight& flight) {
  seen_.push_back(flight.mad);
  if (random_.chance(lost_ppm_)) return {};
  Flight copy = flight;
  copy.delay = random_.below(one_in(10) ? 5 * kSecond : kMillisecond);
  if (random_.chance(damaged_ppm_)) {
    copy.mad.bytes[random_.below(copy.mad.bytes.size())] ^=
        static_cast<std::uint8_t>(1u << random_.below(8));
  }
  if (random_.chance(doubled_ppm_)) return {flight, copy};
  return {copy};
}

}  // namespace verbena::cm::sim
