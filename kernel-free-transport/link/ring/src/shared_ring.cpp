// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/shared_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbena/base/short_copy.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/wire/bth.hpp"

namespace verbena::link {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kRecordHeader = 16;
constexpr std::size_t kInFirstLine = kLine - kRecordHeader;  // bytes of a packet
constexpr std::size_t kPiggybackedAckSize = 8;               // behind the packet
constexpr std::size_t kCapacityMin = 64 * 1024;
constexpr std::size_t kCapacityMax = 1u << 30;
constexpr std::uint64_t kWhat = 0x39474e4952425256;  // "VRBRING9"
constexpr std::uint64_t kLengthBits = 0xffff;
constexpr std::uint64_t kJump = 0xffff;  // as a length: continue at the beginning
// How much of a record is prefetched before it is copied, by the reader (kAhead) and by the writer
// (kTakenAhead). After that much the processor foresees what comes next. The writer prefetches
// more, because lines in the reader's cache come slowly.
constexpr std::size_t kAhead = 4096;
constexpr std::size_t kTakenAhead = 8192;
// Neither side may shrink the memory under the other (SIGBUS) or add seals of its own.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::uint64_t record_size(std::size_t length) {
  return (kRecordHeader + length + kLine - 1) / kLine * kLine;
}

SocketError ring_error(int error, const char* doing) {
  std::string text = std::string(doing) + " a shared ring failed: " + std::strerror(error);
  if (error == EFBIG) text += " (`ulimit -f` forbids files of that size, and the ring is one)";
  return {error, std::move(text)};
}

// The word that opens a record, shared with the other side.
std::atomic_ref<std::uint64_t> first_word(std::uint8_t* record) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(record));
}

// Takes the first lines away from the reader, which has had them since the last lap. All are
// requested at once; a copy would wait for one after the other. (Compilers emit this instruction
// for the builtin only if they compile for processors from 2014 on; older processors ignore it.)
void take_lines(std::uint8_t* at, std::size_t size) {
  for (std::size_t i = 0; i < std::min(size, kTakenAhead); i += kLine) {
#ifdef __x86_64__
    asm volatile("prefetchw %0" : : "m"(at[i]));
#else
    __builtin_prefetch(at + i, 1, 3);
#endif
  }
}

// Prefetches the first lines for the reader: while the engine looks at the headers, the payload is
// on its way.
void bring_lines(const std::uint8_t* at, std::size_t size) {
  for (std::size_t i = 0; i < std::min(size, kAhead); i += kLine) __builtin_prefetch(at + i, 0, 2);
}

// Stands between a writer's last store and its look at the reader's state, as the reader's
// announcement stands before its last look at the ring: one of the two sees the other. A
// sequentially consistent store would not do: it waits for the stores before it, and a reader that
// polls the line would have time to take it away.
void order_before_look() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// The fields of a record: traffic class, hop limit, flow label and GRH, as an IP header would carry
// them; for how many packets a merged one stands; and whether a piggybacked ACK follows the packet.
constexpr std::uint64_t kHasPiggybackedAck = 1u << 18;
constexpr unsigned kMergedAt = 32;
constexpr std::uint64_t kMergedBits = 0xffff;
constexpr unsigned kFlowHighAt = 28;  // the flow label's upper four bits
constexpr unsigned kFlowLowAt = 48;   // the flow label's other sixteen bits
std::uint64_t pack(const wire::Destination& to, const wire::TxBatch::Packet& packet) {
  return to.traffic_class | std::uint64_t{to.hop_limit} << 8 |
         static_cast<std::uint64_t>(to.has_grh) << 16 |
         std::uint64_t{to.flow_label >> 16 & 0xf} << kFlowHighAt |
         std::uint64_t{packet.psns} << kMergedAt | std::uint64_t{to.flow_label} << kFlowLowAt;
}
void unpack(std::uint64_t word, wire::RxDatagram& out) {
  out.traffic_class = static_cast<std::uint8_t>(word);
  out.hop_limit = static_cast<std::uint8_t>(word >> 8);
  out.has_grh = (word >> 16 & 1) != 0;
  out.flow_label =
      static_cast<std::uint32_t>((word >> kFlowHighAt & 0xf) << 16 | word >> kFlowLowAt);
  out.psns = std::max(static_cast<std::uint32_t>(word >> kMergedAt & kMergedBits), 1u);
}

}  // namespace

