// SPDX-License-Identifier: BSD-2-Clause
// An address is mapped again while it is still registered. Whichever call took the first mapping
// away, a peer neither writes nor reads the new mapping, and the new owner may register it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "side.hpp"

namespace memory_test {
namespace {

constexpr std::size_t kLength = 64 * 1024;
constexpr int kRights = PROT_READ | PROT_WRITE;
constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

char* map(char* at = nullptr, int more = 0) {
  void* const bytes = ::mmap(at, kLength, kRights, kPrivate | more, -1, 0);
  EXPECT_NE(bytes, MAP_FAILED);
  return static_cast<char*>(bytes);
}
char* attach(char* at, int flags = 0) {
  const int id = ::shmget(IPC_PRIVATE, kLength, IPC_CREAT | 0600);
  void* const bytes = ::shmat(id, at, flags);
  ::shmctl(id, IPC_RMID, nullptr);
  EXPECT_NE(bytes, reinterpret_cast<void*>(-1));
  return static_cast<char*>(bytes);
}

struct Way {
  const char* name;
  const char* told;  // what the explanation says
  std::function<char*()> get;
  // Takes the memory away and maps something else in its place.
  std::function<void(char*)> replace;
};

void map_there(char* at) { EXPECT_EQ(map(at, MAP_FIXED_NOREPLACE), at); }

const Way kWays[] = {
    {"Munmap", "was taken away by munmap", [] { return map(); },
     [](char* at) {
       EXPECT_EQ(::munmap(at, kLength), 0);
       map_there(at);
     }},
    {"MmapFixed", "was taken away by mmap with MAP_FIXED", [] { return map(); },
     [](char* at) { EXPECT_EQ(map(at, MAP_FIXED), at); }},
    {"Mremap", "was taken away by mremap", [] { return map(); },
     [](char* at) {
       EXPECT_NE(::mremap(at, kLength, kLength, MREMAP_MAYMOVE | MREMAP_FIXED, map()), MAP_FAILED);
       map_there(at);
     }},
    {"MremapOntoIt", "was taken away by mremap", [] { return map(); },
     [](char* at) {
       EXPECT_EQ(::mremap(map(), kLength, kLength, MREMAP_MAYMOVE | MREMAP_FIXED, at), at);
     }},
    {"ShmatRemap", "was taken away by shmat with SHM_REMAP", [] { return map(); },
     [](char* at) { EXPECT_EQ(attach(at, SHM_REMAP), at); }},
    {"Shmdt", "was taken away by shmdt", [] { return attach(nullptr); },
     [](char* at) {
       EXPECT_EQ(::shmdt(at), 0);
       map_there(at);
     }},
    // As in free() of a large block, no wrapped call sees the unmapping, but one sees the next
    // mapping.
    {"Unseen", "was taken away by a call that was not seen", [] { return map(); },
     [](char* at) {
       EXPECT_EQ(::syscall(SYS_munmap, at, kLength), 0);
       map_there(at);
     }},
};

class Remapped : public testing::TestWithParam<Way> {
 protected:
  ibv_wc_status ask(ibv_wr_opcode opcode, const char* at, std::uint32_t key, std::uint32_t length) {
    left_.connect(right_);
    ibv_send_wr wr = left_.request(opcode);
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(at);
    wr.wr.rdma.rkey = key;
    left_.post(wr, left_.sge(0, length));
    return left_.completion().status;
  }

