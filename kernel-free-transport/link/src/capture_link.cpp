#include "verbena/link/capture_link.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "verbena/link/grh_port.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/icrc.hpp"
#include "verbena/wire/ip_frame.hpp"

namespace verbena::link {
namespace {

enum class Direction : std::uint32_t { kInbound = 1, kOutbound = 2 };

// pcapng, in the byte order of the machine (the section header says which).
//
//   section header     | type | length | magic | 1.0 | section length -1 (unknown) | length |
//   interface          | type | length | link type, 0 | snap length | if_tsresol | end | length |
//   enhanced packet    | type | length | interface | time (2 words) | captured | original
//                      | bytes, padded | epb_flags: direction | end of options | length |
constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::uint16_t kLinkTypeRaw = 101;  // begins with the IP header
constexpr std::uint16_t kOptionTimeResolution = 9;
constexpr std::uint16_t kOptionFlags = 2;
constexpr std::uint8_t kNanoseconds = 9;

class BlockWriter {
 public:
  explicit BlockWriter(std::uint8_t* out) : out_(out) {}

  template <typename T>
  void put(T value) {
    std::memcpy(out_ + used_, &value, sizeof value);
    used_ += sizeof value;
  }
  std::uint8_t* skip(std::size_t bytes) {
    std::uint8_t* at = out_ + used_;
    used_ += bytes;
    return at;
  }
  void pad() {
    while (used_ % 4 != 0) out_[used_++] = 0;
  }
  void begin(std::uint32_t type) {
    start_ = used_;
    put(type);
    put(std::uint32_t{0});
  }
  // The length stands at both ends.
  void end() {
    const auto length = static_cast<std::uint32_t>(used_ - start_ + sizeof(std::uint32_t));
    put(length);
    std::memcpy(out_ + start_ + 4, &length, sizeof length);
  }
  std::span<const std::uint8_t> written() const { return {out_, used_}; }

