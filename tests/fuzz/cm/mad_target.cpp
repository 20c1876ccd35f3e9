// SPDX-License-Identifier: BSD-2-Clause
// Any datagrams to a host with a listener, while a client is half-way: the books stay right, and
// both come to an end. Input: the first byte says how far the client is. Then come datagrams, each
// a byte that says what to do and up to 63 bytes, which replace bytes of the last datagram sent.
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
  // The last datagram that was sent. The input changes its bytes.
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
