// SPDX-License-Identifier: BSD-2-Clause
// Reads the rings of all that are captured (link/capture_ring.hpp) and makes one pcapng file of
// them, in order of time: an interface for each process, named after it, what was left out in the
// interface's statistics, and comments: which process a queue pair is of, and what a fault took.
// Bounded: what is read waits in one buffer, and while that is full, in the rings, which then leave
// out what does not fit. One thread.
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
  // A file's worth of blocks that are read at once.
  static constexpr std::size_t kBufferBytes = 256 * 1024;
  // What those that have ended left in their rings, while nobody takes what is read.
  static constexpr std::size_t kEndedMost = 256;
  // A writer that was stopped in the middle of a record is waited for so long.
  static constexpr TimeNs kPatience = 200'000'000;

  // One context, or the emulator's own queue pairs of one port.
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
  // One more slot of its queue pair numbers.
  void add_slot(std::uint32_t number, std::uint32_t slot);
  // It has ended. What it left is still read.
  void end(std::uint32_t number);

  // Reads what is there and not younger than `until`, as far as the buffer has room.
  enum class Found : std::uint8_t { kSome, kNothing, kAll };
  // kAll: and nothing as old as that will come.
  Found read(TimeNs until = kNever);
  // Adds the statistics of those that are there, as the last blocks; of about so many bytes.
  void finish();
  std::size_t bytes_to_finish() const;

  // What is to be written next, and how much of that was.
  std::span<const std::uint8_t> blocks() const;
  void written(std::size_t bytes);
  // Nobody will take them, which begin with a whole block: their packets count as left out.
  void give_up_blocks();

  TimeNs now() const { return clock_(); }

  std::uint64_t packets() const { return packets_; }
  std::uint64_t dropped() const;

 private:
  struct Interface {
    std::uint32_t number = 0;
    std::size_t sources = 0;
    TimeNs begin = 0;
    // Of sources that are gone; and what was said last.
    std::uint64_t received = 0;
    std::uint64_t dropped = 0;
    std::uint64_t dropped_said = 0;
  };
  struct Source {
    Origin origin;
    link::CaptureReader reader;
    std::uint64_t taken = 0;
    bool is_ended = false;
    // Up to then all was seen. Of the look before: when it was, and what it found since when.
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
  std::size_t written_ = 0;  // of the buffer
  Pcapng file_{buffer_};
  Frame frame_;

  std::list<Source> sources_;
  std::map<std::uint32_t, Interface> interfaces_;  // by process
  std::uint32_t next_interface_ = 0;
  // Whose queue pairs a slot has, or had last.
  std::map<std::pair<IpAddress, std::uint32_t>, Origin> slots_;
  // Who records, the sender, both addresses, the receiver and whose it is.
  using Conversation =
      std::tuple<std::uint32_t, std::uint32_t, IpAddress, IpAddress, std::uint32_t, std::uint32_t>;
  std::set<Conversation> explained_;

  TimeNs last_time_ = 0;
  TimeNs said_at_ = 0;
  std::uint64_t packets_ = 0;
  std::uint64_t dropped_ = 0;  // of processes that are gone
};

}  // namespace verbena::capture
