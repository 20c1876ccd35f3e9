// Captures are read back by tshark, which knows RoCEv2 independently of us. It must be there.
#include "verbena/link/capture_link.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>

#include "link_fixture.hpp"
#include "verbena/link/fault_link.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::link::test {
namespace {

using ::testing::HasSubstr;

constexpr TimeNs kWhen = 1'600'000'000'123'456'789;
TimeNs fixed_time() noexcept { return kWhen; }

class CaptureFile {
 public:
  CaptureFile() {
    fd_ = ::mkstemp(name_);
    EXPECT_GE(fd_, 0);
  }
  ~CaptureFile() {
    ::unlink(name_);
    ::close(fd_);
  }
  int fd() const { return ::dup(fd_); }
  const char* name() const { return name_; }
  off_t size() const { return ::lseek(fd_, 0, SEEK_END); }

 private:
  char name_[64] = "/tmp/verbena-capture-test-XXXXXX";
  int fd_ = -1;
};

using Row = std::vector<std::string>;

// One row of fields for each packet, as tshark prints them.
std::vector<Row> dissect(const CaptureFile& file, const std::string& fields) {
  std::string command = "tshark -r " + std::string(file.name()) + " -T fields -E separator='|'";
  std::istringstream names(fields);
  for (std::string name; names >> name;) command += " -e " + name;
  command += " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::vector<Row> rows;
  std::array<char, 4096> line;
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
    std::string text(line.data());
    if (text.starts_with("Running as user")) continue;
    if (!text.empty() && text.back() == '\n') text.pop_back();
    Row row;
    std::size_t at = 0;
    for (std::size_t bar = 0; bar != std::string::npos; at = bar + 1) {
      bar = text.find('|', at);
      row.push_back(text.substr(at, bar - at));
      if (bar == std::string::npos) break;
    }
    rows.push_back(row);
  }
  EXPECT_EQ(::pclose(pipe), 0) << "tshark is needed here (apt install tshark)";
  return rows;
}

struct CapturedPair {
  CapturedPair() : group_a(open_group(own_address(0))), group_b(open_group(own_address(1))) {}
  SlotGroup group_a;
  SlotGroup group_b;
  Node a{group_a};
  Node b{group_b};
};

TEST(CaptureLink, WiresharkReadsBothDirections) {
  CapturedPair pair;
  CaptureFile file;
  CaptureLink capture(std::move(pair.a.link), own_address(0), &fixed_time);
  capture.start(file.fd());
  ASSERT_TRUE(capture.is_running());

  Batch out;
  out.add(make_packet(pair.b.qp(1), 77, 1036), to(own_address(1)));
  out.add(make_packet(pair.b.qp(1), 78, 16), to(own_address(1)));
  ASSERT_EQ(capture.send(out.get(), pair.a.qp(1)), 2u);
  Batch back;
  back.add(make_packet(pair.a.qp(1), 79, 16), to(own_address(0)));
  ASSERT_EQ(pair.b.link->send(back.get(), pair.b.qp(1)), 1u);
  Collector sink;
  ASSERT_EQ(receive_count(capture, sink, 1), 1u);
  EXPECT_EQ(sink.arrived.size(), 1u);
  capture.stop();
  EXPECT_EQ(capture.packets_written(), 3u);

  const auto rows = dissect(file,
                            "frame.time_epoch frame.protocols ip.src ip.dst udp.dstport "
                            "infiniband.bth.psn infiniband.bth.destqp udp.length "
                            "frame.packet_flags_direction");
  ASSERT_EQ(rows.size(), 3u);
  for (const Row& row : rows) {
    ASSERT_EQ(row.size(), 9u) << row[0];
    EXPECT_EQ(row[0], "1600000000.123456789");
    EXPECT_THAT(row[1], HasSubstr("ip:udp:infiniband"));
    EXPECT_EQ(row[4], "4791");
  }
  const std::string a = own_address(0).to_string();
  const std::string b = own_address(1).to_string();
  EXPECT_EQ((Row{rows[0][2], rows[0][3], rows[0][5], rows[0][7]}),
            (Row{a, b, "77", std::to_string(8 + 1036 + 4)}));
  EXPECT_EQ((Row{rows[1][2], rows[1][3], rows[1][5]}), (Row{a, b, "78"}));
  EXPECT_EQ((Row{rows[2][2], rows[2][3], rows[2][5]}), (Row{b, a, "79"}));
  EXPECT_NE(rows[0][8], rows[2][8]);
}

