// SPDX-License-Identifier: BSD-2-Clause
// Datagrams from anywhere to a host with a listener and a client half-way: whatever arrives, the
// books stay right and both come to an end. Input: first byte, how far the client is; then
// datagrams, each a byte that says what to do and up to 256 bytes laid over an answer that fits.
#include <algorithm>
#include <cstring>

#include "../../sim/cm/cm_programs.hpp"
#include "verbena/base/check.hpp"

using namespace verbena;
using namespace verbena::cm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  sim::World world(1);
  sim::Host& a = world.add_host();
  sim::Host& b = world.add_host();
  sim::Server server(b, 1);
  sim::Client client(a, 1);
  client.hangs_up = false;
  client.connect(b.ports.default_port_address());
  for (int i = data[0] % 16; i > 0; --i) {
    client.run(world.now);
    server.run(world.now);
    world.step(world.now + sim::kMillisecond);
  }
  // The last datagram that was sent, as the ground that the input changes.
  MadBytes last{};
  world.network = [&](const sim::Flight& f) {
    last = f.mad.bytes;
    return std::vector<sim::Flight>{f};
  };
  for (std::size_t at = 1; at < size;) {
    const std::uint8_t action = data[at++];
    const std::size_t n = std::min<std::size_t>(size - at, action & 0x3f);
    sim::Host& to = (action & 0x40) != 0 ? a : b;
    const sim::Host& from = (action & 0x40) != 0 ? b : a;
    MadBytes bytes = last;
    std::memcpy(bytes.data() + (n < 64 ? kMadHeaderSize - 8 : 0), data + at, n);
    at += n;
    to.cm.handle_mad(world.now, 1, from.ports.default_port_address(),
                     (action & 0x80) != 0 ? std::span(bytes).first(n) : std::span(bytes));
    client.run(world.now);
    server.run(world.now);
    world.step(world.now + sim::kMillisecond);
    VERBENA_CHECK(world.is_consistent());
  }
  world.network = nullptr;
  a.cm.close_channel(world.now, 1);
  b.cm.close_channel(world.now, 1);
  while (world.step()) {
  }
  VERBENA_CHECK(a.cm.agent().size() == 0 && b.cm.agent().size() == 0);
  return 0;
}
