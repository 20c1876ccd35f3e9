// SPDX-License-Identifier: BSD-2-Clause
// Requests between ibv_wr_start and ibv_wr_complete.
#include "verbena/objects/work_builder.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace verbena::provider {
namespace {

using queue::SendRequest;
using queue::Sge;

std::string inline_text(const SendRequest& r) {
  std::string text;
  for (const Sge& sge : r.sges) {
    text.append(reinterpret_cast<const char*>(static_cast<std::uintptr_t>(sge.address)),
                sge.length);
  }
  return text;
}

TEST(WorkBuilder, KeepsEachRequestsOwnBuffers) {
  WorkBuilder builder;
  builder.start();
  for (std::uint32_t i = 0; i < 100; ++i) {
    builder.add()->id = i;
    const Sge sges[] = {{i, i, i}, {i + 1, i, i}};
    builder.set_sges(sges, 1 + i % 2);
  }
  std::uint32_t seen = 0;
  EXPECT_EQ(builder.for_each([&](const SendRequest& r) {
    EXPECT_EQ(r.id, seen);
    EXPECT_EQ(r.sges.size(), 1 + seen % 2);
    EXPECT_EQ(r.sges[0].address, seen);
    ++seen;
    return 0;
  }),
            0);
  EXPECT_EQ(seen, 100u);
  builder.finish();
}

TEST(WorkBuilder, CopiesInlineDataAtOnce) {
  WorkBuilder builder;
  builder.start();
  char buffer[] = "first";
  builder.add();
  builder.begin_inline();
  builder.add_inline(buffer, 5);
  std::strcpy(buffer, "other");
  builder.add();
  builder.begin_inline();
  builder.add_inline(buffer, 2);
  builder.add_inline(buffer + 2, 3);
  std::strcpy(buffer, "xxxxx");
  std::vector<std::string> texts;
  builder.for_each([&](const SendRequest& r) {
    EXPECT_NE(r.flags & queue::kInline, 0);
    texts.push_back(inline_text(r));
    return 0;
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"first", "other"}));
  builder.finish();
}

TEST(WorkBuilder, StopsAtTheFirstThatIsRefused) {
  WorkBuilder builder;
  builder.start();
  builder.add();
  builder.add();
  builder.add();
  int posted = 0;
  EXPECT_EQ(builder.for_each([&](const SendRequest&) { return ++posted == 2 ? ENOMEM : 0; }),
            ENOMEM);
  EXPECT_EQ(posted, 2);
  builder.finish();
}

TEST(WorkBuilder, RemembersTheFirstMistakeUntilTheNextStart) {
  WorkBuilder builder;
  builder.start();
  const Sge sge{1, 2, 3};
  builder.set_sges(&sge, 1);  // there is no request yet
  builder.fail(EOPNOTSUPP);
  EXPECT_EQ(builder.error(), EINVAL);
  builder.finish();
  builder.start();
  EXPECT_EQ(builder.error(), 0);
  EXPECT_EQ(builder.size(), 0u);
  builder.finish();
}

}  // namespace
}  // namespace verbena::provider
