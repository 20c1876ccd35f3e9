// The pieces of a send: in order, and no more of them than need be.
#include "verbena/link/parts.hpp"

#include <gtest/gtest.h>

#include <array>

namespace verbena::link {
namespace {

using Span = std::span<const std::uint8_t>;

bool is(const iovec& part, Span bytes) {
  return part.iov_base == bytes.data() && part.iov_len == bytes.size();
}

TEST(Parts, AreNoneAtFirst) {
  const Parts<1> parts{};
  EXPECT_TRUE(parts.all().empty());
}

TEST(Parts, AreOneAsLongAsTheyAreBackToBack) {
  const std::array<std::uint8_t, 100> memory{};
  const Span all(memory);
  Parts<1> parts;
  parts.add(all.first(10));
  parts.add(all.subspan(10, 50));
  parts.add(all.last(40));
  ASSERT_EQ(parts.all().size(), 1u);
  EXPECT_TRUE(is(parts.all()[0], all));
}

TEST(Parts, BeginWhereSomethingElseCame) {
  const std::array<std::uint8_t, 100> memory{};
  const std::array<std::uint8_t, 30> elsewhere{};
  const Span all(memory);
  Parts<4> parts;
  parts.add(all.first(10));
  parts.add(elsewhere);
  parts.add(all.subspan(10, 20));
  parts.add(all.subspan(30, 5));
  parts.add(all.subspan(36, 5));
  ASSERT_EQ(parts.all().size(), 4u);
  EXPECT_TRUE(is(parts.all()[0], all.first(10)));
  EXPECT_TRUE(is(parts.all()[1], elsewhere));
  EXPECT_TRUE(is(parts.all()[2], all.subspan(10, 25)));
  EXPECT_TRUE(is(parts.all()[3], all.subspan(36, 5)));
}

}  // namespace
}  // namespace verbena::link
