// SPDX-License-Identifier: BSD-2-Clause
// XRC domains that a file names, as far as they reach beyond this context: the numbers that the
// daemon gave them, and the proxies here for receivers of other contexts (relay/relay.hpp). Owned
// by the context.
//
// Threads: any thread opens and closes domains. Messages of the daemon come under the client's
// lock. The engine calls want() and release() with its locks held.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "verbena/control/channel.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/control/xrc_messages.hpp"
#include "verbena/device/device.hpp"

namespace verbena::provider {

class Context;

class SharedDomains {
 public:
  explicit SharedDomains(Context& context) : context_(context) {}
  ~SharedDomains();
  SharedDomains(const SharedDomains&) = delete;
  SharedDomains& operator=(const SharedDomains&) = delete;

  // A file as the daemon knows it, and a descriptor of it.
  struct File {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    int fd = -1;
  };
  // Returns the domain's number and counts one use of it. Throws VerbRefused.
  std::uint32_t open(const char* verb, const File& file, int oflags);
  // Count one use more, and one less; the domain is closed with the last use. close() ignores a
  // number that is not shared. A caller that handles a message of the daemon cannot await another
  // one.
  enum class Await : std::uint8_t { kDaemon, kNothing };
  void keep(std::uint32_t number);
  void close(std::uint32_t number, Await await);

  void want(const queue::ProxyQp& wanted) noexcept;
  void release(Qpn receiver) noexcept;

  void on_wanted(const control::ProxyWanted& wanted);
  void on_answer(const control::ProxyAnswer& answer);
  void on_released(const control::ProxiesReleased& released);

 private:
  struct Uses {
    std::uint32_t count = 0;
    std::uint32_t opens = 0;  // at the daemon, which wants each of them closed
    // As long as it is open, no new file gets the inode.
    control::UniqueFd file;
  };
  using Line = std::pair<std::uint32_t, std::uint32_t>;  // receiver, line
  qp::QueuePair* proxy_for(const control::ProxyWanted& wanted);

  Context& context_;
  std::mutex lock_;
  std::map<std::uint32_t, Uses> uses_;      // by domain number
  std::map<Line, qp::QueuePair*> proxies_;  // under the client's lock
};

}  // namespace verbena::provider
