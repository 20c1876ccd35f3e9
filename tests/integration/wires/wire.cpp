// SPDX-License-Identifier: BSD-2-Clause
// A wire between two network namespaces: a TUN device in each, and between them what a bad network
// does to packets.
//
//   wire PID PID [--seed N] [--loss P] [--duplicate P] [--reorder P] [--corrupt P] [--delay MS]
//   [--rate MBIT]
//
// PID is any process in the namespace, P is percent. The program makes the device "wire" in both
// and prints "there". When its input ends, it prints as JSON what happened to the packets of each
// direction, and ends. Only RoCE packets are lost, repeated, reordered and corrupted; all are
// delayed. What happens to the n-th RoCE packet of a direction depends only on the seed, n and the
// direction. A reordered packet is overtaken by 1 to 5 others, or is a millisecond late if no
// others come.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

using Time = std::int64_t;  // ns
constexpr Time kMillisecond = 1'000'000;
constexpr std::size_t kLongest = 2048;
constexpr std::uint32_t kOvertakenMost = 5;
constexpr Time kLateMost = kMillisecond;
// A wire with a rate drops a packet if this many wait already.
constexpr std::size_t kWaitingMost = 1000;
constexpr int kReadAtOnce = 32;

Time now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

struct Faults {
  std::uint64_t seed = 1;
  double loss = 0, duplicate = 0, reorder = 0, corrupt = 0;  // percent
  Time delay = 0;
  double ns_per_byte = 0;
};

// Numbers in [0, 1), uniform, that follow from (seed, direction, packet, purpose).
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t direction, std::uint64_t packet)
      : state_(seed * 0x9e3779b97f4a7c15u ^ (direction + 1) * 0xd1b54a32d192ed03u ^ packet << 20) {}
  std::uint64_t roll() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  bool hits(double percent) { return static_cast<double>(roll() >> 11) * 0x1p-53 * 100 < percent; }

 private:
  std::uint64_t state_;
};

struct Packet {
  Time due = 0;
  std::uint32_t length = 0;
  std::array<std::uint8_t, kLongest> bytes;
};

// Returns where the UDP header of a RoCE packet begins, or 0 for other packets.
std::size_t udp_of_roce(const Packet& p) {
  if (p.length < 28 || p.bytes[0] >> 4 != 4 || p.bytes[9] != 17) return 0;
  const std::size_t udp = (p.bytes[0] & 15u) * 4;
  return p.length >= udp + 8 && (p.bytes[udp + 2] << 8 | p.bytes[udp + 3]) == 4791 ? udp : 0;
}

class Direction {
 public:
  Direction(int from, int to, std::uint64_t number, const Faults& faults)
      : from_(from), to_(to), number_(number), faults_(faults) {}

  // Returns whether there may be more to read.
  bool read();
  void deliver();
  // Returns when the next packet is due, if none comes before.
  Time due() const;
  int from() const { return from_; }
  std::string counts() const;

 private:
  struct Held {
    Packet packet;
    std::uint32_t overtaken_by;
    Time until;
  };
  void take(Packet& packet);
  void pass(Packet& packet);
  void release_held(bool one_has_passed);
  void corrupt(Packet& packet, std::size_t udp, std::uint64_t roll);

  int from_, to_;
  std::uint64_t number_;
  const Faults& faults_;
  std::deque<Packet> line_;  // in order of their times
  std::deque<Held> held_;
  Time free_at_ = 0;  // when the wire has sent all that it has
  std::uint64_t packets_ = 0, lost_ = 0, duplicated_ = 0, reordered_ = 0, corrupted_ = 0,
                overflowed_ = 0;
};