 private:
  std::uint8_t* out_;
  std::size_t used_ = 0;
  std::size_t start_ = 0;
};

std::span<const std::uint8_t> write_file_header(std::uint8_t* out) {
  BlockWriter w(out);
  w.begin(kSectionHeader);
  w.put(kByteOrderMagic);
  w.put(std::uint16_t{1});
  w.put(std::uint16_t{0});
  w.put(~std::uint64_t{0});
  w.end();
  w.begin(kInterfaceDescription);
  w.put(kLinkTypeRaw);
  w.put(std::uint16_t{0});
  w.put(std::uint32_t{0});
  w.put(kOptionTimeResolution);
  w.put(std::uint16_t{1});
  w.put(kNanoseconds);
  w.pad();
  w.put(std::uint32_t{0});
  w.end();
  return w.written();
}

// The reader of a pipe may be gone, or the file as long as this process may make one; SIGPIPE or
// SIGXFSZ would then end a stranger's program.
ssize_t write_without_signal(int fd, std::span<const std::uint8_t> block) {
  sigset_t write_signals;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&write_signals);
  sigaddset(&write_signals, SIGPIPE);
  sigaddset(&write_signals, SIGXFSZ);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &write_signals, &before);
  ssize_t n = 0;
  do {
    n = write_bytes(fd, block.data(), block.size());
  } while (n == -EINTR);
  const int raised = n == -EPIPE ? SIGPIPE : n == -EFBIG ? SIGXFSZ : 0;
  if (raised != 0 && sigismember(&pending, raised) == 0) {
    sigset_t just_raised;
    sigemptyset(&just_raised);
    sigaddset(&just_raised, raised);
    const timespec at_once{};
    while (sigtimedwait(&just_raised, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return n;
}

// A file that this process may not make long enough (`ulimit -f`) would get a piece of the block,
// and who reads the file could not read what others append behind it.
bool has_room_for(int fd, std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  struct stat file {};
  if (::fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return true;
  return static_cast<rlim_t>(file.st_size) + bytes <= limit.rlim_cur;
}

// In the range that RoCEv2 names for source ports.
std::uint16_t made_up_port(std::uint32_t flow, bool has_grh) {
  const auto port = static_cast<std::uint16_t>(0xc000 | ((flow * 2) & 0x3ffe));
  return source_port_says_grh(port) == has_grh ? port : static_cast<std::uint16_t>(port + 1);
}

}  // namespace

struct CaptureLink::Frame {
  std::span<const std::uint8_t> packet;  // BTH .. pad
  wire::IpFrame ip;
  Direction direction = Direction::kOutbound;
  bool is_damaged = false;
};

// Stands between the inner link and the caller's sink.
class CaptureLink::Tap final : public RxSink {
 public:
  Tap(CaptureLink& owner, RxSink& sink) : owner_(owner), sink_(sink) {}

  void on_datagram(const wire::RxDatagram& d) noexcept override {
    // Its sender does not know yet that captures show ordinary packets.
    if (d.psns > 1) return sink_.on_datagram(d);
    Frame frame{.packet = d.bytes, .ip = {}, .direction = Direction::kInbound};
    frame.ip.source = d.source;
    frame.ip.destination = d.destination;
    frame.ip.source_port = made_up_port(0, d.has_grh);
    frame.ip.traffic_class = d.traffic_class;
    frame.ip.hop_limit = d.hop_limit;
    {
      const Guard guard(owner_.lock_);
      if (d.rider) record_rider(d, frame);
      owner_.record(frame, owner_.clock_());
    }
    sink_.on_datagram(d);
  }

 private:
  // As the packet that it was.
  void record_rider(const wire::RxDatagram& d, Frame frame) {
    std::array<std::uint8_t, wire::Rider::kPacketSize> bytes;
    d.rider->write_packet(d.bytes.data(), bytes.data());
    frame.packet = bytes;
    owner_.record(frame, owner_.clock_());
  }

  CaptureLink& owner_;
  RxSink& sink_;
};

CaptureLink::CaptureLink(std::unique_ptr<Link> inner, const IpAddress& local, Clock clock)
    : inner_(std::move(inner)), local_(local), clock_(clock) {}

CaptureLink::~CaptureLink() { stop(); }

void CaptureLink::start(int fd, bool write_header) noexcept {
  const Guard guard(lock_);
  close_file();
  fd_ = fd;
  running_.publish(true);
  if (write_header) write_block(write_file_header(block_.data()));
}

void CaptureLink::stop() noexcept {
  const Guard guard(lock_);
  close_file();
}

std::size_t CaptureLink::send(wire::TxBatch& batch, Qpn flow) noexcept {
  if (!running_.read_relaxed()) return inner_->send(batch, flow);
  // Held across the send: an answer, read by another thread, must not be written first.
  const Guard guard(lock_);
  const TimeNs when = clock_();
  const std::size_t taken = inner_->send(batch, flow);
  record_sent(batch, taken, flow, when, false);
  return taken;
}

std::size_t CaptureLink::send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept {
  if (running_.read_relaxed()) {
    // Before, because the inner link damages the batch's own bytes.
    const Guard guard(lock_);
    record_sent(batch, batch.size(), flow, clock_(), true);
  }
  return inner_->send_damaged(batch, flow, damage);
}

std::size_t CaptureLink::receive(RxSink& sink, std::size_t budget) noexcept {
  if (!running_.read_relaxed()) return inner_->receive(sink, budget);
  Tap tap(*this, sink);
  return inner_->receive(tap, budget);
}

void CaptureLink::record_sent(const wire::TxBatch& batch, std::size_t count, Qpn flow, TimeNs when,
                              bool is_damaged) noexcept {
  for (const wire::TxBatch::Packet& p : batch.packets().first(count)) {
    if (p.psns != 0) continue;
    const wire::Destination& to = batch.destination(p);
    Frame frame{.packet = batch.bytes_of(p), .ip = {}, .is_damaged = is_damaged};
    frame.ip.source = local_;
    frame.ip.destination = to.address;
    frame.ip.source_port = made_up_port(flow.value(), to.has_grh);
    frame.ip.traffic_class = to.traffic_class;
    frame.ip.hop_limit = to.hop_limit;
    frame.ip.flow_label = to.flow_label;
    record(frame, when);
  }
}

// Under the lock. A packet longer than any of ours is cut, as a capture may.
void CaptureLink::record(const Frame& frame, TimeNs when) noexcept {
  const bool is_ip = frame.ip.source.is_v4() == frame.ip.destination.is_v4();
  if (fd_ < 0 || !is_ip || frame.packet.size() < wire::Bth::kSize) return;
  const std::size_t payload = frame.packet.size() + wire::kIcrcSize;
  const std::size_t headers = frame.ip.size();
  const std::size_t kept = std::min(frame.packet.size(), wire::kMaxPacket);
  const bool is_whole = kept == frame.packet.size();
  const std::size_t captured = headers + kept + (is_whole ? wire::kIcrcSize : 0);

  BlockWriter w(block_.data());
  w.begin(kEnhancedPacket);
  w.put(std::uint32_t{0});
  w.put(static_cast<std::uint32_t>(when >> 32));
  w.put(static_cast<std::uint32_t>(when));
  w.put(static_cast<std::uint32_t>(captured));
  w.put(static_cast<std::uint32_t>(headers + payload));
  std::uint8_t* datagram = w.skip(captured);
  frame.ip.write_to(datagram, payload);
  std::memcpy(datagram + headers, frame.packet.data(), kept);
  if (is_whole) {
    const wire::IcrcFlow flow(frame.ip.source, frame.ip.destination, frame.ip.source_port);
    // Of the copy: a ring's packet may change under us.
    const std::uint32_t icrc = flow.compute(std::span(datagram + headers, kept));
    wire::store_le32(datagram + headers + kept, frame.is_damaged ? ~icrc : icrc);
    wire::set_udp_checksum(datagram, captured);
  }
  w.pad();
  w.put(kOptionFlags);
  w.put(std::uint16_t{4});
  w.put(static_cast<std::uint32_t>(frame.direction));
  w.put(std::uint32_t{0});
  w.end();
  if (write_block(w.written())) written_.add();
}

// Under the lock. A block that was written in part would spoil what follows: the end.
bool CaptureLink::write_block(std::span<const std::uint8_t> block) noexcept {
  const ssize_t n = has_room_for(fd_, block.size()) ? write_without_signal(fd_, block) : -EFBIG;
  if (n == static_cast<ssize_t>(block.size())) return true;
  close_file();
  if (ended_ != nullptr) ended_(n < 0 ? static_cast<int>(-n) : ENOSPC);
  return false;
}

void CaptureLink::close_file() noexcept {
  running_.publish(false);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace verbena::link
