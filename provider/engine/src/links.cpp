// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/engine/links.hpp"

#include <utility>
#include <vector>

#include "verbena/report/explain.hpp"

namespace verbena::provider {

void Links::open(Options&& options, PortCounters& counters) {
  std::vector<int> senders;
  for (control::UniqueFd& sender : options.senders) senders.push_back(sender.release());
  const IpAddress& address = options.self.address;
  auto udp = link::UdpLink::open(options.receiver.release(), address, options.udp, counters.drops,
                                 senders);
  if (!udp) refuse(udp.error().error, "ibv_open_device: %s", udp.error().text.c_str());
  auto peers = std::make_unique<link::PeerLink>(std::move(*udp), options.self, counters.drops,
                                                counters.ring_packets.data());
  peers_ = peers.get();
  peers_->set_packs(link::Packs::kMerged);
  auto capture = std::make_unique<link::CaptureLink>(std::move(peers), address);
  capture_ = capture.get();
  auto lines = options.lines ? std::move(options.lines) : std::make_shared<link::SlowLines>();
  faults_ = std::make_unique<link::FaultLink>(std::move(capture), options.program, counters.drops,
                                              &link::monotonic_now_ns, std::move(lines));
}

}  // namespace verbena::provider
