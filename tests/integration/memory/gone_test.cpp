// SPDX-License-Identifier: BSD-2-Clause
// Registered memory that is gone: unmapped, protected, or cut off with its file. Using it gives an
// error on the side that owned it, and the process lives: an adapter, which has pinned the pages,
// does not kill a process either. One process has two devices, with the link that VERBENA_LINK
// names.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>

#include "side.hpp"

namespace memory_test {
namespace {

enum class Fate { kUnmapped, kProtected, kCutOff };

const char* name_of(Fate fate) {
  return fate == Fate::kUnmapped ? "Unmapped" : fate == Fate::kProtected ? "Protected" : "CutOff";
}

// A mapping of a file, which can be unmapped, protected or cut off.
class Block {
 public:
  explicit Block(std::size_t length) : length_(length) {
    file_ = static_cast<int>(::memfd_create("block", 0));
    EXPECT_EQ(::ftruncate(file_, static_cast<off_t>(length)), 0);
    bytes_ =
        static_cast<char*>(::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
    EXPECT_NE(bytes_, MAP_FAILED);
    std::memset(bytes_, 'x', length);
  }
  ~Block() {
    if (!is_unmapped_) ::munmap(bytes_, length_);
    ::close(file_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  char* bytes() const { return bytes_; }
  std::size_t length() const { return length_; }
  void meet(Fate fate) {
    switch (fate) {
      case Fate::kUnmapped:
        is_unmapped_ = true;
        ASSERT_EQ(::munmap(bytes_, length_), 0);
        return;
      case Fate::kProtected:
        ASSERT_EQ(::mprotect(bytes_, length_, PROT_NONE), 0);
        return;
      case Fate::kCutOff:
        ASSERT_EQ(::ftruncate(file_, 0), 0);
        return;
    }
  }

 private:
  std::size_t length_;
  int file_;
  char* bytes_;
  bool is_unmapped_ = false;
};

using Case = std::tuple<Fate, std::uint32_t>;

class Gone : public testing::TestWithParam<Case> {
 protected:
  // Registers the block. The side deregisters it after it has destroyed its queue pairs.
  ibv_mr* add(Side& side, const Block& block) { return side.add(block.bytes(), block.length()); }
  void lose(Block& block) { block.meet(std::get<0>(GetParam())); }
  std::uint32_t length() const { return std::get<1>(GetParam()); }
  std::size_t block_length() const { return (length() + 4095) / 4096 * 4096; }

  // Expects that the plugin has named the region, and said that it is gone.
  void expect_told(ibv_mr* mr, const std::string& said) {
    char key[16];
    std::snprintf(key, sizeof key, "0x%x", mr->rkey);
    EXPECT_NE(said.find(key), std::string::npos) << said;
    const char* fate = std::get<0>(GetParam()) == Fate::kUnmapped
                           ? "was taken away by munmap"
                           : "was unmapped, protected or cut off after it was registered";
    EXPECT_NE(said.find(fate), std::string::npos) << said;
  }
  // Expects that the device still works with other queue pairs.
  void expect_alive() {
    left_.connect(right_);
    right_.receive(1, right_.sge(0, 8));
    left_.post(left_.request(IBV_WR_SEND), left_.sge(0, 8));
    EXPECT_EQ(left_.completion().status, IBV_WC_SUCCESS);
    EXPECT_EQ(right_.completion().status, IBV_WC_SUCCESS);
  }

  Side left_;
  Side right_;
};

ibv_send_wr remote(ibv_wr_opcode opcode, const Block& block, const ibv_mr* mr) {
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(block.bytes());
  wr.wr.rdma.rkey = mr->rkey;
  return wr;
}

TEST_P(Gone, TheTargetOfAWriteAndTheSourceOfARead) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Block block(block_length());
    ibv_mr* mr = add(right_, block);
    left_.connect(right_);
    lose(block);
    testing::internal::CaptureStderr();
    left_.post(remote(opcode, block, mr), left_.sge(0, length()));
    EXPECT_EQ(left_.completion().status, IBV_WC_REM_ACCESS_ERR) << opcode;
    right_.expect_event(IBV_EVENT_QP_ACCESS_ERR);
    expect_told(mr, testing::internal::GetCapturedStderr());
  }
  expect_alive();
}

TEST_P(Gone, WhatIsSentFrom) {
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE}) {
    Block block(block_length());
    ibv_mr* mr = add(left_, block);
    left_.connect(right_);
    right_.receive(1, right_.sge(0, length()));
    lose(block);
    testing::internal::CaptureStderr();
    left_.post(right_.request(opcode), left_.sge(block.bytes(), length(), mr));
    EXPECT_EQ(left_.completion().status, IBV_WC_LOC_PROT_ERR) << opcode;
    expect_told(mr, testing::internal::GetCapturedStderr());
  }
  expect_alive();
}

TEST_P(Gone, WhatIsReadInto) {
  Block block(block_length());
  ibv_mr* mr = add(left_, block);
  left_.connect(right_);
  lose(block);
  testing::internal::CaptureStderr();
  left_.post(right_.request(IBV_WR_RDMA_READ), left_.sge(block.bytes(), length(), mr));
  EXPECT_EQ(left_.completion().status, IBV_WC_LOC_PROT_ERR);
  expect_told(mr, testing::internal::GetCapturedStderr());
  expect_alive();
}

// Receives into gone memory, by an own receive queue and by a shared one.
TEST_P(Gone, WhatIsReceivedInto) {
  for (const bool is_shared : {false, true}) {
    Block block(block_length());
    ibv_mr* mr = add(right_, block);
    left_.connect(right_, IBV_QPT_RC, is_shared);
    right_.receive(7, right_.sge(block.bytes(), length(), mr));
    lose(block);
    testing::internal::CaptureStderr();
    left_.post(left_.request(IBV_WR_SEND), left_.sge(0, length()));
    EXPECT_EQ(left_.completion().status, IBV_WC_REM_OP_ERR);
    const ibv_wc received = right_.completion();
    EXPECT_EQ(received.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(received.wr_id, 7u);
    expect_told(mr, testing::internal::GetCapturedStderr());
  }
  expect_alive();
}

TEST_P(Gone, InUnreliableConnections) {
  {
    Block block(block_length());
    ibv_mr* mr = add(left_, block);
    left_.connect(right_, IBV_QPT_UC);
    lose(block);
    left_.post(left_.request(IBV_WR_SEND), left_.sge(block.bytes(), length(), mr));
    EXPECT_EQ(left_.completion().status, IBV_WC_LOC_PROT_ERR);
  }
  {
    Block block(block_length());
    ibv_mr* mr = add(right_, block);
    left_.connect(right_, IBV_QPT_UC);
    right_.receive(7, right_.sge(block.bytes(), length(), mr));
    lose(block);
    left_.post(left_.request(IBV_WR_SEND), left_.sge(0, length()));
    EXPECT_EQ(left_.completion().status, IBV_WC_SUCCESS);
    EXPECT_EQ(right_.completion().status, IBV_WC_LOC_PROT_ERR);
  }
  {
    // With UC the message is dropped, and only the explanation says so.
    Block block(block_length());
    ibv_mr* mr = add(right_, block);
    left_.connect(right_, IBV_QPT_UC);
    lose(block);
    testing::internal::CaptureStderr();
    left_.post(remote(IBV_WR_RDMA_WRITE, block, mr), left_.sge(0, length()));
    EXPECT_EQ(left_.completion().status, IBV_WC_SUCCESS);
    right_.receive(8, right_.sge(0, 8));
    left_.post(left_.request(IBV_WR_SEND), left_.sge(0, 8));
    EXPECT_EQ(left_.completion().status, IBV_WC_SUCCESS);
    EXPECT_EQ(right_.completion().status, IBV_WC_SUCCESS);
    expect_told(mr, testing::internal::GetCapturedStderr());
  }
  expect_alive();
}

INSTANTIATE_TEST_SUITE_P(Memory, Gone,
                         testing::Combine(testing::Values(Fate::kUnmapped, Fate::kProtected,
                                                          Fate::kCutOff),
                                          testing::Values(8u, 100u, 4096u, 65536u, 1u << 20)),
                         [](const testing::TestParamInfo<Case>& p) {
                           return name_of(std::get<0>(p.param)) +
                                  std::to_string(std::get<1>(p.param));
                         });

// Operations with only one length.
class GoneWord : public Gone {};

TEST_P(GoneWord, TheTargetOfAnAtomic) {
  for (const ibv_wr_opcode opcode : {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    Block block(4096);
    ibv_mr* mr = add(right_, block);
    left_.connect(right_);
    lose(block);
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic = {reinterpret_cast<std::uintptr_t>(block.bytes()), 1, 2, mr->rkey};
    testing::internal::CaptureStderr();
    left_.post(wr, left_.sge(0, 8));
    EXPECT_EQ(left_.completion().status, IBV_WC_REM_ACCESS_ERR) << opcode;
    expect_told(mr, testing::internal::GetCapturedStderr());
  }
  expect_alive();
}

TEST_P(GoneWord, TheResultOfAnAtomic) {
  Block block(4096);
  ibv_mr* mr = add(left_, block);
  left_.connect(right_);
  lose(block);
  ibv_send_wr wr = right_.request(IBV_WR_ATOMIC_FETCH_AND_ADD);
  wr.wr.atomic = {right_.sge(0, 8).addr, 1, 2, right_.key()};
  left_.post(wr, left_.sge(block.bytes(), 8, mr));
  EXPECT_EQ(left_.completion().status, IBV_WC_LOC_PROT_ERR);
  expect_alive();
}

TEST_P(GoneWord, TheTargetOfAnAtomicWrite) {
  Block block(4096);
  ibv_mr* mr = add(right_, block);
  left_.connect(right_, IBV_QPT_RC, false, true);
  lose(block);
  left_.write_atomically(reinterpret_cast<std::uintptr_t>(block.bytes()), mr->rkey);
  EXPECT_EQ(left_.completion().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(GoneWord, InDatagrams) {
  {
    Block block(4096);
    ibv_mr* mr = add(left_, block);
    left_.connect(right_, IBV_QPT_UD);
    lose(block);
    left_.post(left_.request(IBV_WR_SEND), left_.sge(block.bytes(), 100, mr));
    EXPECT_EQ(left_.completion().status, IBV_WC_LOC_PROT_ERR);
  }
  Block block(4096);
  ibv_mr* mr = add(right_, block);
  left_.connect(right_, IBV_QPT_UD);
  right_.receive(7, right_.sge(block.bytes(), 1000, mr));
  lose(block);
  left_.post(left_.request(IBV_WR_SEND), left_.sge(0, 100));
  EXPECT_EQ(left_.completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(right_.completion().status, IBV_WC_LOC_PROT_ERR);
  expect_alive();
}

// The last buffer of a list is gone, or the last page of a message.
TEST_P(GoneWord, InPart) {
  Block block(4096);
  ibv_mr* mr = add(left_, block);
  left_.connect(right_);
  right_.receive(1, right_.sge(0, 8192));
  lose(block);
  left_.post(left_.request(IBV_WR_SEND), {left_.sge(0, 5000), left_.sge(block.bytes(), 100, mr)});
  EXPECT_EQ(left_.completion().status, IBV_WC_LOC_PROT_ERR);
  expect_alive();
}

// Inline data is read when it is posted.
TEST_P(GoneWord, InlineData) {
  Block block(4096);
  left_.connect(right_);
  lose(block);
  ibv_send_wr wr = left_.request(IBV_WR_SEND);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(left_.try_to_post(wr, left_.sge(block.bytes(), 32, nullptr)), EFAULT);
  expect_alive();
}

INSTANTIATE_TEST_SUITE_P(
    Memory, GoneWord,
    testing::Combine(testing::Values(Fate::kUnmapped, Fate::kProtected, Fate::kCutOff),
                     testing::Values(8u)),
    [](const testing::TestParamInfo<Case>& p) { return name_of(std::get<0>(p.param)); });

// Only the end of a long message is gone, while the rest is on its way.
TEST(PartlyGone, TheEndOfALongMessage) {
  for (const bool is_target : {false, true}) {
    Side left;
    Side right;
    constexpr std::uint32_t kLength = 256 * 1024;
    Block block(kLength);
    Side& owner = is_target ? right : left;
    ibv_mr* mr = owner.add(block.bytes(), block.length());
    left.connect(right);
    ASSERT_EQ(::mprotect(block.bytes() + kLength - 4096, 4096, PROT_NONE), 0);
    if (is_target) {
      left.post(remote(IBV_WR_RDMA_WRITE, block, mr), left.sge(0, kLength));
    } else {
      left.post(right.request(IBV_WR_RDMA_WRITE), left.sge(block.bytes(), kLength, mr));
    }
    EXPECT_EQ(left.completion().status, is_target ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR);
  }
}

// A READ without memory must fail before a later WRITE is refused, because the responder serves
// nothing after that.
TEST(PartlyGone, WhatIsReadBeforeARefusedWrite) {
  Side left;
  Side right;
  Block block(4096);
  ibv_mr* mr = right.add(block.bytes(), block.length());
  for (int round = 0; round < 10; ++round) {
    left.connect(right);
    for (int i = 0; i < 4; ++i) {
      left.post(remote(IBV_WR_RDMA_READ, block, mr), left.sge(0, 4096));
      ASSERT_EQ(left.completion().status, IBV_WC_SUCCESS);
    }
    ASSERT_EQ(::mprotect(block.bytes(), 4096, PROT_NONE), 0);
    left.post(remote(IBV_WR_RDMA_READ, block, mr), left.sge(0, 4096));
    left.post(remote(IBV_WR_RDMA_WRITE, block, mr), left.sge(0, 4096));
    EXPECT_EQ(left.completion().status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(left.completion().status, IBV_WC_WR_FLUSH_ERR);
    ASSERT_EQ(::mprotect(block.bytes(), 4096, PROT_READ | PROT_WRITE), 0);
  }
}

// Memory goes at any moment of a request, from its posting to the last copy of its data.
class GoesMeanwhile : public testing::TestWithParam<ibv_wr_opcode> {
 protected:
  static constexpr std::uint32_t kLength = 256 * 1024;
  static constexpr int kRounds = 200;

  // Protects the block on another thread, some microseconds from now.
  static std::thread lose_soon(Block& block, int microseconds) {
    const auto when = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    return std::thread([&block, when] {
      while (std::chrono::steady_clock::now() < when) continue;
      EXPECT_EQ(::mprotect(block.bytes(), kLength, PROT_NONE), 0);
    });
  }
};

TEST_P(GoesMeanwhile, OnlyTheSideThatOwnsItIsToBlame) {
  const bool is_read = GetParam() == IBV_WR_RDMA_READ;
  Side left;
  Side right;
  for (int round = 0; round < kRounds; ++round) {
    Block block(kLength);
    Side& owner = is_read ? right : left;
    ibv_mr* mr = owner.add(block.bytes(), block.length());
    left.connect(right);
    std::thread other = lose_soon(block, 100 + round);
    for (int i = 0; i < 3; ++i) {
      if (is_read) {
        left.post(remote(i == 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, block, mr),
                  left.sge(0, kLength));
      } else {
        left.post(right.request(GetParam()), left.sge(block.bytes(), kLength, mr));
      }
    }
    const ibv_wc_status blame = is_read ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR;
    ibv_wc_status expected = IBV_WC_SUCCESS;
    for (int i = 0; i < 3; ++i) {
      const ibv_wc_status status = left.completion().status;
      if (expected == IBV_WC_SUCCESS && status == blame) {
        expected = IBV_WC_WR_FLUSH_ERR;
      } else {
        EXPECT_EQ(status, expected) << "round " << round;
      }
    }
    other.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, GoesMeanwhile,
                         testing::Values(IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE),
                         [](const testing::TestParamInfo<ibv_wr_opcode>& p) {
                           return p.param == IBV_WR_RDMA_READ ? "Read" : "Write";
                         });

// The process whose memory is gone lives on, and serves another peer.
TEST(PartlyGone, OfAnotherProcess) {
  struct Offer {
    Side::Name name;
    std::uint64_t address;
    std::uint32_t key;
  };
  int there[2];
  int here[2];
  ASSERT_EQ(::pipe(there), 0);
  ASSERT_EQ(::pipe(here), 0);
  const auto tell = [](int to, const auto& what) {
    ASSERT_EQ(::write(to, &what, sizeof what), static_cast<ssize_t>(sizeof what));
  };
  const auto hear = [](int from, auto& what) {
    ASSERT_EQ(::read(from, &what, sizeof what), static_cast<ssize_t>(sizeof what));
  };
  const auto serve = [&] {
    Side side;
    for (const bool is_gone : {true, false}) {
      Block block(65536);
      ibv_mr* mr = side.add(block.bytes(), block.length());
      side.make(IBV_QPT_RC);
      tell(here[1], Offer{side.name(), reinterpret_cast<std::uintptr_t>(block.bytes()), mr->rkey});
      Side::Name peer{};
      hear(there[0], peer);
      side.to_rts(peer);
      if (is_gone) block.meet(Fate::kUnmapped);
      tell(here[1], is_gone);
      bool is_done = false;
      hear(there[0], is_done);
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  };
  const pid_t child = ::fork();
  if (child == 0) serve();
  Side side;
  for (const ibv_wc_status expected : {IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS}) {
    side.make(IBV_QPT_RC);
    Offer offer{};
    hear(here[0], offer);
    tell(there[1], side.name());
    side.to_rts(offer.name);
    bool is_gone = false;
    hear(here[0], is_gone);
    ibv_send_wr wr = side.request(IBV_WR_RDMA_WRITE);
    wr.wr.rdma.remote_addr = offer.address;
    wr.wr.rdma.rkey = offer.key;
    side.post(wr, side.sge(0, 65536));
    EXPECT_EQ(side.completion().status, expected);
    tell(there[1], true);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The memory works again once its permission is back, because the mapping is the same.
TEST(PartlyGone, ComesBackWithItsRights) {
  Side left;
  Side right;
  Block block(4096);
  ibv_mr* mr = right.add(block.bytes(), block.length());
  ASSERT_EQ(::mprotect(block.bytes(), 4096, PROT_NONE), 0);
  ASSERT_EQ(::mprotect(block.bytes(), 4096, PROT_READ | PROT_WRITE), 0);
  left.connect(right);
  left.post(remote(IBV_WR_RDMA_WRITE, block, mr), left.sge(0, 100));
  EXPECT_EQ(left.completion().status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace memory_test
