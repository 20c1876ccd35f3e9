// SPDX-License-Identifier: BSD-2-Clause
// The two ends of a capture's ring.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "verbena/link/capture_ring.hpp"

namespace verbena::link::test {

struct CaptureEnds {
  static constexpr std::size_t kSmallest = 64 * 1024;

  explicit CaptureEnds(std::size_t capacity = kSmallest)
      : fd(CaptureRing::create(capacity).value()),
        writer_end(CaptureRing::map(fd).value()),
        reader(CaptureRing::map(fd).value()) {}
  ~CaptureEnds() { ::close(fd); }
  CaptureEnds(const CaptureEnds&) = delete;
  CaptureEnds& operator=(const CaptureEnds&) = delete;

  struct Taken {
    CaptureRecord record;
    std::vector<std::uint8_t> packet;
  };
  std::vector<Taken> take_all() {
    std::vector<Taken> all;
    while (const CaptureRecord* const record = reader.front()) {
      Taken taken{*record, std::vector<std::uint8_t>(record->kept)};
      reader.copy_packet(taken.packet.data());
      reader.pop();
      all.push_back(std::move(taken));
    }
    return all;
  }

  int fd;
  CaptureRing writer_end;
  CaptureReader reader;
};

}  // namespace verbena::link::test
