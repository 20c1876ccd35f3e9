// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/capture/frame.hpp"

#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/icrc.hpp"

namespace verbena::capture {
namespace {

using link::CaptureRecord;

std::size_t headers_of(const CaptureRecord& record) {
  return wire::IpFrame{.destination = record.destination}.size();
}

}  // namespace

std::uint8_t* Frame::room_for(const CaptureRecord& record) {
  return datagram_.data() + headers_of(record);
}

std::span<const std::uint8_t> Frame::packet(const CaptureRecord& record) const {
  return std::span(datagram_).subspan(headers_of(record), record.kept);
}

bool Frame::complete(const CaptureRecord& record) {
  constexpr std::size_t kLongest = 0xffff - wire::IpFrame::kSizeMax - wire::kIcrcSize;
  if (record.source.is_v4() != record.destination.is_v4() || record.kept < wire::Bth::kSize ||
      record.length > kLongest) {
    return false;
  }
  wire::IpFrame ip;
  ip.source = record.source;
  ip.destination = record.destination;
  ip.source_port = record.source_port;
  ip.traffic_class = record.traffic_class;
  ip.hop_limit = record.hop_limit;
  ip.flow_label = record.flow_label;
  const std::size_t payload = record.length + wire::kIcrcSize;
  ip.write_to(datagram_.data(), payload);
  length_ = ip.size() + payload;
  size_ = ip.size() + record.kept;
  if (record.kept != record.length) return true;
  const std::uint32_t icrc =
      wire::IcrcFlow(ip.source, ip.destination, ip.source_port).compute(packet(record));
  const bool is_damaged = record.fate == CaptureRecord::Fate::kDamaged;
  wire::store_le32(datagram_.data() + size_, is_damaged ? ~icrc : icrc);
  size_ += wire::kIcrcSize;
  wire::set_udp_checksum(datagram_.data(), size_);
  return true;
}

}  // namespace verbena::capture
