// SPDX-License-Identifier: BSD-2-Clause
// Requests through one XRC receive queue pair to SRQs and memory of several processes, in random
// order over a lossy wire. The owner that was meant carries out each request once.
#include <cstring>
#include <map>

#include "shared_domain.hpp"
#include "steps.hpp"
#include "verbena/base/random.hpp"

namespace verbena::sim::relay {
namespace {

constexpr std::uint32_t kSlot = 640;
constexpr std::uint32_t kOperations = 48;
constexpr std::size_t kCounter = Peer::kMemory - 8;
constexpr std::size_t kWritten = 0;
constexpr std::size_t kToRead = Peer::kMemory / 2;  // where READs read
constexpr std::uint32_t kHalfSlot = 330;
static_assert(kOperations * kSlot <= Peer::kMemory - 8);

enum class Kind : std::uint8_t { kSend, kWrite, kRead, kAdd };

struct Operation {
  Kind kind;
  std::size_t owner;
  std::uint32_t length;
  std::uint32_t n;
};

std::size_t slot(const Operation& o) { return std::size_t{o.n} * kSlot; }
std::size_t half_slot(const Operation& o) { return std::size_t{o.n} * kHalfSlot; }

Request request_of(SharedDomain& s, const Operation& o) {
  Peer& owner = s.owner(o.owner);
  switch (o.kind) {
    case Kind::kSend:
      return s.to(o.owner, s.sender.send(o.n, o.length, slot(o)));
    case Kind::kWrite: {
      Request r = s.sender.write(o.n, o.length, owner, slot(o));
      r.remote_address = owner.target.address(kWritten + half_slot(o));
      return s.to(o.owner, r);
    }
    case Kind::kRead: {
      Request r = s.sender.read(o.n, o.length, owner, slot(o));
      r.remote_address = owner.target.address(kToRead + half_slot(o));
      return s.to(o.owner, r);
    }
    case Kind::kAdd:
      break;
  }
  Request r = s.sender.fetch_add(o.n, 1 + o.n, owner);
  r.buffers[0].address = s.sender.result.address(slot(o));
  r.remote_address = owner.target.address(kCounter);
  return s.to(o.owner, r);
}

std::vector<Operation> draw(Random& random) {
  std::vector<Operation> all;
  for (std::uint32_t n = 0; n < kOperations; ++n) {
    const auto kind = static_cast<Kind>(random.below(4));
    const std::uint32_t longest = kind == Kind::kSend ? kSlot : kHalfSlot;
    all.push_back({kind, random.below(SharedDomain::kOwners),
                   static_cast<std::uint32_t>(1 + random.below(longest)), n});
  }
  return all;
}

void expect_equal(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b,
                  std::uint32_t length, std::uint32_t n) {
  EXPECT_EQ(std::memcmp(a.data(), b.data(), length), 0) << "operation " << n;
}

// Each operation had the right effect at its owner, once and in the owner's order.
void judge(SharedDomain& s, const std::vector<Operation>& all) {
  std::map<std::size_t, std::size_t> received;
  std::map<std::size_t, std::uint64_t> counters;
  ASSERT_EQ(s.sender.sends.size(), all.size());
  for (const Operation& o : all) {
    EXPECT_EQ(s.sender.sends[o.n].id, o.n);
    EXPECT_EQ(s.sender.sends[o.n].status, Status::kSuccess) << "operation " << o.n;
    Peer& owner = s.owner(o.owner);
    const auto source = s.sender.source.bytes().subspan(slot(o));
    const auto result = s.sender.result.bytes().subspan(slot(o));
    switch (o.kind) {
      case Kind::kSend: {
        const std::size_t k = received[o.owner]++;
        ASSERT_LT(k, owner.receives.size());
        const queue::Completion& c = owner.receives[k];
        EXPECT_EQ(c.status, Status::kSuccess);
        EXPECT_EQ(c.byte_length, o.length);
        EXPECT_EQ(c.qpn, s.receiver.qp().number().value());
        EXPECT_EQ(c.source_qpn, s.sender.qp().number().value());
        expect_equal(owner.inbox.bytes().subspan(c.id * kSlot), source, o.length, o.n);
        break;
      }
      case Kind::kWrite:
        expect_equal(owner.target.bytes().subspan(kWritten + half_slot(o)), source, o.length, o.n);
        break;
      case Kind::kRead:
        expect_equal(owner.target.bytes().subspan(kToRead + half_slot(o)), result, o.length, o.n);
        break;
      case Kind::kAdd: {
        std::uint64_t was;
        std::memcpy(&was, result.data(), 8);
        EXPECT_EQ(was, counters[o.owner]) << "operation " << o.n;
        counters[o.owner] += 1 + o.n;
        break;
      }
    }
  }
  for (std::size_t i = 0; i < SharedDomain::kOwners; ++i) {
    std::uint64_t counter;
    std::memcpy(&counter, s.owner(i).target.bytes().data() + kCounter, 8);
    EXPECT_EQ(counter, counters[i]);
    EXPECT_EQ(s.owner(i).receives.size(), received[i]);
    s.owner(i).target.expect_guards();
    s.owner(i).inbox.expect_guards();
  }
}

struct Weather {
  const char* name;
  std::uint32_t drop, duplicate, reorder;
};
constexpr Weather kWeathers[] = {{"calm", 0, 0, 0},
                                 {"loss", 20'000, 0, 0},
                                 {"duplicates", 0, 50'000, 0},
                                 {"disorder", 0, 0, 50'000},
                                 {"storm", 40'000, 20'000, 20'000}};

void play(std::uint64_t seed) {
  const Weather& weather = kWeathers[seed % std::size(kWeathers)];
  SCOPED_TRACE(testing::Message() << weather.name << ", seed " << seed);
  PeerOptions options;
  options.timeout = 10;
  options.max_rd_atomic = options.max_dest_rd_atomic = static_cast<std::uint8_t>(1 + seed % 4);
  SharedDomain s(options, seed);
  Random random(seed * 77 + 3);
  s.world.faults().drop = weather.drop;
  s.world.faults().duplicate = weather.duplicate;
  s.world.faults().reorder = weather.reorder;
  s.world.faults().reorder_delay = 50'000;
  const std::vector<Operation> all = draw(random);
  std::vector<std::uint32_t> posted(SharedDomain::kOwners);
  for (std::size_t i = 0; i < SharedDomain::kOwners; ++i) {
    fill_pattern(s.owner(i).target.bytes().subspan(kToRead, kOperations * kHalfSlot - 8), seed + i);
    std::memset(s.owner(i).target.bytes().data() + kCounter, 0, 8);
  }
  std::size_t sent = 0;
  const auto post_some = [&] {
    while (sent < all.size() && random.below(4) != 0) {
      if (s.sender.post(request_of(s, all[sent])) != requester::Posted::kOk) break;
      ++sent;
    }
    // Receives sometimes come late, so the owner is not ready.
    for (std::size_t i = 0; i < SharedDomain::kOwners; ++i) {
      if (posted[i] < kOperations && random.below(3) == 0) {
        ASSERT_TRUE(s.owner(i).receive(posted[i], kSlot, posted[i] * kSlot));
        ++posted[i];
      }
    }
  };
  ASSERT_TRUE(s.run_until(
      [&] {
        post_some();
        return s.sender.sends.size() == all.size();
      },
      60'000'000'000))
      << s.sender.sends.size() << " of " << all.size();
  s.run(50'000'000);
  judge(s, all);
  EXPECT_EQ(s.receiver.state(), qp::State::kRts);
}

// Each test plays some seeds. Failures name the seed.
class Relays : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Relays, LetEachOwnerCarryOutItsOwnOnceAndInOrder) {
  constexpr std::uint64_t kSeeds = 100;
  for (std::uint64_t i = 0; i < kSeeds && !HasFailure(); ++i) play(GetParam() * kSeeds + i);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Relays, testing::Range<std::uint64_t>(0, 10));

}  // namespace
}  // namespace verbena::sim::relay
