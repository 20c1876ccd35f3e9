// SPDX-License-Identifier: BSD-2-Clause
// What a program writes to the rdma_cm descriptor: a stream of commands on two channels, most of
// them with IDs that exist. Input: for each command a byte for the command, one for channel and ID,
// one for the length of the body, and then the body.
#include <algorithm>
#include <cstring>

#include "../../sim/cm/cm_programs.hpp"
#include "verbena/base/check.hpp"

using namespace verbena;
using namespace verbena::cm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sim::World world(1);
  sim::Host& host = world.add_host();
  host.cm.open_channel(1);
  host.cm.open_channel(2);
  IdHandle ids[4] = {};
  for (IdHandle& id : ids) {
    const std::uint16_t space = &id == ids ? 0x111 : 0x106;
    host.cm.create_id(1, 1, space, 0, id);
  }
  for (std::size_t at = 0; at + 3 <= size;) {
    const std::uint32_t command = data[at] % 26;
    const std::uint8_t choice = data[at + 1];
    const std::size_t length = std::min<std::size_t>(size - at - 3, data[at + 2] * 2u);
    std::vector<std::uint8_t> bytes(8 + length);
    const auto in = static_cast<std::uint16_t>(length);
    const std::uint16_t room = (choice & 0x40) != 0 ? 400 : 4;
    std::memcpy(bytes.data(), &command, 4);
    std::memcpy(bytes.data() + 4, &in, 2);
    std::memcpy(bytes.data() + 6, &room, 2);
    std::copy_n(data + at + 3, length, bytes.begin() + 8);
    // The offsets at which the commands have their ID.
    const std::size_t places[] = {8, 16, 24, 8 + 272, 8 + 280, 8 + 36, 8 + 56};
    const std::size_t place = places[(choice >> 2 & 7) % 7];
    if (place + 4 <= bytes.size()) std::memcpy(bytes.data() + place, &ids[choice & 3], 4);
    const ChannelId channel = (choice & 0x80) != 0 ? 2 : 1;
    const UcmaReply reply =
        host.ucma.execute(world.now, channel, bytes, std::span(bytes).first(4), 3 - channel);
    VERBENA_CHECK(reply.response.size() <= room);
    at += 3 + length;
    world.step(world.now + sim::kMillisecond);
    VERBENA_CHECK(world.is_consistent());
  }
  host.cm.close_channel(world.now, 1);
  host.cm.close_channel(world.now, 2);
  while (world.step()) {
  }
  VERBENA_CHECK(host.cm.ids() == 0 && host.cm.agent().size() == 0);
  return 0;
}