  Side left_;
  Side right_;
};

TEST_P(Remapped, IsNotReached) {
  char* const at = GetParam().get();
  ibv_mr* const old = right_.add(at, kLength);
  ASSERT_EQ(ask(IBV_WR_RDMA_WRITE, at, old->rkey, 8), IBV_WC_SUCCESS);
  GetParam().replace(at);
  std::memset(at, 'n', kLength);
  std::memset(left_.own(), 'w', kLength);
  testing::internal::CaptureStderr();
  for (const std::uint32_t length : {8u, 4096u, 65536u}) {
    EXPECT_EQ(ask(IBV_WR_RDMA_WRITE, at, old->rkey, length), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ask(IBV_WR_RDMA_READ, at, old->rkey, length), IBV_WC_REM_ACCESS_ERR);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(GetParam().told), std::string::npos) << said;
  EXPECT_EQ(std::string(at, kLength), std::string(kLength, 'n'));
  EXPECT_EQ(std::string(left_.own(), 8), "wwwwwwww");
  // The owner uses the old key, and a peer a new one.
  left_.connect(right_);
  right_.receive(3, Side::sge(at, 64, old));
  left_.post(left_.request(IBV_WR_SEND), left_.sge(0, 64));
  EXPECT_EQ(left_.completion().status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(right_.completion().status, IBV_WC_LOC_PROT_ERR);
  ibv_mr* const now = right_.add(at, kLength);
  EXPECT_EQ(ask(IBV_WR_RDMA_WRITE, at, now->rkey, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(at, 9), "wwwwwwwwn");
}

INSTANTIATE_TEST_SUITE_P(Memory, Remapped, testing::ValuesIn(kWays),
                         [](const testing::TestParamInfo<Way>& way) { return way.param.name; });

class Mapped : public testing::Test {
 protected:
  ibv_wc_status write(const char* at, std::uint32_t key) {
    left_.connect(right_);
    ibv_send_wr wr = left_.request(IBV_WR_RDMA_WRITE);
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(at);
    wr.wr.rdma.rkey = key;
    left_.post(wr, left_.sge(0, 8));
    return left_.completion().status;
  }
  Side left_;
  Side right_;
};

// The pages that stay are still reached.
TEST_F(Mapped, InPart) {
  char* const at = map();
  ibv_mr* const mr = right_.add(at, kLength);
  EXPECT_EQ(::munmap(at + 8192, 4096), 0);
  EXPECT_EQ(write(at + 4096, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write(at + 12288, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write(at + 8192, mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write(at + 8188, mr->rkey), IBV_WC_REM_ACCESS_ERR);
}

// An allocator gives back pages here and there of memory that is registered as a whole.
TEST_F(Mapped, InManyParts) {
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kHoles = 512;
  constexpr std::size_t kWhole = 16 * kPage * kHoles;
  void* const bytes = ::mmap(nullptr, kWhole, kRights, kPrivate, -1, 0);
  ASSERT_NE(bytes, MAP_FAILED);
  char* const at = static_cast<char*>(bytes);
  ibv_mr* const mr = right_.add(at, kWhole);
  for (std::size_t i = 0; i < kHoles; ++i) ASSERT_EQ(::munmap(at + 16 * i * kPage, kPage), 0);
  for (std::size_t i = 0; i < kHoles; i += 7) {
    EXPECT_EQ(write(at + (16 * i + 1) * kPage, mr->rkey), IBV_WC_SUCCESS) << i;
    EXPECT_EQ(write(at + (16 * i + 15) * kPage, mr->rkey), IBV_WC_SUCCESS) << i;
  }
  EXPECT_EQ(write(at + 16 * 100 * kPage, mr->rkey), IBV_WC_REM_ACCESS_ERR);
}

// A buffer that is mirrored behind itself: one attachment of the segment follows the other.
TEST_F(Mapped, OneOfTwoAttachments) {
  const int id = ::shmget(IPC_PRIVATE, kLength, IPC_CREAT | 0600);
  void* const room = ::mmap(nullptr, 2 * kLength, PROT_NONE, kPrivate, -1, 0);
  ASSERT_NE(room, MAP_FAILED);
  ASSERT_EQ(::munmap(room, 2 * kLength), 0);
  char* const first = static_cast<char*>(::shmat(id, room, 0));
  ASSERT_EQ(first, room);
  char* const second = static_cast<char*>(::shmat(id, first + kLength, 0));
  ::shmctl(id, IPC_RMID, nullptr);
  ASSERT_EQ(second, first + kLength);
  ibv_mr* const mr = right_.add(second, kLength);
  EXPECT_EQ(::shmdt(first), 0);
  EXPECT_EQ(write(second, mr->rkey), IBV_WC_SUCCESS);
}

// The region gets the pages that are mapped when it ceases to follow the program's mappings.
TEST_F(Mapped, NoLongerOnDemand) {
  char* const at = map();
  ibv_mr* const mr = right_.add(at, kLength);
  EXPECT_EQ(::munmap(at, 4096), 0);
  EXPECT_EQ(write(at, mr->rkey), IBV_WC_REM_ACCESS_ERR);
  const int access = Side::kAccess | IBV_ACCESS_ON_DEMAND;
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access), 0);
  ASSERT_EQ(::mmap(at, 4096, kRights, kPrivate | MAP_FIXED, -1, 0), at);
  EXPECT_EQ(write(at, mr->rkey), IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, Side::kAccess), 0);
  EXPECT_EQ(write(at, mr->rkey), IBV_WC_SUCCESS);
}

TEST_F(Mapped, PagesThatAreAskedForInAdvance) {
  char* const at = map();
  const int access = Side::kAccess | IBV_ACCESS_ON_DEMAND;
  ibv_mr* const mr = ibv_reg_mr(right_.pd(), at, kLength, access);
  ASSERT_NE(mr, nullptr);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), kLength, mr->lkey};
  const auto advise = [&](std::uint32_t flags) {
    return ibv_advise_mr(right_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flags, &sge, 1);
  };
  EXPECT_EQ(advise(IBV_ADVISE_MR_FLAG_FLUSH), 0);
  EXPECT_EQ(::munmap(at + 8192, 4096), 0);
  EXPECT_EQ(advise(0), 0) << "nobody waits for the pages";
  EXPECT_EQ(advise(IBV_ADVISE_MR_FLAG_FLUSH), EFAULT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// A region stays if its contents are discarded, or if only the memory behind it changes.
TEST_F(Mapped, WhatIsOnlyChangedStays) {
  char* const at = map();
  ibv_mr* const mr = right_.add(at, 4096);
  EXPECT_EQ(::madvise(at, kLength, MADV_DONTNEED), 0);
  EXPECT_EQ(::mprotect(at + 4096, 4096, PROT_NONE), 0);
  EXPECT_EQ(::mremap(at, kLength, kLength / 2, 0), at);
  EXPECT_EQ(write(at, mr->rkey), IBV_WC_SUCCESS);
}

// Regions that were deregistered before have no effect.
TEST_F(Mapped, AfterDeregistration) {
  for (int i = 0; i < 200; ++i) {
    char* const at = map();
    ibv_mr* const mr = ibv_reg_mr(right_.pd(), at, kLength, Side::kAccess);
    ASSERT_NE(mr, nullptr);
    ASSERT_EQ(ibv_dereg_mr(mr), 0);
    ASSERT_EQ(::munmap(at, kLength), 0);
  }
  char* const at = map();
  EXPECT_EQ(write(at, right_.add(at, kLength)->rkey), IBV_WC_SUCCESS);
}

// An on-demand region follows whatever is mapped.
TEST_F(Mapped, OnDemand) {
  char* const at = map();
  ibv_mr* const mr = ibv_reg_mr(right_.pd(), at, kLength, Side::kAccess | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(map(at, MAP_FIXED), at);
  EXPECT_EQ(write(at, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// --- registration wants memory that exists ---

class File {
 public:
  explicit File(std::size_t length) : fd_(static_cast<int>(::memfd_create("file", 0))) {
    EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(length)), 0);
  }
  ~File() { ::close(fd_); }
  char* map(std::size_t length) const {
    void* const bytes = ::mmap(nullptr, length, kRights, MAP_SHARED, fd_, 0);
    EXPECT_NE(bytes, MAP_FAILED);
    return static_cast<char*>(bytes);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

TEST_F(Mapped, BeyondTheEndOfAFile) {
  for (const std::size_t whole : {kLength, std::size_t{8} << 20}) {
    const File file(whole);
    char* const at = file.map(2 * whole);
    testing::internal::CaptureStderr();
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(right_.pd(), at, whole + 4096, Side::kAccess), nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("beyond the end of its file"),
              std::string::npos);
    EXPECT_EQ(ibv_reg_mr(right_.pd(), at + whole, 4096, Side::kAccess), nullptr);
    ibv_mr* const mr = right_.add(at, whole);
    EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, whole + 1, 0),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(write(at, mr->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(::ftruncate(file.fd(), static_cast<off_t>(2 * whole)), 0);
    EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, 2 * whole, 0), 0);
    EXPECT_EQ(write(at + 2 * whole - 8, mr->rkey), IBV_WC_SUCCESS);
  }
}

TEST_F(Mapped, OfAFileWithHoles) {
  const std::size_t whole = std::size_t{1} << 30;
  const File file(whole);
  char* const at = file.map(whole);
  ibv_mr* const mr = right_.add(at, whole);
  EXPECT_EQ(write(at + whole / 2, mr->rkey), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace memory_test
