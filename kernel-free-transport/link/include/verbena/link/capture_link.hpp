// A decorator that writes what passes into a capture file, without root: pcapng, link type "raw
// IP". The packets get an IP and a UDP header made from what the engine knows, and an ICRC that is
// right for them, so that Wireshark shows RoCEv2 whichever link carried them. Source ports are
// made up: one for each sending queue pair, with the parity of grh_port.hpp. Costs a load while
// no capture runs. A capture that cannot be written any more ends; the packets go on.
//
// Threads: as Link says; start() and stop() at any time from any thread. While a capture runs,
// sends wait for each other, so that the file's order is the order of what happened.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "verbena/base/address.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/link.hpp"

namespace verbena::link {

class CaptureLink final : public Link {
 public:
  CaptureLink(std::unique_ptr<Link> inner, const IpAddress& local, Clock clock = &realtime_now_ns);
  ~CaptureLink() override;

  // Called, with an errno, each time that a capture ends because its file takes no more; before the
  // first start().
  using Ended = void (*)(int error) noexcept;
  void set_ended(Ended ended) noexcept { ended_ = ended; }
  // Captures into `fd` (taken over) from now on. With `write_header` the file begins here;
  // without, blocks are added to a capture that another process began (open it O_APPEND: each
  // packet is one write). A capture that was running ends.
  void start(int fd, bool write_header = true) noexcept;
  // Ends the capture and closes its file.
  void stop() noexcept;
  bool is_running() const noexcept { return running_.read_relaxed(); }
  std::uint64_t packets_written() const noexcept { return written_.read(); }

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override;
  // The file shows the packets whole, with an ICRC that is wrong.
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept override;
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;
  int wait_fd() const noexcept override { return inner_->wait_fd(); }
  int wake_fd() const noexcept override { return inner_->wake_fd(); }
  int wake_edges() const noexcept override { return inner_->wake_edges(); }
  void silence() noexcept override { inner_->silence(); }
  bool prepare_wait() noexcept override { return inner_->prepare_wait(); }
  void end_wait() noexcept override { inner_->end_wait(); }
  TimeNs next_timeout() const noexcept override { return inner_->next_timeout(); }
  std::uint32_t capacity_packets(std::size_t packet_bytes) const noexcept override {
    return inner_->capacity_packets(packet_bytes);
  }

  Link& inner() { return *inner_; }

 private:
  class Tap;
  struct Frame;
  // Block header and options, IPv6 and UDP headers, the packet and its ICRC.
  static constexpr std::size_t kBlockMax = 128 + wire::kMaxPacket + wire::kIcrcSize;

  void record_sent(const wire::TxBatch& batch, std::size_t count, Qpn flow, TimeNs when,
                   bool is_damaged) noexcept;
  void record(const Frame& frame, TimeNs when) noexcept;
  bool write_block(std::span<const std::uint8_t> block) noexcept;
  void close_file() noexcept;

  std::unique_ptr<Link> inner_;
  IpAddress local_;
  Clock clock_;
  Ended ended_ = nullptr;
  Published<bool> running_{false};
  Counter written_;

  Lock lock_;  // guards the two below
  int fd_ = -1;
  std::array<std::uint8_t, kBlockMax> block_;
};

}  // namespace verbena::link
