// SPDX-License-Identifier: BSD-2-Clause
// What the tests of memory share: a registry over a port whose pages a test can remove.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "verbena/memory/registry.hpp"

namespace verbena::memory {

// For the messages of failed expectations.
inline void PrintTo(Refusal refusal, std::ostream* out) { *out << to_string(refusal); }

namespace testing {

inline constexpr DomainId kDomain = 7;
inline constexpr DomainId kOtherDomain = 8;
inline constexpr std::uint32_t kAllRemote = kRemoteWrite | kRemoteRead | kRemoteAtomic;
inline constexpr std::uint32_t kFull = kLocalWrite | kAllRemote | kWindowBind;

// Memory whose pages may be absent or read-only; counts how it is used.
class FlakyPort final : public MemoryPort {
 public:
  bool read(void* to, std::uint64_t address, std::size_t length) noexcept override {
    ++reads;
    if (!present) return false;
    std::memcpy(to, reinterpret_cast<const void*>(address), length);
    return true;
  }
  bool write(std::uint64_t address, const void* from, std::size_t length) noexcept override {
    ++writes;
    if (!present || !writable) return false;
    std::memcpy(reinterpret_cast<void*>(address), from, length);
    return true;
  }
  bool is_mapped(std::uint64_t, std::size_t length, bool for_writing) noexcept override {
    ++questions;
    asked_length = length;
    asked_writable = for_writing;
    return present && (writable || !for_writing);
  }

  bool present = true;
  bool writable = true;
  std::atomic<int> reads{0};
  std::atomic<int> writes{0};
  std::atomic<int> questions{0};
  std::atomic<std::size_t> asked_length{0};
  std::atomic<bool> asked_writable{false};
};

template <typename T>
Refusal refusal_of(const Result<T, Refusal>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? Refusal{} : result.error();
}

class RegistryTest : public ::testing::Test {
 protected:
  RegionRequest request(std::uint32_t access) const {
    RegionRequest r;
    r.domain = kDomain;
    r.host_address = address(0);
    r.length = sizeof buffer_;
    r.base = r.host_address;
    r.access = access;
    return r;
  }
  std::uint32_t add(const RegionRequest& r) {
    auto key = registry_.register_region(r);
    EXPECT_TRUE(key.ok());
    return key.ok() ? *key : 0;
  }
  std::uint32_t add(std::uint32_t access) { return add(request(access)); }
  std::uint32_t add_window(bool type2, DomainId domain = kDomain) {
    auto key = registry_.allocate_window(domain, type2);
    EXPECT_TRUE(key.ok());
    return key.ok() ? *key : 0;
  }
  Result<Pin, Refusal> pin(std::uint32_t key, std::uint64_t at, std::uint64_t length,
                           std::uint32_t need = kRemoteRead, std::uint32_t qpn = kAnyQp,
                           DomainId domain = kDomain) {
    return registry_.pin({key, domain, at, length, need, qpn});
  }
  std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(buffer_) + offset;
  }

  FlakyPort port_;
  Registry registry_{port_};
  alignas(64) std::uint8_t buffer_[4096] = {};
};

}  // namespace testing
}  // namespace verbena::memory
