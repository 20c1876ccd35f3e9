// SPDX-License-Identifier: BSD-2-Clause
// Events of completion queues: an armed queue reports completions that came before it was armed and
// were not polled, and a sleeper that has armed its queues is woken.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "ends.hpp"

namespace ends {
namespace {

void block_no_more(const End& end) {
  const int flags = ::fcntl(end.channel->fd, F_GETFL);
  MUST(::fcntl(end.channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

void arm(ibv_cq* cq) { MUST(ibv_req_notify_cq(cq, 0) == 0); }

}  // namespace

// Waits as in tutorials: an event, arming again, one completion. Meanwhile the peer sends bursts.
void one_completion_for_each_event(End& end) {
  const std::uint32_t all = end.options.rounds;
  if (end.is_client) {
    for (std::uint32_t sent = 0; sent < all;) {
      const std::uint32_t burst = 1 + sent % 5;
      std::uint32_t posted = 0;
      for (; posted < burst && sent < all; ++posted, ++sent) end.post_send(sent, true, 8);
      ibv_wc wc{};
      for (; posted != 0; --posted) MUST(poll_until(end.send_cq, wc));
      if (sent % 7 == 0) ::usleep(200);
    }
    return;
  }
  arm(end.receive_cq);
  for (std::uint32_t got = 0; got < all;) {
    if (!end.await_event(end.options.blocks)) {
      std::printf("no event after %u completions of %u\n", got, all);
      std::exit(1);
    }
    arm(end.receive_cq);
    ibv_wc wc{};
    const int count = ibv_poll_cq(end.receive_cq, 1, &wc);
    MUST(count >= 0);
    if (count == 0) continue;
    MUST(wc.status == IBV_WC_SUCCESS);
    end.post_receive(wc.wr_id);
    ++got;
  }
  std::printf("%u completions\n", all);
}

// Waits as UCX does: polls until nothing is there, arms its queues, reads the events that arming
// has raised, and sleeps on the channel's descriptor without polling again.
void armed_sleepers_wake(End& end) {
  block_no_more(end);
  const std::uint32_t all = end.options.rounds;
  std::uint32_t received = 0;
  std::uint32_t sent = 0;
  const auto progress = [&] {
    std::uint32_t found = 0;
    ibv_wc wc{};
    for (ibv_cq* cq : {end.send_cq, end.receive_cq}) {
      while (ibv_poll_cq(cq, 1, &wc) == 1) {
        MUST(wc.status == IBV_WC_SUCCESS);
        ++found;
        if (wc.opcode != IBV_WC_RECV) continue;
        end.post_receive(wc.wr_id);
        ++received;
      }
    }
    return found;
  };
  const auto send = [&] {
    ++sent;
    end.post_send(sent, sent % 8 == 0, end.options.size);
  };
  std::uint32_t sleeps = 0;
  while (received < all) {
    // The client sends first, and each side answers what it has received.
    if (sent < (end.is_client ? received + 1 : received)) {
      send();
      continue;
    }
    if (progress() != 0 || end.take_events() != 0) continue;
    arm(end.send_cq);
    arm(end.receive_cq);
    pollfd readable{end.channel->fd, POLLIN, 0};
    ++sleeps;
    if (::poll(&readable, 1, kPatienceMs) == 1) continue;
    std::printf("%s: nobody woke it after %u messages of %u; then %u completions were there\n",
                end.is_client ? "client" : "server", received, all, progress());
    std::exit(1);
  }
  while (sent < all) send();
  if (end.is_client) std::printf("%u messages, %u sleeps\n", received, sleeps);
}

// Checks a fixed order of calls: an unpolled completion raises an event as soon as the queue is
// armed, if it matches (solicited or any). After an event, it raises another only for the second
// arming without a poll.
void unpolled_completions_tell(End& end) {
  if (end.is_client) {
    end.post_send(1, true, 8);
    ibv_wc wc{};
    MUST(poll_until(end.send_cq, wc));
    end.meet();
    end.meet();
    return;
  }
  end.meet();  // then one message has come and was acknowledged
  block_no_more(end);
  pollfd readable{end.channel->fd, POLLIN, 0};
  MUST(ibv_req_notify_cq(end.receive_cq, 1) == 0);
  std::printf("solicited: %s\n", ::poll(&readable, 1, 0) == 1 ? "told" : "quiet");
  for (int i = 0; i < 3; ++i) {
    arm(end.receive_cq);
    std::printf("any: %s\n", ::poll(&readable, 1, 0) == 1 ? "told" : "quiet");
    std::printf("events: %u\n", end.take_events());
  }
  ibv_wc wc{};
  MUST(poll_until(end.receive_cq, wc));
  arm(end.receive_cq);
  std::printf("none: %s\n", ::poll(&readable, 1, 0) == 1 ? "told" : "quiet");
  std::fflush(stdout);
  end.meet();
}

}  // namespace ends
