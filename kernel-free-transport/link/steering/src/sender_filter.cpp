// SPDX-License-Identifier: BSD-2-Clause
#include "sender_filter.hpp"

#include <netinet/in.h>

#include "verbena/wire/bytes.hpp"

namespace verbena::link {
namespace {

constexpr auto kNetwork = static_cast<std::uint32_t>(SKF_NET_OFF);  // where the IP header begins
constexpr std::uint32_t kV4Source = kNetwork + 12;
constexpr std::uint32_t kV4End = kNetwork + 20;
constexpr std::uint32_t kV6Next = kNetwork + 6;
constexpr std::uint32_t kV6Source = kNetwork + 8;
constexpr std::uint32_t kV6End = kNetwork + 40;

using Code = std::vector<sock_filter>;

// Makes instructions that return 0 if the source is the local address.
Code refuse_local(const IpAddress& local) {
  Code code;
  const std::size_t words = local.is_v4() ? 1 : 4;
  for (std::size_t w = 0; w < words; ++w) {
    const std::uint32_t word =
        local.is_v4() ? local.v4_host_order() : wire::load_be32(local.bytes.data() + 4 * w);
    const std::uint32_t at =
        local.is_v4() ? kV4Source : kV6Source + static_cast<std::uint32_t>(4 * w);
    code.push_back(statement(BPF_LD | BPF_W | BPF_ABS, at));
    // If the word differs, this jumps past the rest of these instructions.
    code.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, word, 0, 2 * (words - w) - 1));
  }
  code.push_back(statement(BPF_RET | BPF_K, 0));
  return code;
}

}  // namespace

// The first four bytes behind the IP header, whose upper half is the source port, are one load.
// With IPv4 options an option's kind would stand there, and no kind is as high as these ports; with
// IPv6 extension headers the IP header would not name UDP.
std::vector<sock_filter> sender_check(const IpAddress& local, const SenderRule& rule) {
  if (rule.first_source_port == 0) return {};
  constexpr std::uint32_t kBlock = 0x10000u - SourcePorts::kCount;
  const Code otherwise =
      rule.has_foreign_peers ? refuse_local(local) : Code{statement(BPF_RET | BPF_K, 0)};
  Code code;
  if (!local.is_v4()) {
    code.push_back(statement(BPF_LD | BPF_B | BPF_ABS, kV6Next));
    code.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3));
  }
  code.push_back(statement(BPF_LD | BPF_W | BPF_ABS, local.is_v4() ? kV4End : kV6End));
  code.push_back(statement(BPF_ALU | BPF_AND | BPF_K, kBlock << 16));
  code.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, std::uint32_t{rule.first_source_port} << 16,
                      otherwise.size(), 0));
  code.insert(code.end(), otherwise.begin(), otherwise.end());
  return code;
}

}  // namespace verbena::link
