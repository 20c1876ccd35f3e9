// SPDX-License-Identifier: BSD-2-Clause
// Programs of every kind on two hosts, also hostile and unlucky ones: valid calls in any order, of
// IDs that are the caller's own, somebody else's, guessed or long gone, while the network loses,
// repeats and damages, ports go down, devices vanish and channels end. Whatever they do, the
// emulator's books stay right, and nothing of it ends the emulator.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cm_world.hpp"

namespace verbena::cm::sim {

class AnyCalls {
 public:
  static constexpr int kSteps = 300;

  explicit AnyCalls(std::uint64_t seed);
  // Empty, or after which call what was wrong.
  std::string play();
  const std::string& last_call() const { return call_; }
  std::uint64_t succeeded() const { return succeeded_; }

 private:
  static constexpr std::uint64_t kCalls = 21;    // that are made on an ID
  static constexpr std::uint32_t kChannels = 4;  // of a host; two processes have two each

  void step();
  void call_on_id();
  void change_surroundings();
  void open_or_close();
  void listen_somewhere();
  void connect_to_somewhere();
  void forge();
  std::vector<Flight> carry(const Flight& flight);

  // What a call is given: of one that is right, or of any.
  Host& host() { return *world_.hosts[at_]; }
  RdmaCm& cm() { return host().cm; }
  bool one_in(std::uint64_t count) { return random_.below(count) == 0; }
  ChannelId any_channel() { return 1 + random_.below(kChannels); }
  IdHandle any_id();
  IdHandle make_id(ChannelId channel);  // 0: it could not be had
  ChannelId channel_of(IdHandle id);
  std::uint32_t any_membership() {
    return 1 + static_cast<std::uint32_t>(random_.below(memberships_ + 1));
  }
  std::uint64_t any_name() { return one_in(6) ? 0 : 1 + random_.below(50); }
  std::uint16_t any_space();
  SocketAddress any_address(bool is_far);
  ConnParam any_param();
  // Notes which call it is, and whether it succeeded.
  void begin(const char* name) { call_ = name; }
  int done(int error);

  Random random_;
  World world_;
  std::size_t at_ = 0;  // the host whose programs are at work
  std::array<IdHandle, 2> newest_{IdTable::kFirstHandle, IdTable::kFirstHandle};  // of each host
  std::uint32_t memberships_ = 0;
  std::uint64_t succeeded_ = 0;
  std::string call_;
  std::vector<OutMad> seen_;
  // What this run does more often: what goes wrong takes two or three calls in the right order.
  std::array<std::uint64_t, 3> favourites_;
  std::uint16_t space_;
  std::uint32_t lost_ppm_, doubled_ppm_, damaged_ppm_;
};

}  // namespace verbena::cm::sim
