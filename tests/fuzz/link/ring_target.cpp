// SPDX-License-Identifier: BSD-2-Clause
// A ring between a writer and a reader, in bursts, while the input changes its memory. Until the
// first change, each packet that was put is taken, whole and in order; it stays whole until it is
// given back, and the ring takes as many as it has room for. After a change, at worst the ring ends
// for good.
//
// The first byte chooses the capacity (bits 0 to 2: 64 KiB and up, doubled). Then comes each step:
// a byte for what to do (bits 6 and 7: put, take, write into the memory, look) and how often (low 6
// bits). A put takes a byte for the length, in units of 20 bytes (from 240 on: of 2048). A write
// takes a byte for what to change: a waiting packet (bit 0), else the first page; which word of it
// (bits 1 to 3); whether the word is set or one of its bits is flipped (bit 4); and eight bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "input.hpp"
#include "verbena/base/check.hpp"
#include "verbena/link/shared_ring.hpp"
#include "verbena/wire/bth.hpp"

namespace {

using namespace verbena;
using namespace verbena::link;

constexpr std::size_t kHeaderPage = 4096;
constexpr std::size_t kLine = 64;
constexpr std::size_t kRecordHeader = 16;
// The ring may end with less than a record. The reader may still use a record, and another one may
// not be given back yet.
constexpr std::size_t kEnds = 4 * wire::kMaxMerged;

SharedRing ring_of(int fd) {
  auto ring = SharedRing::map(fd);
  VERBENA_CHECK(ring.ok());
  return std::move(ring.value());
}

class Run {
 public:
  explicit Run(fuzz::Input& input)
      : input_(input),
        capacity_(std::size_t{64 * 1024} << std::min(input.byte() & 7, 5)),
        fd_(SharedRing::create(capacity_).value()),
        memory_(static_cast<std::uint8_t*>(
            ::mmap(nullptr, kHeaderPage + capacity_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0))),
        writer_(ring_of(fd_)),
        reader_(ring_of(fd_)) {
    VERBENA_CHECK(memory_ != MAP_FAILED);
  }
  ~Run() {
    ::munmap(memory_, kHeaderPage + capacity_);
    ::close(fd_);
  }
  Run(const Run&) = delete;

  void step() {
    const std::uint8_t what = input_.byte();
    const unsigned times = (what & 0x3fu) + 1;
    switch (what >> 6) {
      case 0: {
        const unsigned size = input_.byte();
        const std::size_t more =
            size < 240 ? std::size_t{20} * size % 4096 : std::size_t{2048} * (size - 239);
        const std::size_t length = wire::Bth::kSize + more;
        for (unsigned i = 0; i < times; ++i) put(length);
        return;
      }
      case 1:
        for (unsigned i = 0; i < times; ++i) take();
        return;
      case 2:
        return write();
      default:
        return look();
    }
  }

 private:
  void put(std::size_t length) {
    std::vector<std::uint8_t> packet(length, static_cast<std::uint8_t>(psn_));
    wire::Bth bth;
    bth.dest_qp = Qpn(0x1001);
    bth.psn = Psn(psn_);
    bth.write_to(packet.data());
    batch_.clear();
    std::uint8_t* at = batch_.begin(length);
    VERBENA_CHECK(at != nullptr);
    std::memcpy(at, packet.data(), length);
    batch_.commit(length, {});
    if (writer_.put(batch_, 0, 1) == 0) {
      VERBENA_CHECK(!is_sound_ || waiting_bytes_ + kEnds >= capacity_);
      return;
    }
    ++psn_;
    waiting_bytes_ += record_size(length);
    waiting_.push_back(std::move(packet));
  }

  void take() {
    check_taken();
    wire::RxDatagram fields;
    const bool was_broken = reader_.is_broken();
    const bool is_there = reader_.take(fields);
    taken_ = is_there ? fields.bytes : std::span<const std::uint8_t>{};
    was_taken_.assign(taken_.begin(), taken_.end());
    start_ = fields.copied_start != nullptr ? fields.copied_start : taken_.data();
    if (is_there) {
      VERBENA_CHECK(!was_broken && taken_.size() >= wire::Bth::kSize);
      VERBENA_CHECK(taken_.size() <= wire::kMaxMerged);
    }
    if (!is_sound_) return;
    VERBENA_CHECK(is_there == !waiting_.empty());
    if (!is_there) return;
    VERBENA_CHECK(std::ranges::equal(taken_, waiting_.front()));
    waiting_bytes_ -= record_size(taken_.size());
    waiting_.pop_front();
  }

  // Checks the packet that was taken last: always its start, and all of it until the first change.
  void check_taken() const {
    const std::size_t safe = is_sound_ ? taken_.size() : std::min(taken_.size(), wire::kMaxHeaders);
    const std::uint8_t* bytes = is_sound_ ? taken_.data() : start_;
    VERBENA_CHECK(std::equal(bytes, bytes + safe, was_taken_.begin()));
  }

  void write() {
    const std::uint8_t what = input_.byte();
    std::uint8_t* line = (what & 1) != 0 ? line_of_waiting() : memory_;
    const std::size_t word = (what & 1) != 0 ? (what >> 1 & 7) * 8u : (what >> 1 & 7) * kLine;
    const std::uint64_t value = std::uint64_t{input_.word()} << 32 | input_.word();
    if (line == nullptr) return;
    std::uint64_t there = 0;
    std::memcpy(&there, line + word, sizeof there);
    there = (what & 16) != 0 ? value : there ^ std::uint64_t{1} << value % 64;
    std::memcpy(line + word, &there, sizeof there);
    is_sound_ = false;
  }
  // Returns the line of the next packet that was put and not taken.
  std::uint8_t* line_of_waiting() {
    if (waiting_.empty()) return nullptr;
    for (std::size_t at = kHeaderPage; at < kHeaderPage + capacity_; at += kLine) {
      std::uint8_t* packet = memory_ + at + kRecordHeader;
      if (std::memcmp(packet, waiting_.front().data(), wire::Bth::kSize) == 0) return memory_ + at;
    }
    return nullptr;
  }

  void look() {
    const bool is_half_empty = writer_.is_half_empty();
    const bool has_packet = reader_.has_packet();
    (void)writer_.reader_packs();
    check_taken();
    reader_.release();
    taken_ = {};
    if (!is_sound_) return;
    VERBENA_CHECK(has_packet == !waiting_.empty());
    if (is_half_empty) VERBENA_CHECK(waiting_bytes_ <= capacity_ / 2);
    if (!is_half_empty) VERBENA_CHECK(waiting_bytes_ + kEnds >= capacity_ / 2);
  }

  static std::size_t record_size(std::size_t length) {
    return (kRecordHeader + length + kLine - 1) / kLine * kLine;
  }

  fuzz::Input& input_;
  std::size_t capacity_;
  int fd_;
  std::uint8_t* memory_;
  RingWriter writer_;
  RingReader reader_;
  std::vector<std::uint8_t> room_ = std::vector<std::uint8_t>(2 * wire::kMaxMerged);
  wire::TxBatch batch_{room_};
  std::deque<std::vector<std::uint8_t>> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::span<const std::uint8_t> taken_;
  const std::uint8_t* start_ = nullptr;  // start of the packet that was taken last
  std::vector<std::uint8_t> was_taken_;
  std::uint32_t psn_ = 1;
  bool is_sound_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Run run(input);
  while (!input.empty()) run.step();
  return 0;
}
