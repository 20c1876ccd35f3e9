// SPDX-License-Identifier: BSD-2-Clause
// The control room is linked into foreign programs. It must not run code when it is loaded, and
// must not bring streams or threads along.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string text;
  std::array<char, 4096> part;
  while (pipe) {
    const std::size_t n = ::fread(part.data(), 1, part.size(), pipe.get());
    if (n == 0) break;
    text.append(part.data(), n);
  }
  return text;
}

TEST(Purity, RunsNoCodeWhenLoaded) {
  const std::string symbols = output_of("nm -C '" VERBENA_CONTROL_ARCHIVE "' 2>&1");
  ASSERT_NE(symbols.find("decode_header"), std::string::npos) << symbols;
  EXPECT_EQ(symbols.find("_GLOBAL__sub_I"), std::string::npos) << "a global constructor";
  EXPECT_EQ(symbols.find("__cxa_atexit"), std::string::npos) << "a static destructor";
}

TEST(Purity, BringsNoStreamsAndNoThreads) {
  const std::string wanted = output_of("nm -uC '" VERBENA_CONTROL_ARCHIVE "' 2>&1");
  for (const char* unwanted : {"ostream", "ios_base", "pthread_", "boost::"}) {
    EXPECT_EQ(wanted.find(unwanted), std::string::npos) << unwanted;
  }
}

}  // namespace
