// Payloads that stay with their sender and may be withdrawn there: what the witness says, and that it
// is right however the two meet.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "verbena/link/peer_memory.hpp"
#include "verbena/memory/registry.hpp"

namespace verbena::link::test {
namespace {

constexpr std::size_t kLength = 20'000;

std::uint8_t pattern(std::size_t i) { return static_cast<std::uint8_t>(i * 31 + i / 251); }

class WitnessTest : public ::testing::Test {
 protected:
  WitnessTest() {
    for (std::size_t i = 0; i < kLength; ++i) memory_[i] = pattern(i);
    const int fd = SharedRing::create().value();
    ring_ = SharedRing::map(fd).value();
    ::close(fd);
    ring_->let_writer_be_read();
    peer_ = PeerMemory::reach(*ring_, static_cast<std::uint32_t>(::getpid()));
  }
  bool fetch(const void* from, std::uint64_t expected) {
    const wire::FetchTarget target{bytes_.data(), bytes_.size()};
    const wire::MemoryRange range{reinterpret_cast<std::uintptr_t>(from), bytes_.size()};
    const auto word = reinterpret_cast<std::uintptr_t>(&word_);
    return peer_->fetch({&target, 1}, {&range, 1}, {word, expected});
  }
  bool fetch(std::uint64_t expected) { return fetch(memory_.data(), expected); }

  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory_.data()); }

  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(kLength);
  std::optional<SharedRing> ring_;
  std::unique_ptr<PeerMemory> peer_;
  std::uint64_t word_ = 17;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(kLength);
};

TEST_F(WitnessTest, SaysThatMemoryIsWhatItWas) {
  ASSERT_NE(peer_, nullptr);
  EXPECT_TRUE(fetch(17));
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.end(), memory_.begin()));
}

TEST_F(WitnessTest, ThatChangedSpoilsOnePayloadAndNoOther) {
  ASSERT_NE(peer_, nullptr);
  word_ = 18;
  EXPECT_FALSE(fetch(17));
  EXPECT_FALSE(peer_->is_lost());
  EXPECT_TRUE(fetch(18));
}

TEST_F(WitnessTest, TellsWithdrawnMemoryThatIsGoneFromMemoryThatCannotBeRead) {
  ASSERT_NE(peer_, nullptr);
  void* const gone = ::mmap(nullptr, kLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(fetch(gone, 16));
  EXPECT_FALSE(peer_->is_lost());
  EXPECT_TRUE(fetch(17));
  EXPECT_FALSE(fetch(gone, 17));
  EXPECT_TRUE(peer_->is_lost());
  EXPECT_FALSE(fetch(17));
  ::munmap(gone, kLength);
}

TEST_F(WitnessTest, IsLookedAtOnlyInTheRightProcess) {
  ASSERT_NE(peer_, nullptr);
  ring_.reset();  // as if another process had got the number
  EXPECT_FALSE(fetch(16));
  EXPECT_TRUE(peer_->is_lost());
}

struct Mapped final : memory::MemoryPort {
  bool read(void*, std::uint64_t, std::size_t) noexcept override { return false; }
  bool write(std::uint64_t, const void*, std::size_t) noexcept override { return false; }
  bool is_mapped(std::uint64_t, std::size_t, bool) noexcept override { return true; }
};

// The owner scribbles over its memory as soon as it is withdrawn, again and again.
TEST_F(WitnessTest, NeverVouchesForWhatWasWithdrawn) {
  ASSERT_NE(peer_, nullptr);
  Mapped port;
  memory::Registry registry(port);
  memory::RegionRequest region;
  region.host_address = region.base = address();
  region.length = kLength;
  region.access = memory::kRemoteRead;
  Published<std::uint32_t> offered{0};
  std::jthread owner([&](const std::stop_token& stop) {
    int round = 0;
    // Processors of their own or one for both: the other has its turn.
    const auto pause = [&round] {
      if (++round % 4 == 0) return std::this_thread::yield();
      for (int i = round % 512; i > 0; --i) cpu_relax();
    };
    while (!stop.stop_requested()) {
      const std::uint32_t key = *registry.register_region(region);
      offered.publish(key);
      pause();
      EXPECT_TRUE(registry.deregister(key).ok());
      std::memset(memory_.data(), 0xee, kLength);
      if (round % 2 == 0) pause();
      for (std::size_t i = 0; i < kLength; ++i) memory_[i] = pattern(i);
    }
  });
  int good = 0;
  int refused = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((good < 500 || refused < 500) && std::chrono::steady_clock::now() < end) {
    wire::Witness witness;
    {
      // As a responder does: the edition while it is pinned, the data when nothing is.
      const std::uint32_t key = offered.read();
      const auto pin = registry.pin({key, 0, address(), kLength, memory::kRemoteRead});
      if (!pin.ok()) {
        std::this_thread::yield();
        continue;
      }
      const memory::Registry::Edition edition = registry.edition_of(key);
      witness = {edition.address, edition.value};
    }
    // On its way.
    if (good > refused) std::this_thread::yield();
    const wire::FetchTarget target{bytes_.data(), bytes_.size()};
    const wire::MemoryRange range{address(), bytes_.size()};
    if (!peer_->fetch({&target, 1}, {&range, 1}, witness)) {
      ++refused;
      continue;
    }
    ++good;
    for (std::size_t i = 0; i < bytes_.size(); ++i) ASSERT_EQ(bytes_[i], pattern(i)) << i;
  }
  EXPECT_FALSE(peer_->is_lost());
  EXPECT_GE(good, 500);
  EXPECT_GE(refused, 500);
}

}  // namespace
}  // namespace verbena::link::test
