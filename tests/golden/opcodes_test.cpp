// SPDX-License-Identifier: BSD-2-Clause
// The table of opcodes, compared with a second listing that was written from the specification's
// tables and not from the code: number, headers in order, and whether a payload may follow.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "golden_packets.hpp"

namespace verbena {
namespace {

using namespace wire;

// IBTA Vol 1, table "OpCode field": what follows the BTH of a reliable connected packet.
const std::map<unsigned, std::string> kReliableConnected{
    {0x00, "payload"},        {0x01, "payload"},      {0x02, "payload"},
    {0x03, "immdt payload"},  {0x04, "payload"},      {0x05, "immdt payload"},
    {0x06, "reth payload"},   {0x07, "payload"},      {0x08, "payload"},
    {0x09, "immdt payload"},  {0x0a, "reth payload"}, {0x0b, "reth immdt payload"},
    {0x0c, "reth"},           {0x0d, "aeth payload"}, {0x0e, "payload"},
    {0x0f, "aeth payload"},   {0x10, "aeth payload"}, {0x11, "aeth"},
    {0x12, "aeth atomicack"}, {0x13, "atomic"},       {0x14, "atomic"},
    {0x16, "ieth payload"},   {0x17, "ieth payload"}, {0x1c, "feth reth"},
    {0x1d, "reth payload"},
};

std::map<unsigned, std::string> every_opcode() {
  std::map<unsigned, std::string> all = kReliableConnected;
  for (const auto& [number, follows] : kReliableConnected) {
    if (number <= 0x0b) all[0x20 + number] = follows;
    const bool response = number >= 0x0d && number <= 0x12;
    all[0xa0 + number] = response ? follows : "xrceth " + follows;
  }
  all[0x64] = "deth payload";
  all[0x65] = "deth immdt payload";
  all[0x81] = "sixteen";
  return all;
}

const std::map<std::string, std::size_t> kSizes{
    {"xrceth", 4}, {"deth", 8},      {"feth", 4}, {"reth", 16},   {"atomic", 28}, {"aeth", 4},
    {"immdt", 4},  {"atomicack", 8}, {"ieth", 4}, {"payload", 0}, {"sixteen", 16}};

struct Shown {
  bool has;
  std::size_t at;
};
std::map<std::string, Shown> shown(const OpcodeRow& r) {
  return {{"xrceth", {r.xrceth, r.xrceth_at}},
          {"deth", {r.deth, r.deth_at}},
          {"feth", {r.feth, r.feth_at}},
          {"reth", {r.reth, r.reth_at}},
          {"atomic", {r.atomic_eth, r.atomic_eth_at}},
          {"aeth", {r.aeth, r.aeth_at}},
          {"atomicack", {r.atomic_ack_eth, r.atomic_ack_eth_at}},
          {"immdt", {r.immediate, r.immediate_at}},
          {"ieth", {r.ieth, r.ieth_at}}};
}

TEST(Opcodes, EachHasTheHeadersOfTheSpecification) {
  const auto all = every_opcode();
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    SCOPED_TRACE(opcode);
    const OpcodeRow& row = row_of(static_cast<std::uint8_t>(opcode));
    const auto meant = all.find(opcode);
    ASSERT_EQ(row.valid, meant != all.end());
    if (!row.valid) continue;
    auto headers = shown(row);
    std::size_t at = 12;
    bool payload = false;
    std::istringstream words(meant->second);
    for (std::string word; words >> word;) {
      payload |= word == "payload";
      if (const auto header = headers.find(word); header != headers.end()) {
        EXPECT_TRUE(header->second.has) << word;
        EXPECT_EQ(header->second.at, at) << word;
        headers.erase(header);
      }
      at += kSizes.at(word);
    }
    for (const auto& [word, header] : headers) {
      EXPECT_FALSE(header.has) << word;
      EXPECT_EQ(header.at, 0u) << word;
    }
    EXPECT_EQ(row.header_bytes, at);
    EXPECT_EQ(row.payload, payload);
  }
}

TEST(Opcodes, NamesAreDistinctAndNameTheTransport) {
  std::map<std::string_view, unsigned> names;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const OpcodeRow& row = row_of(static_cast<std::uint8_t>(opcode));
    if (row.valid) {
      EXPECT_TRUE(names.emplace(row.name, opcode).second) << row.name;
    }
  }
  EXPECT_EQ(names.size(), 65u);
  EXPECT_EQ(row_of(Opcode::kXrcAtomicWrite).name, "XRC ATOMIC WRITE");
}

TEST(Opcodes, MakeOpcodeIsTheInverseAndRefusesTheRest) {
  using enum Operation;
  EXPECT_EQ(make_opcode(WireTransport::kRc, kSend, Place::kOnly), 0x04);
  EXPECT_EQ(make_opcode(WireTransport::kRc, kSend, Place::kLast, true), 0x03);
  EXPECT_EQ(make_opcode(WireTransport::kRc, kSend, Place::kOnly, false, true), 0x17);
  EXPECT_EQ(make_opcode(WireTransport::kUc, kWrite, Place::kOnly, true), 0x2b);
  EXPECT_EQ(make_opcode(WireTransport::kUd, kSend, Place::kOnly, true), 0x65);
  EXPECT_EQ(make_opcode(WireTransport::kXrc, kFlush, Place::kOnly), 0xbc);
  EXPECT_EQ(make_opcode(WireTransport::kXrc, kAtomicWrite, Place::kOnly), 0xbd);
  EXPECT_EQ(make_opcode(WireTransport::kCnp, Operation::kCnp, Place::kOnly), 0x81);
  EXPECT_EQ(make_opcode(WireTransport::kUc, kReadRequest, Place::kOnly), kNoOpcode);
  EXPECT_EQ(make_opcode(WireTransport::kUc, kSend, Place::kOnly, false, true), kNoOpcode);
  EXPECT_EQ(make_opcode(WireTransport::kUd, kSend, Place::kFirst), kNoOpcode);
  EXPECT_EQ(make_opcode(WireTransport::kRd, kSend, Place::kOnly), kNoOpcode);
  EXPECT_EQ(make_opcode(WireTransport::kRc, kSend, Place::kOnly, true, true), kNoOpcode);
  EXPECT_EQ(make_opcode(WireTransport::kRc, kSend, Place::kFirst, true), kNoOpcode);
}

TEST(Opcodes, ReceivesAreTakenBySendsAndByWritesWithImmediate) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const OpcodeRow& row = row_of(static_cast<std::uint8_t>(opcode));
    if (!row.valid) continue;
    SCOPED_TRACE(row.name);
    const bool send = row.operation == Operation::kSend;
    const bool first = row.place == Place::kOnly || row.place == Place::kFirst;
    const bool last = row.place == Place::kOnly || row.place == Place::kLast;
    const bool write_immediate = row.operation == Operation::kWrite && row.immediate;
    EXPECT_EQ(row.consumes_receive, (send && first) || write_immediate);
    EXPECT_EQ(row.completes_receive, (send && last) || write_immediate);
    EXPECT_EQ(row.starts_message, first);
    EXPECT_EQ(row.ends_message, last);
    EXPECT_EQ(row.request + row.response + (opcode == 0x81), 1);
  }
}

}  // namespace
}  // namespace verbena
