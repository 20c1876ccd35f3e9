// SPDX-License-Identifier: BSD-2-Clause
// A capture in a file, read by tshark, which knows the formats independently and must be installed.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace verbena::capture::test {

class CaptureFile {
 public:
  explicit CaptureFile(std::span<const std::uint8_t> blocks) {
    const int fd = ::mkstemp(name_);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(::write(fd, blocks.data(), blocks.size()), static_cast<ssize_t>(blocks.size()));
    ::close(fd);
  }
  ~CaptureFile() { ::unlink(name_); }
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  // The fields of one packet.
  using Row = std::vector<std::string>;
  std::vector<Row> dissect(const std::string& fields) const {
    std::string command = "tshark -r " + std::string(name_) + " -T fields -E separator='|'";
    std::istringstream names(fields);
    for (std::string name; names >> name;) command += " -e " + name;
    command += " 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::vector<Row> rows;
    std::array<char, 4096> line;
    while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
      std::string text(line.data());
      if (text.starts_with("Running as user")) continue;
      if (!text.empty() && text.back() == '\n') text.pop_back();
      Row row(1);
      for (const char c : text) c == '|' ? (void)row.emplace_back() : row.back().push_back(c);
      rows.push_back(row);
    }
    EXPECT_EQ(::pclose(pipe), 0) << "tshark is needed here (apt install tshark)";
    return rows;
  }

 private:
  char name_[64] = "/tmp/verbena-capture-test-XXXXXX";
};

}  // namespace verbena::capture::test