struct SharedRing::Header {
  std::uint64_t what;
  std::uint64_t key;
  alignas(kLine) std::atomic<std::uint64_t> tail;
  // The writer reads this with every batch. It has a line of its own, which costs the writer
  // nothing while it does not change.
  alignas(kLine) std::atomic<std::uint32_t> sleep;
  alignas(kLine) std::atomic<std::uint32_t> closed;
  std::atomic<std::uint32_t> packs;
};

Result<int, SocketError> SharedRing::create(std::size_t capacity) {
  if (!std::has_single_bit(capacity) || capacity < kCapacityMin || capacity > kCapacityMax) {
    return Failure{ring_error(EINVAL, "creating")};
  }
  const int fd = beyond_streams(::memfd_create("verbena-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return Failure{ring_error(errno, "creating")};
  std::uint64_t words[2] = {kWhat, 0};
  const bool ok = ::getrandom(&words[1], sizeof words[1], 0) == sizeof words[1] &&
                  ::ftruncate(fd, static_cast<off_t>(kPage + capacity)) == 0 &&
                  ::pwrite(fd, words, sizeof words, 0) == sizeof words &&
                  ::fcntl(fd, F_ADD_SEALS, kSeals) == 0;
  if (ok) return fd;
  const int error = errno;
  ::close(fd);
  return Failure{ring_error(error, "creating")};
}

Result<SharedRing, SocketError> SharedRing::map(int fd) {
  struct stat status {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || ::fstat(fd, &status) < 0) return Failure{ring_error(errno, "mapping")};
  const auto size = static_cast<std::size_t>(status.st_size);
  if ((seals & kSeals) != kSeals || size < kPage + kCapacityMin || size > kPage + kCapacityMax ||
      !std::has_single_bit(size - kPage)) {
    return Failure{ring_error(EINVAL, "mapping")};
  }
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Failure{ring_error(errno, "mapping")};
  ::madvise(memory, size, MADV_DONTFORK);
  SharedRing ring(memory, size - kPage);
  if (ring.header().what != kWhat) return Failure{ring_error(EPROTO, "mapping")};
  return ring;
}

SharedRing::SharedRing(void* memory, std::size_t capacity)
    : memory_(memory), capacity_(capacity), key_(header().key), process_(::getpid()) {}

SharedRing::SharedRing(SharedRing&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      capacity_(other.capacity_),
      key_(other.key_),
      process_(other.process_) {}

SharedRing& SharedRing::operator=(SharedRing&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(capacity_, other.capacity_);
  std::swap(key_, other.key_);
  std::swap(process_, other.process_);
  return *this;
}

SharedRing::~SharedRing() {
  if (is_mapped()) ::munmap(memory_, kPage + capacity_);
}

// In a forked child, something else may be mapped at this address.
bool SharedRing::is_mapped() const noexcept { return memory_ != nullptr && process_ == ::getpid(); }

std::uint32_t SharedRing::packets_held(std::size_t packet_bytes) noexcept {
  return static_cast<std::uint32_t>(kDefaultCapacity / record_size(packet_bytes));
}

SharedRing::Header& SharedRing::header() const { return *static_cast<Header*>(memory_); }

std::uint64_t SharedRing::offset_of(std::uint64_t position) const {
  return position & (capacity_ - 1);
}

std::uint8_t* SharedRing::record_at(std::uint64_t position) const {
  return static_cast<std::uint8_t*>(memory_) + kPage + offset_of(position);
}

// Returns the tag in its place above the length.
std::uint64_t SharedRing::tag_of(std::uint64_t position) const {
  std::uint64_t mixed = (position / kLine + key_) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 32;
  return mixed << 16;
}

void SharedRing::close() noexcept {
  if (is_mapped()) header().closed.store(1, std::memory_order_release);
}

bool SharedRing::is_closed() const noexcept {
  return header().closed.load(std::memory_order_relaxed) != 0;
}

void SharedRing::set_packs(Packs packs) noexcept {
  header().packs.store(static_cast<std::uint32_t>(packs), std::memory_order_release);
}

Packs SharedRing::packs() const noexcept {
  const std::uint32_t packs = header().packs.load(std::memory_order_acquire);
  return packs == static_cast<std::uint32_t>(Packs::kMerged) ? Packs::kMerged : Packs::kNothing;
}

std::size_t RingWriter::put(const wire::TxBatch& batch, std::size_t first,
                            std::size_t count) noexcept {
  std::size_t done = 0;
  const bool takes_piggybacked_acks = ring_.packs() != Packs::kNothing;
  const auto packets = batch.packets().subspan(first, count);
  while (done < count) {
    std::optional<wire::PiggybackedAck> ack;
    if (takes_piggybacked_acks && done + 1 < count) {
      ack = wire::PiggybackedAck::of(batch.start_of(packets[done]),
                                     batch.start_of(packets[done + 1]));
    }
    if (!put(batch, packets[ack ? done + 1 : done], ack)) break;
    done += ack ? 2 : 1;
  }
  order_before_look();
  return done;
}

// If a borrowed payload is gone, the packet is spoiled, so that no receiver accepts it.
bool RingWriter::put(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet,
                     const std::optional<wire::PiggybackedAck>& ack) noexcept {
  const std::size_t length = packet.length;
  if (length > wire::kMaxMerged) return false;
  const std::uint64_t size = record_size(length + (ack ? kPiggybackedAckSize : 0));
  const std::uint64_t to_end = ring_.capacity_ - ring_.offset_of(head_);
  // A record that does not fit before the ring's end goes to the beginning.
  const std::uint64_t skipped = size > to_end ? to_end : 0;
  if (!has_room(skipped + size)) return false;
  const std::uint64_t at = head_ + skipped;
  std::uint8_t* record = ring_.record_at(at);
  // The first line is not taken yet: the reader polls it and would take it back while the others
  // are written.
  if (size > kLine) take_lines(record + kLine, size - kLine);
  bool is_there =
      length <= kInFirstLine || batch.copy(packet, kInFirstLine, length, record + kLine);
  std::uint64_t fields = pack(batch.destination(packet), packet);
  if (ack) {
    fields |= kHasPiggybackedAck;
    const std::uint64_t word = ack->word();
    std::memcpy(record + kRecordHeader + length, &word, sizeof word);
  }
  std::memcpy(record + sizeof fields, &fields, sizeof fields);
  is_there &= batch.copy(packet, 0, std::min(length, kInFirstLine), record + kRecordHeader);
  if (!is_there) [[unlikely]] {
    wire::Bth::spoil(record + kRecordHeader);
    batch.note_gone(packet);
  }
  const auto publish = [this](std::uint64_t where, std::uint64_t what) {
    first_word(ring_.record_at(where)).store(ring_.tag_of(where) | what, std::memory_order_release);
  };
  publish(at, length);
  // The record at the beginning is complete before the reader is sent there.
  if (skipped != 0) publish(head_, kJump);
  head_ = at + size;
  return true;
}

// Returns false and closes the ring if the reader breaks the rules: its position moves forward
// only, and never past what was written.
bool RingWriter::look_at_reader() noexcept {
  const std::uint64_t tail = ring_.header().tail.load(std::memory_order_acquire);
  if (tail < tail_seen_ || tail > head_) {
    ring_.close();
    return false;
  }
  tail_seen_ = tail;
  return true;
}

bool RingWriter::fits(std::uint64_t bytes) const noexcept {
  return head_ + bytes - tail_seen_ <= ring_.capacity_;
}

bool RingWriter::has_room(std::uint64_t bytes) noexcept {
  return fits(bytes) || (look_at_reader() && fits(bytes));
}

bool RingWriter::is_half_empty() noexcept {
  const auto is_so = [this] { return head_ - tail_seen_ <= ring_.capacity_ / 2; };
  return is_so() || (look_at_reader() && is_so());
}

wire::Path::Reading RingWriter::reading() noexcept {
  look_at_reader();
  return {head_, tail_seen_};
}

bool RingWriter::should_wake_reader() noexcept {
  const std::uint32_t sleep = ring_.header().sleep.load(std::memory_order_seq_cst);
  if (sleep % 2 == 0 || sleep == woken_sleep_) return false;
  woken_sleep_ = sleep;
  return true;
}

bool RingWriter::is_unread() noexcept {
  return ring_.header().sleep.load(std::memory_order_relaxed) % 2 == 0 && look_at_reader() &&
         tail_seen_ != head_;
}

bool RingReader::has_packet() const noexcept {
  if (is_broken_) return false;
  const std::uint64_t word = first_word(ring_.record_at(tail_)).load(std::memory_order_seq_cst);
  return (word & ~kLengthBits) == ring_.tag_of(tail_);
}

bool RingReader::take(wire::RxDatagram& fields) noexcept {
  release();
  for (;;) {
    if (is_broken_) [[unlikely]]
      return false;
    std::uint8_t* record = ring_.record_at(tail_);
    const std::uint64_t word = first_word(record).load(std::memory_order_acquire);
    if ((word & ~kLengthBits) != ring_.tag_of(tail_)) return false;
    const std::uint64_t to_end = ring_.capacity_ - ring_.offset_of(tail_);
    const std::size_t length = word & kLengthBits;
    std::uint64_t word_of_fields = 0;
    std::memcpy(&word_of_fields, record + sizeof word, sizeof word_of_fields);
    if (length == kJump) [[unlikely]] {
      // A jump at the beginning would skip nothing, so it breaks the rules.
      if (to_end == ring_.capacity_) return break_off();
      tail_ += to_end;
      continue;
    }
    const bool has_piggybacked_ack = (word_of_fields & kHasPiggybackedAck) != 0;
    const std::uint64_t size =
        record_size(length + (has_piggybacked_ack ? kPiggybackedAckSize : 0));
    if (length < wire::Bth::kSize || length > wire::kMaxMerged || size > to_end) [[unlikely]] {
      return break_off();
    }
    unpack(word_of_fields, fields);
    fields.piggybacked_ack.reset();
    if (has_piggybacked_ack) {
      std::uint64_t ack = 0;
      std::memcpy(&ack, record + kRecordHeader + length, sizeof ack);
      fields.piggybacked_ack = wire::PiggybackedAck::of_word(ack);
    }
    // An acknowledgement and the answer often come together. While the first is taken in, the
    // second one's line is on its way.
    __builtin_prefetch(ring_.record_at(tail_ + size));
    tail_ += size;
    const std::uint8_t* packet = record + kRecordHeader;
    const bool stays = length > kCopied;
    short_copy(copied_.data(), packet, stays ? wire::kMaxHeaders : length);
    fields.copied_start = stays ? copied_.data() : nullptr;
    if (stays) bring_lines(record + kLine, size - kLine);
    fields.bytes = {stays ? packet : copied_.data(), length};
    return true;
  }
}

void RingReader::release() noexcept {
  if (tail_ == released_) return;
  ring_.header().tail.store(tail_, std::memory_order_release);
  released_ = tail_;
}

bool RingReader::break_off() noexcept {
  is_broken_ = true;
  ring_.close();
  return false;
}

void RingReader::begin_sleep() noexcept {
  sleep_ += sleep_ % 2 == 0 ? 1 : 2;
  ring_.header().sleep.store(sleep_, std::memory_order_seq_cst);
}

void RingReader::end_sleep() noexcept {
  if (sleep_ % 2 == 0) return;
  ring_.header().sleep.store(++sleep_, std::memory_order_relaxed);
}

}  // namespace verbena::link
