// SPDX-License-Identifier: BSD-2-Clause
// Writes every golden packet into a capture file, and beside it one line of JSON per packet that
// says what it was meant to be. Foreign programs can then say what they see.
//
//   golden_witness CAPTURE.pcap MEANT.jsonl     for judge.py
//   golden_witness --hex                        packets.hex, the committed bytes
//   golden_witness --corpus DIRECTORY           seeds for the fuzzers
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "golden_packets.hpp"
#include "verbena/wire/icrc.hpp"

namespace verbena::golden {
namespace {

using namespace wire;

constexpr std::uint32_t kPcapMagic = 0xa1b2c3d4;
constexpr std::uint32_t kLinkTypeRawIp = 101;

void put32(std::ofstream& out, std::uint32_t value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_pcap_header(std::ofstream& out) {
  put32(out, kPcapMagic);
  put32(out, 2u | 4u << 16);  // version 2.4
  put32(out, 0);
  put32(out, 0);
  put32(out, 65535);
  put32(out, kLinkTypeRawIp);
}

void put_pcap_record(std::ofstream& out, std::uint32_t index,
                     const std::vector<std::uint8_t>& datagram) {
  put32(out, 1'700'000'000);
  put32(out, index);
  put32(out, static_cast<std::uint32_t>(datagram.size()));
  put32(out, static_cast<std::uint32_t>(datagram.size()));
  out.write(reinterpret_cast<const char*>(datagram.data()),
            static_cast<std::streamsize>(datagram.size()));
}

// One line of JSON, made of the values before encoding and not of the encoded bytes.
class Meant {
 public:
  void number(const char* key, std::uint64_t value) { put(key, std::to_string(value)); }
  void text(const char* key, const std::string& value) { put(key, '"' + value + '"'); }
  std::string line() const { return '{' + fields_ + "}\n"; }

 private:
  void put(const char* key, const std::string& value) {
    if (!fields_.empty()) fields_ += ", ";
    fields_ += std::string("\"") + key + "\": " + value;
  }
  std::string fields_;
};

std::string raw_hex(std::uint32_t as_stored) {
  std::vector<std::uint8_t> bytes(4);
  store_raw32(bytes.data(), as_stored);
  return to_hex(bytes);
}

std::string meant(const GoldenPacket& p, const IpFrame& frame,
                  const std::vector<std::uint8_t>& datagram) {
  const OpcodeRow& row = row_of(p.opcode);
  const PacketHeaders& h = p.headers;
  Meant m;
  m.text("name", p.name);
  m.text("opcode_name", std::string(row.name));
  m.number("opcode", p.opcode);
  m.number("solicited", h.bth.solicited);
  m.number("migreq", h.bth.migreq);
  m.number("pad", h.bth.pad);
  m.number("version", h.bth.version);
  m.number("pkey", h.bth.pkey);
  m.number("fecn", h.bth.fecn);
  m.number("becn", h.bth.becn);
  m.number("dest_qp", h.bth.dest_qp.value());
  m.number("ack_request", h.bth.ack_request);
  m.number("psn", h.bth.psn.value());
  m.number("ip_id", frame.ip_id);
  m.number("header_bytes", row.header_bytes);
  if (row.xrceth) m.number("srqn", h.xrceth.srqn);
  if (row.deth) {
    m.number("qkey", h.deth.qkey);
    m.number("source_qp", h.deth.source_qp.value());
  }
  if (row.feth) {
    m.number("placement_type", h.feth.placement_type);
    m.number("selectivity", h.feth.selectivity);
  }
  if (row.reth) {
    m.number("reth_va", h.reth.va);
    m.number("reth_rkey", h.reth.rkey);
    m.number("reth_length", h.reth.length);
  }
  if (row.atomic_eth) {
    m.number("atomic_va", h.atomic_eth.va);
    m.number("atomic_rkey", h.atomic_eth.rkey);
    m.number("swap_or_add", h.atomic_eth.swap_or_add);
    m.number("compare", h.atomic_eth.compare);
  }
  if (row.aeth) {
    m.number("syndrome", h.aeth.syndrome);
    m.number("msn", h.aeth.msn);
  }
  if (row.atomic_ack_eth) m.number("original", h.atomic_ack_eth.original);
  if (row.immediate) m.text("immediate", raw_hex(h.immediate.data));
  if (row.ieth) m.number("invalidate_rkey", h.ieth.rkey);
  m.text("payload", to_hex(p.payload));
  m.text("icrc", to_hex({datagram.end() - 4, datagram.end()}));
  return m.line();
}

int write_capture(const char* capture_path, const char* meant_path) {
  std::ofstream capture(capture_path, std::ios::binary);
  std::ofstream lines(meant_path);
  put_pcap_header(capture);
  std::uint32_t index = 0;
  for (const GoldenPacket& p : golden_packets()) {
    const IpFrame frame = golden_frame(index);
    const auto datagram = golden_datagram(p, frame);
    put_pcap_record(capture, index, datagram);
    lines << meant(p, frame, datagram);
    ++index;
  }
  capture.close();
  lines.close();
  return capture && lines ? 0 : 1;
}

int write_hex() {
  std::size_t index = 0;
  for (const GoldenPacket& p : golden_packets()) {
    std::cout << p.name << '|' << to_hex(golden_datagram(p, golden_frame(index++))) << '\n';
  }
  return 0;
}

// Returns the frame that tests/fuzz/wire/packet_target.cpp uses for this first byte.
IpFrame fuzz_frame(std::uint8_t choice) {
  const bool v6 = (choice & 1) != 0;
  return {.source = *IpAddress::parse(v6 ? "fd00::1" : "127.1.0.1"),
          .destination = *IpAddress::parse(v6 ? "fd00::2" : "127.1.0.2"),
          .source_port = static_cast<std::uint16_t>(0xc000 + (choice >> 1 & 3))};
}

// Every other packet is enough for a first corpus. Long payloads teach the parser nothing.
int write_corpus(const std::string& directory) {
  std::size_t index = 0;
  for (const GoldenPacket& p : golden_packets()) {
    const std::size_t i = index++;
    if (i % 2 == 1 || p.payload.size() > 64) continue;
    const auto choice = static_cast<std::uint8_t>(i / 2 % 8);
    IpFrame frame = fuzz_frame(choice);
    if (i % 3 == 0 && frame.destination.is_v4()) frame.ip_id = static_cast<std::uint16_t>(i * 997);
    const auto datagram = golden_datagram(p, frame);
    char name[32];
    std::snprintf(name, sizeof name, "/packet-%02x-%02zu", p.opcode, i);
    std::ofstream out(directory + name, std::ios::binary);
    out.put(static_cast<char>(choice));
    out.write(reinterpret_cast<const char*>(datagram.data() + frame.size()),
              static_cast<std::streamsize>(datagram.size() - frame.size()));
    if (!out) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace verbena::golden

int main(int argc, char** argv) {
  using namespace verbena::golden;
  const std::string first = argc > 1 ? argv[1] : "";
  if (argc == 2 && first == "--hex") return write_hex();
  if (argc == 3 && first == "--corpus") return write_corpus(argv[2]);
  if (argc == 3) return write_capture(argv[1], argv[2]);
  std::cerr << "usage: golden_witness CAPTURE MEANT | --hex | --corpus DIRECTORY\n";
  return 2;
}