void Direction::corrupt(Packet& packet, std::size_t udp, std::uint64_t roll) {
  // The ICRC must detect the damage, not the kernel's checksum, which IPv4 allows to be left out.
  packet.bytes[udp + 6] = packet.bytes[udp + 7] = 0;
  const std::size_t begin = udp + 8;
  const std::size_t bit = roll % ((packet.length - begin) * 8);
  packet.bytes[begin + bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
}

void Direction::pass(Packet& packet) {
  const Time time = now();
  if (faults_.ns_per_byte == 0) {
    packet.due = time + faults_.delay;
  } else {
    if (line_.size() >= kWaitingMost) {
      ++overflowed_;
      return;
    }
    free_at_ = std::max(free_at_, time) + static_cast<Time>(packet.length * faults_.ns_per_byte);
    packet.due = free_at_ + faults_.delay;
  }
  line_.push_back(packet);
}

void Direction::release_held(bool one_has_passed) {
  const Time time = now();
  for (auto held = held_.begin(); held != held_.end();) {
    if (one_has_passed && held->overtaken_by != 0) --held->overtaken_by;
    if (held->overtaken_by != 0 && time < held->until) {
      ++held;
      continue;
    }
    pass(held->packet);
    held = held_.erase(held);
  }
}

void Direction::take(Packet& packet) {
  const std::size_t udp = udp_of_roce(packet);
  if (udp == 0) return pass(packet);
  Dice dice(faults_.seed, number_, packets_++);
  const bool is_lost = dice.hits(faults_.loss);
  const bool is_doubled = dice.hits(faults_.duplicate);
  const bool is_late = dice.hits(faults_.reorder);
  const bool is_corrupt = dice.hits(faults_.corrupt);
  if (is_lost) {
    ++lost_;
    return;
  }
  if (is_corrupt) {
    ++corrupted_;
    corrupt(packet, udp, dice.roll());
  }
  if (is_late) {
    ++reordered_;
    held_.push_back(
        {packet, 1 + static_cast<std::uint32_t>(dice.roll() % kOvertakenMost), now() + kLateMost});
    return;
  }
  pass(packet);
  if (is_doubled) {
    ++duplicated_;
    pass(packet);
  }
  if (!held_.empty()) release_held(true);
}

bool Direction::read() {
  Packet packet;
  for (int i = 0; i < kReadAtOnce; ++i) {
    const ssize_t length = ::read(from_, packet.bytes.data(), packet.bytes.size());
    if (length <= 0) return false;
    packet.length = static_cast<std::uint32_t>(length);
    take(packet);
  }
  return true;
}

void Direction::deliver() {
  if (!held_.empty()) release_held(false);
  const Time time = now();
  while (!line_.empty() && line_.front().due <= time) {
    // The wire does not repeat a packet that the kernel refuses.
    [[maybe_unused]] const ssize_t written =
        ::write(to_, line_.front().bytes.data(), line_.front().length);
    line_.pop_front();
  }
}

Time Direction::due() const {
  Time due = INT64_MAX;
  if (!line_.empty()) due = line_.front().due;
  for (const Held& held : held_) due = std::min(due, held.until);
  return due;
}

std::string Direction::counts() const {
  const auto field = [](const char* name, std::uint64_t value) {
    return "\"" + std::string(name) + "\": " + std::to_string(value);
  };
  return "{" + field("packets", packets_) + ", " + field("lost", lost_) + ", " +
         field("duplicated", duplicated_) + ", " + field("reordered", reordered_) + ", " +
         field("corrupted", corrupted_) + ", " + field("overflowed", overflowed_) + "}";
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "wire: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

int open_in_namespace_of(const char* pid) {
  const int there = ::open(("/proc/" + std::string(pid) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
  if (there < 0 || ::setns(there, CLONE_NEWNET) != 0) give_up(pid);
  ::close(there);
  const int fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) give_up("/dev/net/tun");
  ifreq request{};
  std::strcpy(request.ifr_name, "wire");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(fd, TUNSETIFF, &request) != 0) give_up("TUNSETIFF");
  return fd;
}

Faults faults_of(int argc, char** argv) {
  Faults faults;
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (option == "--seed") {
      faults.seed = std::strtoull(argv[i + 1], nullptr, 0);
    } else if (option == "--loss") {
      faults.loss = value;
    } else if (option == "--duplicate") {
      faults.duplicate = value;
    } else if (option == "--reorder") {
      faults.reorder = value;
    } else if (option == "--corrupt") {
      faults.corrupt = value;
    } else if (option == "--delay") {
      faults.delay = static_cast<Time>(value * kMillisecond);
    } else if (option == "--rate") {
      faults.ns_per_byte = 8e3 / value;
    } else {
      std::fprintf(stderr, "wire: what is %s?\n", argv[i]);
      std::exit(2);
    }
  }
  return faults;
}

// Carries packets until the input ends.
void carry(std::array<Direction, 2>& directions) {
  for (;;) {
    bool more = false;
    Time due = INT64_MAX;
    for (Direction& d : directions) {
      more = d.read() || more;
      d.deliver();
      due = std::min(due, d.due());
    }
    if (more) continue;
    const Time left = due == INT64_MAX ? INT64_MAX : std::max<Time>(due - now(), 0);
    const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
    pollfd fds[] = {
        {directions[0].from(), POLLIN, 0}, {directions[1].from(), POLLIN, 0}, {0, POLLIN, 0}};
    if (::ppoll(fds, 3, due == INT64_MAX ? nullptr : &wait, nullptr) > 0 && fds[2].revents != 0)
      return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0)
    return std::fprintf(stderr, "usage: wire PID PID [OPTION VALUE]...\n"), 2;
  const Faults faults = faults_of(argc, argv);
  const int home = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const int left = open_in_namespace_of(argv[1]);
  if (::setns(home, CLONE_NEWNET) != 0) give_up("setns");
  const int right = open_in_namespace_of(argv[2]);
  std::array<Direction, 2> directions{Direction(left, right, 0, faults),
                                      Direction(right, left, 1, faults)};
  std::printf("there\n");
  std::fflush(stdout);
  carry(directions);
  std::printf("[%s, %s]\n", directions[0].counts().c_str(), directions[1].counts().c_str());
  return 0;
}
