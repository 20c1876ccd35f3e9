// SPDX-License-Identifier: BSD-2-Clause
// Whether pages are there, and access to pages that may be missing.
#include "verbena/objects/user_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace verbena::provider::user_memory {
namespace {

constexpr std::size_t kPage = 4096;

// Pages between two that are not mapped.
class Pages {
 public:
  explicit Pages(std::size_t count, int protection = PROT_READ | PROT_WRITE)
      : length_((count + 2) * kPage) {
    base_ = static_cast<char*>(
        ::mmap(nullptr, length_, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ::munmap(base_, kPage);
    ::munmap(base_ + length_ - kPage, kPage);
  }
  ~Pages() { ::munmap(base_ + kPage, length_ - 2 * kPage); }
  std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(base_ + kPage + offset);
  }
  char* bytes() const { return base_ + kPage; }

 private:
  std::size_t length_;
  char* base_;
};

class UserMemoryOf : public testing::TestWithParam<std::size_t> {
 protected:
  UserMemory memory_;
};
// Small ranges are touched, large ones looked up.
INSTANTIATE_TEST_SUITE_P(UserMemory, UserMemoryOf, testing::Values(1, 4, 256, 257, 2048));

TEST_P(UserMemoryOf, PagesThatAreThere) {
  const Pages pages(GetParam());
  const std::size_t length = GetParam() * kPage;
  errno = 77;
  EXPECT_TRUE(memory_.is_mapped(pages.at(0), length, true));
  EXPECT_TRUE(memory_.is_mapped(pages.at(17), length - 17, true));
  EXPECT_TRUE(memory_.is_mapped(pages.at(length - 1), 1, true));
  EXPECT_EQ(errno, 77);
}

TEST_P(UserMemoryOf, ARangeThatEndsOneByteBeyond) {
  const Pages pages(GetParam());
  const std::size_t length = GetParam() * kPage;
  EXPECT_FALSE(memory_.is_mapped(pages.at(0), length + 1, false));
  EXPECT_FALSE(memory_.is_mapped(pages.at(0) - 1, length, false));
}

TEST_P(UserMemoryOf, AHoleInTheMiddle) {
  const Pages pages(2 * GetParam() + 1);
  ::munmap(pages.bytes() + GetParam() * kPage, kPage);
  EXPECT_FALSE(memory_.is_mapped(pages.at(0), (2 * GetParam() + 1) * kPage, false));
}

TEST_P(UserMemoryOf, PagesThatMayOnlyBeRead) {
  const Pages pages(GetParam(), PROT_READ);
  EXPECT_TRUE(memory_.is_mapped(pages.at(0), GetParam() * kPage, false));
  EXPECT_FALSE(memory_.is_mapped(pages.at(0), GetParam() * kPage, true));
}

TEST_P(UserMemoryOf, PagesThatMayNotBeTouched) {
  const Pages pages(GetParam(), PROT_NONE);
  EXPECT_FALSE(memory_.is_mapped(pages.at(0), GetParam() * kPage, false));
}

TEST(UserMemory, RefusesWhatWrapsAround) {
  UserMemory memory;
  EXPECT_FALSE(memory.is_mapped(~std::uint64_t{0} - 10, 4096, false));
  EXPECT_TRUE(memory.is_mapped(0, 0, true));
}

TEST(UserMemory, ReadsAndWritesWithoutAFaultWherePagesAreMissing) {
  UserMemory memory;
  const Pages pages(1);
  char buffer[64] = "here";
  EXPECT_TRUE(memory.write(pages.at(0), buffer, sizeof buffer));
  char back[64] = {};
  EXPECT_TRUE(memory.read(back, pages.at(0), sizeof back));
  EXPECT_STREQ(back, "here");
  EXPECT_FALSE(memory.read(back, pages.at(kPage), sizeof back));
  EXPECT_FALSE(memory.write(pages.at(kPage - 8), buffer, sizeof buffer));
}

}  // namespace
}  // namespace verbena::provider::user_memory
