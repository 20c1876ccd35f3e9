// SPDX-License-Identifier: BSD-2-Clause
// Every pattern of trouble on a short exchange: each of the first kPackets packets, in both
// directions, is lost or not (in other runs: repeated or not). That makes 2^n runs for each
// exchange. Every run must end well in bounded virtual time, with each operation done exactly once.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <ostream>

#include "pair.hpp"

namespace verbena::sim {
namespace {

using queue::CompletionOpcode;
using queue::Status;

constexpr unsigned kPackets = 10;
// Ten packets lost in a row cost two local ACK timeouts and some probes.
constexpr TimeNs kLongest = 2'000'000'000;

struct Exchange {
  const char* name;
  PeerOptions options;
  std::function<void(Pair&)> begin;
  std::size_t sends;     // completions on the left
  std::size_t receives;  // completions on the right
  std::function<void(Pair&)> expect = [](Pair&) {};
  std::function<void(Pair&)> each_step = [](Pair&) {};
};
std::ostream& operator<<(std::ostream& out, const Exchange& e) { return out << e.name; }

void expect_bytes(Arena& actual, Arena& expected, std::size_t at, std::size_t length) {
  expect_equal(actual.bytes().subspan(at, length), expected.bytes().subspan(at, length), "data");
}
void expect_zeros(Arena& arena, std::size_t from) {
  for (const std::uint8_t byte : arena.bytes().subspan(from)) {
    if (byte != 0) throw Failure("a byte that nobody wrote changed");
  }
}
std::uint64_t word(Arena& arena, std::size_t at = 0) {
  std::uint64_t value;
  std::memcpy(&value, arena.bytes().data() + at, 8);
  return value;
}
void expect_word(std::uint64_t actual, std::uint64_t expected, const char* what) {
  if (actual != expected) throw Failure(std::string(what) + " is " + std::to_string(actual));
}

Exchange send(const char* name, std::uint32_t length) {
  return {name,
          {},
          [length](Pair& p) {
            p.right.receive(1);
            p.left.post(p.left.send(1, length));
          },
          1,
          1,
          [length](Pair& p) {
            if (p.right.receives[0].byte_length != length) throw Failure("length");
            expect_bytes(p.right.inbox, p.left.source, 0, length);
            expect_zeros(p.right.inbox, length);
          }};
}

Exchange write(const char* name, std::uint32_t length, bool immediate) {
  return {name,
          {},
          [=](Pair& p) {
            p.right.receive(1);
            Request r = p.left.write(1, length, p.right);
            if (immediate) r.opcode = queue::WorkOpcode::kWriteImmediate;
            r.immediate = 0x01020304;
            p.left.post(r);
          },
          1,
          immediate ? 1u : 0u,
          [=](Pair& p) {
            expect_bytes(p.right.target, p.left.source, 0, length);
            expect_zeros(p.right.target, length);
            if (immediate && p.right.receives[0].immediate != 0x01020304)
              throw Failure("immediate");
          }};
}

Exchange read(const char* name, std::uint32_t length) {
  return {name,
          {},
          [length](Pair& p) {
            fill_pattern(p.right.target.bytes(), 5);
            p.left.post(p.left.read(1, length, p.right));
          },
          1,
          0,
          [length](Pair& p) {
            expect_bytes(p.left.result, p.right.target, 0, length);
            expect_zeros(p.left.result, length);
          }};
}

Exchange compare_swap() {
  return {"CMP_SWAP",
          {},
          [](Pair& p) {
            p.left.post(p.left.compare_swap(1, 0, 7, p.right));
            p.left.post(p.left.compare_swap(2, 0, 9, p.right));  // finds 7: changes nothing
          },
          2,
          0,
          [](Pair& p) {
            expect_word(word(p.right.target), 7, "the word");
            expect_word(word(p.left.result), 7, "the second result");
          }};
}

Exchange fetch_add() {
  return {"FETCH_ADD",
          {},
          [](Pair& p) {
            for (std::uint64_t i = 0; i < 6; ++i) {
              Request r = p.left.fetch_add(i + 1, 3, p.right);
              r.buffers[0].address += 8 * i;
              p.left.post(r);
            }
          },
          6,
          0,
          [](Pair& p) {
            expect_word(word(p.right.target), 18, "the word");
            for (std::uint64_t i = 0; i < 6; ++i)
              expect_word(word(p.left.result, 8 * i), 3 * i, "a result");
          }};
}

Exchange receiver_not_ready(const char* name, std::uint32_t length, bool immediate) {
  Exchange e = immediate ? write(name, length, true) : send(name, length);
  e.begin = [=](Pair& p) {
    Request r = immediate ? p.left.write(1, length, p.right) : p.left.send(1, length);
    if (immediate) r.opcode = queue::WorkOpcode::kWriteImmediate;
    r.immediate = 0x01020304;
    p.left.post(r);
  };
  e.each_step = [](Pair& p) {
    const bool posted = p.right.qp().receive_queue()->count() != 0 || !p.right.receives.empty();
    if (!posted && p.world.now() > 3'000'000 && p.right.qp().responder().message_count() == 0) {
      p.right.receive(1);
    }
  };
  return e;
}

Exchange read_then_send() {
  return {"pipelined READ and SEND",
          {},
          [](Pair& p) {
            fill_pattern(p.right.target.bytes(), 5);
            for (std::uint64_t i = 0; i < 3; ++i) p.right.receive(i, 1024, 1024 * i);
            p.left.post(p.left.read(1, 600, p.right));
            p.left.post(p.left.send(2, 300));
            p.left.post(p.left.fetch_add(3, 1, p.right));
            p.left.post(p.left.send(4, 10));
            Request fenced = p.left.send(5, 10);
            fenced.flags |= queue::kFence;
            p.left.post(fenced);
          },
          5,
          3,
          [](Pair& p) {
            for (std::size_t i = 8; i < 600; ++i) {
              if (p.left.result.bytes()[i] != pattern(5, i)) throw Failure("READ");
            }
            expect_bytes(p.right.inbox, p.left.source, 0, 300);
          }};
}

Exchange ping_pong() {
  return {"both ways at once",
          {},
          [](Pair& p) {
            for (std::uint64_t i = 0; i < 2; ++i) {
              p.left.receive(i, 1024, 1024 * i);
              p.right.receive(i, 1024, 1024 * i);
              p.left.post(p.left.send(i, 300));
              p.right.post(p.right.send(i, 300));
            }
          },
          2,
          2,
          [](Pair& p) {
            if (p.right.sends.size() != 2 || p.left.receives.size() != 2)
              throw Failure("the way back");
            expect_bytes(p.right.inbox, p.left.source, 0, 300);
            expect_bytes(p.left.inbox, p.right.source, 0, 300);
          },
          [](Pair&) {}};
}

Exchange flush_and_atomic_write() {
  return {"WRITE, FLUSH, ATOMIC_WRITE",
          {},
          [](Pair& p) {
            p.left.post(p.left.write(1, 300, p.right));
            Request flush = p.left.write(2, 0, p.right);
            flush.opcode = queue::WorkOpcode::kFlush;
            flush.buffers.clear();
            flush.flush_length = 300;
            flush.flush_placement = 1;
            p.left.post(flush);
            Request atomic = flush;
            atomic.id = 3;
            atomic.opcode = queue::WorkOpcode::kAtomicWrite;
            atomic.swap_or_add = 0x1122334455667788;
            p.left.post(atomic);
          },
          3,
          0,
          [](Pair& p) {
            expect_word(word(p.right.target), 0x1122334455667788, "the word");
            for (std::size_t i = 8; i < 300; ++i) {
              if (p.right.target.bytes()[i] != pattern(77, i)) throw Failure("WRITE");
            }
          }};
}

Exchange over_xrc() {
  Exchange e = send("SEND over XRC", 600);
  e.options.transport = Transport::kXrcSend;
  e.begin = [](Pair& p) {
    p.right.receive(1);
    Request r = p.left.send(1, 600);
    r.remote_srqn = p.right.srq()->number;
    p.left.post(r);
  };
  return e;
}

// Makes an exchange in which two packets become one where the path takes merged packets.
Exchange merged(const char* name, Exchange e, std::uint32_t how_often = 1'000'000) {
  e.name = name;
  e.begin = [begin = e.begin, how_often](Pair& p) {
    p.world.faults().merged = how_often;
    p.world.faults().merged_most = 600;
    begin(p);
  };
  return e;
}

// Makes an exchange in which packets that are sent at once arrive in one buffer.
Exchange in_runs(const char* name, Exchange e, std::uint32_t how_often = 1'000'000) {
  e.name = name;
  e.begin = [begin = e.begin, how_often](Pair& p) {
    p.world.faults().run = how_often;
    begin(p);
  };
  return e;
}

// Makes an exchange whose acknowledgements are piggybacked on the packets behind them.
Exchange piggybacked(const char* name, Exchange e, std::uint32_t how_often = 1'000'000) {
  e.name = name;
  e.begin = [begin = e.begin, how_often](Pair& p) {
    p.world.faults().piggybacked_ack = how_often;
    begin(p);
  };
  return e;
}

std::vector<Exchange> exchanges() {
  return {
      send("SEND of nothing", 0),
      send("SEND of one packet", 100),
      send("SEND of three", 600),
      write("WRITE of one packet", 100, false),
      write("WRITE of three", 600, false),
      write("WRITE with immediate", 600, true),
      read("READ of nothing", 0),
      read("READ of one packet", 100),
      read("READ of three", 600),
      compare_swap(),
      fetch_add(),
      receiver_not_ready("SEND before its receive", 100, false),
      receiver_not_ready("SEND of three before its receive", 600, false),
      receiver_not_ready("WRITE with immediate before its receive", 600, true),
      read_then_send(),
      ping_pong(),
      flush_and_atomic_write(),
      over_xrc(),
      merged("SEND merged", send("", 1300)),
      merged("SEND of three, merged before its receive", receiver_not_ready("", 600, false)),
      merged("WRITE merged", write("", 1300, false)),
      merged("WRITE with immediate, merged before its receive", receiver_not_ready("", 1024, true)),
      merged("SEND now and then merged", send("", 1300), 500'000),
      merged("WRITE with immediate, now and then merged", write("", 1300, true), 500'000),
      in_runs("SEND in runs", send("", 1300)),
      in_runs("SEND of three in runs before its receive", receiver_not_ready("", 600, false)),
      in_runs("WRITE in runs", write("", 1300, false)),
      in_runs("WRITE with immediate in runs", write("", 1300, true)),
      in_runs("READ in runs", read("", 1300)),
      in_runs("SEND over XRC in runs", over_xrc()),
      in_runs("SEND now and then in runs", send("", 1300), 500'000),
      in_runs("WRITE now and then in runs", write("", 1300, false), 500'000),
      piggybacked("ping-pong with piggybacked acks", ping_pong()),
      piggybacked("ping-pong with piggybacked acks now and then", ping_pong(), 500'000)};
}

enum class Trouble { kLost, kRepeated };

void play(const Exchange& exchange, unsigned pattern_bits, Trouble trouble) {
  PeerOptions right = exchange.options;
  right.transport = other_end(right.transport);
  Pair pair(exchange.options, right, 1 + pattern_bits);
  unsigned packet = 0;
  pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
    const bool hit = packet < kPackets && (pattern_bits >> packet & 1) != 0;
    ++packet;
    if (hit && trouble == Trouble::kRepeated) {
      pair.world.inject(1 - from.index(), from.address(), pair.world.seen());
    }
    return !hit || trouble == Trouble::kRepeated;
  };
  exchange.begin(pair);
  const bool both_ways = exchange.sends == exchange.receives && exchange.sends == 2;
  const bool done = pair.run_until(
      [&] {
        exchange.each_step(pair);
        return pair.left.sends.size() >= exchange.sends &&
               pair.right.receives.size() >= exchange.receives &&
               (!both_ways || (pair.right.sends.size() >= 2 && pair.left.receives.size() >= 2));
      },
      kLongest);
  if (!done) throw Failure("not done in time");
  pair.run(200'000'000);  // late packets do no harm
  if (pair.left.sends.size() != exchange.sends || pair.right.receives.size() != exchange.receives) {
    throw Failure("more completions than requests");
  }
  for (const auto* list : {&pair.left.sends, &pair.right.receives}) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if ((*list)[i].status != Status::kSuccess)
        throw Failure(std::string(to_string((*list)[i].status)));
      if (i != 0 && (*list)[i].id <= (*list)[i - 1].id) throw Failure("out of order");
    }
  }
  exchange.expect(pair);
  for (const Peer* peer : {&pair.left, &pair.right}) {
    for (const Arena* arena : {&peer->source, &peer->result, &peer->inbox, &peer->target}) {
      arena->expect_guards();
    }
  }
}

class Patterns : public testing::TestWithParam<Exchange> {};

TEST_P(Patterns, OfLossAreAllSurvived) {
  for (unsigned bits = 0; bits < 1u << kPackets; ++bits) {
    ASSERT_NO_THROW(play(GetParam(), bits, Trouble::kLost)) << "pattern " << bits;
  }
}

TEST_P(Patterns, OfRepetitionAreAllSurvived) {
  for (unsigned bits = 0; bits < 1u << kPackets; ++bits) {
    ASSERT_NO_THROW(play(GetParam(), bits, Trouble::kRepeated)) << "pattern " << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(Exchanges, Patterns, testing::ValuesIn(exchanges()),
                         [](const auto& instance) {
                           std::string name;
                           for (const char c : std::string(instance.param.name)) {
                             if (std::isalnum(static_cast<unsigned char>(c))) name += c;
                           }
                           return name;
                         });

}  // namespace
}  // namespace verbena::sim