TEST(CaptureLink, TheIcrcFitsTheHeadersInTheFile) {
  CapturedPair pair;
  CaptureFile file;
  CaptureLink capture(std::move(pair.a.link), own_address(0), &fixed_time);
  capture.start(file.fd());
  for (const bool is_damaged : {false, true}) {
    Batch out;
    out.add(make_packet(pair.b.qp(1), 5, 64), to(own_address(1)));
    is_damaged ? capture.send_damaged(out.get(), pair.a.qp(1), Damage{500})
               : capture.send(out.get(), pair.a.qp(1));
  }
  capture.stop();
  const auto rows = dissect(file, "udp.srcport infiniband.invariant.crc");
  ASSERT_EQ(rows.size(), 2u);
  const auto port = static_cast<std::uint16_t>(std::stoul(rows[0][0]));
  const Bytes packet = make_packet(pair.b.qp(1), 5, 64);
  const std::uint32_t icrc = wire::IcrcFlow(own_address(0), own_address(1), port).compute(packet);
  std::uint8_t stored[4];
  wire::store_le32(stored, icrc);
  EXPECT_EQ(std::stoul(rows[0][1], nullptr, 16), wire::load_be32(stored));
  EXPECT_NE(std::stoul(rows[1][1], nullptr, 16), wire::load_be32(stored));
}

TEST(CaptureLink, CapturesIpv6) {
  const IpAddress loopback = IpAddress::parse("::1").value();
  const UdpOptions options{.port = own_port()};
  SlotGroup group = open_group(loopback, options.port);
  Node a(group, options);
  CaptureFile file;
  CaptureLink capture(std::move(a.link), loopback, &fixed_time);
  capture.start(file.fd());
  Batch out;
  out.add(make_packet(Qpn(0x10005), 3, 64), to(loopback));
  ASSERT_EQ(capture.send(out.get(), a.qp(1)), 1u);
  capture.stop();
  const auto rows = dissect(file, "frame.protocols ipv6.src infiniband.bth.psn");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_THAT(rows[0][0], HasSubstr("ipv6:udp:infiniband"));
  EXPECT_EQ(rows[0][1], "::1");
  EXPECT_EQ(rows[0][2], "3");
}

TEST(CaptureLink, RunsOnlyBetweenStartAndStop) {
  CapturedPair pair;
  CaptureFile file;
  CaptureLink capture(std::move(pair.a.link), own_address(0));
  const auto send_one = [&](std::uint32_t psn) {
    Batch out;
    out.add(make_packet(pair.b.qp(1), psn, 64), to(own_address(1)));
    EXPECT_EQ(capture.send(out.get(), pair.a.qp(1)), 1u);
  };
  send_one(0);
  EXPECT_EQ(file.size(), 0);
  capture.start(file.fd());
  send_one(1);
  capture.stop();
  send_one(2);
  capture.start(file.fd(), false);  // goes on with the file
  send_one(3);
  capture.stop();
  const auto rows = dissect(file, "infiniband.bth.psn");
  EXPECT_EQ(rows, (std::vector<Row>{{"1"}, {"3"}}));
}

// Nobody reads the pipe any more, or the disk is full: the program under capture must not notice.
TEST(CaptureLink, EndsWhenItCannotWriteAndThePacketsGoOn) {
  CapturedPair pair;
  CaptureLink capture(std::move(pair.a.link), own_address(0));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  capture.start(ends[1]);
  ASSERT_TRUE(capture.is_running());
  ::close(ends[0]);
  Batch out;
  out.add(make_packet(pair.b.qp(1), 0, 64), to(own_address(1)));
  EXPECT_EQ(capture.send(out.get(), pair.a.qp(1)), 1u);
  EXPECT_FALSE(capture.is_running());
  EXPECT_EQ(capture.packets_written(), 0u);
  Collector sink;
  EXPECT_EQ(receive_count(*pair.b.link, sink, 1), 1u);
}

}  // namespace
}  // namespace verbena::link::test
