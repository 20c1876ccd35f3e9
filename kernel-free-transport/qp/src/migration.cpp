// SPDX-License-Identifier: BSD-2-Clause
// Automatic path migration (IBTA Vol 1, 17.2.8). Both ends load an alternate path and REARM; when
// each has heard the other's wish (packets without the migrated bit) they are ARMED. The end whose
// retries are used up moves to the alternate path and says so in every packet; the other follows.
//
//   MIGRATED --REARM by the program--> REARM --peer rearmed, too--> ARMED --failure or peer-->
//   MIGRATED
#include "verbena/qp/queue_pair.hpp"

namespace verbena::qp {

bool QueuePair::comes_from_peer(const wire::RxDatagram& datagram) const {
  if (endpoint_.transport == Transport::kUd) return true;
  if (datagram.source == endpoint_.destination.address) {
    // Other processes may answer for an XRC queue pair, each on its own path.
    const bool is_xrc =
        endpoint_.transport == Transport::kXrcSend || endpoint_.transport == Transport::kXrcReceive;
    return datagram.came_by_ring || is_xrc || !endpoint_.path->hears_by_ring(endpoint_.number);
  }
  return attributes_.migration == Migration::kArmed && attributes_.alternate.resolved &&
         datagram.source == attributes_.alternate.destination.address;
}

void QueuePair::take_migration_state() {
  endpoint_.migrated = attributes_.migration == Migration::kMigrated;
  endpoint_.alternate_armed = attributes_.migration == Migration::kArmed;
}

void QueuePair::follow_migration(const wire::PacketView& packet) {
  if (attributes_.migration == Migration::kRearm && !packet.bth.migreq) {
    attributes_.migration = Migration::kArmed;
    take_migration_state();
  } else if (attributes_.migration == Migration::kArmed && packet.bth.migreq) {
    migrate();
  }
}

void QueuePair::move_to_alternate() {
  attributes_.path = attributes_.alternate;
  attributes_.pkey_index = attributes_.alternate_pkey_index;
  attributes_.port = attributes_.alternate.port;
  if (attributes_.alternate_timeout != 0) attributes_.timeout = attributes_.alternate_timeout;
  attributes_.migration = Migration::kMigrated;
  take_migration_state();
  take_attributes(kMaskPath);
}

// Because a failure, the peer or the program wanted it; who learns of it by the event alone may
// have been told by none of these.
void QueuePair::migrate() {
  endpoint_.migration_wanted = false;
  move_to_alternate();
  endpoint_.events->on_async_event(queue::AsyncEvent::kPathMigrated, endpoint_.cookie);
}

}  // namespace verbena::qp
