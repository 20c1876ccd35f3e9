// SPDX-License-Identifier: BSD-2-Clause
// Plays programs of every kind on two hosts, including hostile and unlucky ones. They make valid
// calls in any order, on their own IDs, on IDs of other processes, and on guessed or destroyed
// ones. The network loses, repeats and damages datagrams, ports go down, devices vanish, and
// channels close meanwhile. Whatever they do, the emulator's books stay right, and the emulator
// does not end.
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
  // Returns an empty string, or what was wrong and after which call.
  std::string play();
  const std::string& last_call() const { return call_; }
  std::uint64_t succeeded() const { return succeeded_; }

 private:
  static constexpr std::uint64_t kCalls = 21;    // kinds of calls on an ID
  static constexpr std::uint32_t kChannels = 4;  // per host; each of its two processes has two

  void step();
  void call_on_id();
  void change_surroundings();
  void open_or_close();
  void listen_somewhere();
  void connect_to_somewhere();
  void forge();
  std::vector<Flight> carry(const Flight& flight);

  // Arguments for calls: sometimes valid ones, sometimes any.
  Host& host() { return *world_.hosts[at_]; }
  RdmaCm& cm() { return host().cm; }
  bool one_in(std::uint64_t count) { return random_.below(count) == 0; }
  ChannelId any_channel() { return 1 + random_.below(kChannels); }
  IdHandle any_id();
  IdHandle make_id(ChannelId channel);  // returns 0 if the ID could not be made
  ChannelId channel_of(IdHandle id);
  std::uint32_t any_membership() {
    return 1 + static_cast<std::uint32_t>(random_.below(memberships_ + 1));
  }
  std::uint64_t any_name() { return one_in(6) ? 0 : 1 + random_.below(50); }
  std::uint16_t any_space();
  SocketAddress any_address(bool is_far);
  ConnParam any_param();
  // These note which call is made, and whether it succeeded.
  void begin(const char* name) { call_ = name; }
  int done(int error);

  Random random_;
  World world_;
  std::size_t at_ = 0;  // the host whose programs make the calls
  std::array<IdHandle, 2> newest_{IdTable::kFirstHandle, IdTable::kFirstHandle};  // per host
  std::uint32_t memberships_ = 0;
  std::uint64_t succeeded_ = 0;
  std::string call_;
  std::vector<OutMad> seen_;
  // The calls that this run makes more often. Most errors need several calls in the right order.
  std::array<std::uint64_t, 3> favourites_;
  std::uint16_t space_;
  std::uint32_t lost_ppm_, doubled_ppm_, damaged_ppm_;
};

}  // namespace verbena::cm::sim
