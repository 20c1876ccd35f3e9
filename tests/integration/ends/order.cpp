// SPDX-License-Identifier: BSD-2-Clause
// The client sees that its request is done no later than it gets the server's answer.
#include "ends.hpp"

namespace ends {
namespace {

// Counts the completions of the client: of its requests, and of the answers.
struct Seen {
  std::uint32_t sent = 0;
  std::uint32_t answered = 0;
  std::uint32_t late = 0;  // answers that completed before their request

  void take(const ibv_wc& wc) {
    MUST(wc.status == IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_SEND) {
      ++sent;
      return;
    }
    ++answered;
    if (sent < answered) ++late;
  }
};

// Polls at most `most` completions.
int look(ibv_cq* cq, ibv_wc* wc, int most) {
  const int got = ibv_poll_cq(cq, most, wc);
  MUST(got >= 0);
  return got;
}

void ask(End& end) {
  const Options& o = end.options;
  Seen seen;
  for (std::uint32_t round = 0; round < o.rounds; ++round) {
    const std::uint32_t goal = (round + 1) * o.at_once;
    for (std::uint32_t i = 0; i < o.at_once; ++i) end.post_send(i, true, o.size);
    while (seen.answered < goal) {
      ibv_wc wc[16];
      const int got = look(end.receive_cq, wc, 16);
      // With separate queues the answers are here already, so their requests must have completed.
      if (got > 0 && !o.one_cq) {
        ibv_wc done[16];
        const int there = look(end.send_cq, done, 16);
        for (int i = 0; i < there; ++i) seen.take(done[i]);
      }
      for (int i = 0; i < got; ++i) {
        seen.take(wc[i]);
        if (wc[i].opcode == IBV_WC_RECV) end.post_receive(wc[i].wr_id);
      }
    }
    while (seen.sent < goal) {
      ibv_wc wc{};
      MUST(poll_until(end.send_cq, wc));
      seen.take(wc);
    }
  }
  std::printf("late %u of %u\n", seen.late, o.rounds * o.at_once);
}

void answer(End& end) {
  const Options& o = end.options;
  const std::uint32_t all = o.rounds * o.at_once;
  std::uint32_t answered = 0;
  while (answered < all) {
    if (o.server_sleeps) {
      MUST(ibv_req_notify_cq(end.receive_cq, 0) == 0);
      MUST(end.await_event(true));
    }
    for (ibv_wc wc{}; answered < all && look(end.receive_cq, &wc, 1) == 1;) {
      MUST(wc.status == IBV_WC_SUCCESS);
      if (wc.opcode != IBV_WC_RECV) continue;
      end.post_receive(wc.wr_id);
      ++answered;
      end.post_send(answered, answered % 16 == 0, o.size);  // most sends are unsignaled
    }
    for (ibv_wc wc{}; end.send_cq != end.receive_cq && look(end.send_cq, &wc, 1) == 1;) {
      MUST(wc.status == IBV_WC_SUCCESS);
    }
  }
}

}  // namespace

void answers_follow_completions(End& end) { end.is_client ? ask(end) : answer(end); }

}  // namespace ends
