// SPDX-License-Identifier: BSD-2-Clause
// A client and a server on two hosts, which run until the client has finished, and helpers that
// corrupt the messages between them.
#pragma once

#include <gtest/gtest.h>

#include "cm_programs.hpp"

namespace verbena::cm::sim {

inline constexpr TimeNs kLongest = 40 * 60 * kSecond;  // sixteen MRAs of 69 s each, and a little

struct Scene {
  explicit Scene(std::uint64_t seed, PortSpace space = PortSpace::kTcp)
      : world(seed),
        a(world.add_host()),
        b(world.add_host()),
        client(a, kChannel, space),
        server(b, kChannel, space) {
    EXPECT_EQ(client.connect(b.ports.default_port_address()), 0);
  }

  void run() {
    if (!a.dead) client.run(world.now);
    if (!b.dead) server.run(world.now);
  }
  bool step(TimeNs until) {
    run();
    const bool goes_on = world.step(until);
    run();
    return goes_on;
  }
  // Runs until the client has finished. False: it would wait for ever.
  bool finish() {
    const TimeNs end = world.now + kLongest;
    while (!client.finished) {
      if (!step(end)) {
        client.run(world.now);
        break;
      }
    }
    return client.finished;
  }
  // Ends both programs, whatever they hold, and expects that nothing is left.
  void expect_nothing_remains() {
    world.network = nullptr;
    a.cm.close_channel(world.now, kChannel);
    b.cm.close_channel(world.now, kChannel);
    while (world.step()) {
    }
    EXPECT_EQ(a.cm.agent().size(), 0u);
    EXPECT_EQ(b.cm.agent().size(), 0u);
    EXPECT_EQ(a.cm.ids() + b.cm.ids(), 0u);
    EXPECT_TRUE(world.is_consistent());
  }

  World world;
  Host& a;
  Host& b;
  Client client;
  Server server;
};

inline std::uint16_t attribute_of(const Flight& flight) {
  return static_cast<std::uint16_t>(flight.mad.bytes[16] << 8 | flight.mad.bytes[17]);
}

template <typename M>
std::vector<Field> fields_of() {
  std::vector<Field> all;
  M message;
  M::visit(message, [&](auto&, const Field& f) { all.push_back(f); });
  return all;
}

// Says which bits of a field are inverted: all, the first, or the last.
enum class Turned { kAll, kFirst, kLast };
inline constexpr Turned kEachTurn[] = {Turned::kAll, Turned::kFirst, Turned::kLast};

inline void corrupt(MadBytes& mad, const Field& f, Turned turned) {
  const std::span body = std::span(mad).subspan(kMadHeaderSize);
  const std::size_t end = f.first_bit() + f.width;
  const std::size_t from = turned == Turned::kLast ? end - 1 : f.first_bit();
  const std::size_t to = turned == Turned::kFirst ? from + 1 : end;
  for (std::size_t bit = from; bit < to; ++bit) {
    body[bit / 8] = static_cast<std::uint8_t>(body[bit / 8] ^ (0x80u >> bit % 8));
  }
}

}  // namespace verbena::cm::sim
