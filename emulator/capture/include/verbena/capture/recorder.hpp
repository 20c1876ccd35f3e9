// SPDX-License-Identifier: BSD-2-Clause
// Reads the rings of all captured contexts (link/capture_ring.hpp) and makes one pcapng file in
// order of time. It has an interface for each process, named after the process; the interface's
// statistics, which count what was left out; and comments, which name the process of a queue pair
// and the effects of faults. Memory is bounded: what was read waits in one buffer, and while that
// is full, records wait in the rings, which leave out what does not fit. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/capture/frame.hpp"
#include "verbena/capture/pcapng.hpp"
#include "verbena/link/capture_ring.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::capture {

class Recorder {
 public:
  // The size at which the buffer of blocks is full.
  static constexpr std::size_t kBufferBytes = 256 * 1024;
  // How many ended sources keep unread records while nothing takes the blocks.
  static constexpr std::size_t kEndedMost = 256;
  // How long the recorder waits for a writer that was stopped in the middle of a record.
  static constexpr TimeNs kPatience = 200'000'000;

  // A source of records: one context, or the emulator's own queue pairs of one port.
  struct Origin {
    std::uint32_t number = 0;
    std::uint32_t pid = 0;
    std::string program;
    std::string device;
    IpAddress address;
    std::uint32_t slot = 0;
  };

  explicit Recorder(const std::string& application, link::Clock clock = &link::monotonic_now_ns,
                    link::Clock wall_clock = &link::realtime_now_ns);

  void add(const Origin& origin, link::CaptureRing ring);
  // Adds another slot of a source's queue pair numbers.
  void add_slot(std::uint32_t number, std::uint32_t slot);
  // Marks a source as ended. Records that it left in its ring are still read.
  void end(std::uint32_t number);

  // Reads the records up to the time `until`, as far as the buffer has room.
  enum class Found : std::uint8_t { kSome, kNothing, kAll };
  // kAll: all records up to `until` were read, and no others will come.
  Found read(TimeNs until = kNever);
  // Adds the statistics of all interfaces as the last blocks, which take about bytes_to_finish().
  void finish();
  std::size_t bytes_to_finish() const;

  // The blocks to be written next; written() says how many of their bytes were written.
  std::span<const std::uint8_t> blocks() const;
  void written(std::size_t bytes);
  // Drops the blocks to be written, which must begin with a whole block. Their packets count as
  // left out.
  void give_up_blocks();

  TimeNs now() const { return clock_(); }

  std::uint64_t packets() const { return packets_; }
  std::uint64_t dropped() const;

 private:
  struct Interface {
    std::uint32_t number = 0;
    std::size_t sources = 0;
    TimeNs begin = 0;
    // Counts of sources that are gone, and the dropped packets that were last reported.
    std::uint64_t received = 0;
    std::uint64_t dropped = 0;
    std::uint64_t dropped_said = 0;
  };
  struct Source {
    Origin origin;
    link::CaptureReader reader;
    std::uint64_t taken = 0;
    bool is_ended = false;
    // All records up to `complete` were seen. The others are the time of the previous look, the
    // activity that it found, and since when the ring has had that.
    TimeNs complete = 0;
    TimeNs looked = 0;
    std::uint32_t activity = 0;
    TimeNs changed = 0;
  };

  TimeNs look_at(Source& source, TimeNs now);
  std::size_t add_records(TimeNs now, TimeNs until);
  void add_record(Source& source);
  void say_changes(TimeNs now);
  std::string comment_on(const Source& source, const link::CaptureRecord& record);
  std::string describe(const IpAddress& address, std::uint32_t qpn) const;
  std::uint64_t dropped_by(const Source& source) const;
  std::uint64_t dropped_at(std::uint32_t pid) const;
  void say_statistics(std::uint32_t pid);
  void remove(std::list<Source>::iterator source);
  void remove_drained();

  link::Clock clock_;
  TimeNs wall_offset_;
  std::vector<std::uint8_t> buffer_;
  std::size_t written_ = 0;  // bytes of the buffer that were written
  Pcapng file_{buffer_};
  Frame frame_;

  std::list<Source> sources_;
  std::map<std::uint32_t, Interface> interfaces_;  // by process ID
  std::uint32_t next_interface_ = 0;
  // The owner of each slot, or its last owner.
  std::map<std::pair<IpAddress, std::uint32_t>, Origin> slots_;
  // The recording source, the sender, both addresses, the receiver, and the receiver's owner.
  using Conversation =
      std::tuple<std::uint32_t, std::uint32_t, IpAddress, IpAddress, std::uint32_t, std::uint32_t>;
  std::set<Conversation> explained_;

  TimeNs last_time_ = 0;
  TimeNs said_at_ = 0;
  std::uint64_t packets_ = 0;
  std::uint64_t dropped_ = 0;  // packets of processes that are gone
};

}  // namespace verbena::capture
