// SPDX-License-Identifier: BSD-2-Clause
// One opened device (ibv_open_device): what belongs to the application as a whole, its handles,
// channels and events, and the engines that do the work. alloc_context makes it, and it lives until
// ibv_close_device. When the daemon dies the context turns fatal: its queue pairs flush, the
// application gets IBV_EVENT_DEVICE_FATAL, and nothing new can be made.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "verbena/abi/library.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/context/channels.hpp"
#include "verbena/context/engines.hpp"
#include "verbena/context/failing_calls.hpp"
#include "verbena/context/imports.hpp"
#include "verbena/context/multicast.hpp"
#include "verbena/context/program_events.hpp"
#include "verbena/context/shared_domains.hpp"
#include "verbena/context/xrc_receivers.hpp"
#include "verbena/objects/exports.hpp"
#include "verbena/objects/mapping_watch.hpp"
#include "verbena/objects/objects.hpp"
#include "verbena/objects/user_memory.hpp"
#include "verbena/report/guard.hpp"

namespace verbena::provider {

class Context final {
 public:
  // Speaks to the daemon over the context's cmd_fd. Throws VerbRefused.
  Context(const abi::Library& library, ibv_context* public_context, const char* device_name);
  ~Context();
  Context(const Context&) = delete;

  static Context& of(ibv_context* context) {
    return **static_cast<Context**>(abi::Library::extra_of(context));
  }

  const abi::Library& library() const { return library_; }
  ibv_context* public_context() const { return public_context_; }
  UserMemory& user_memory() { return memory_; }
  std::mutex& lock() { return lock_; }  // lists of objects: channels, XRC domains, groups, imports

  // --- engines ---
  Engines& engines() { return engines_; }
  AttachedEngine& first() { return engines_.first(); }
  // The first engine's device has the domains, the regions and what queue pairs share.
  device::Device& device() { return first().engine().device(); }
  const AddressPlan& plan() { return first().engine().plan(); }
  bool is_fatal() const { return engines_.first().has_failed(); }
  // The program has closed our descriptors, like a daemon that closes all from 3 on. The device is
  // lost as if its emulator had died, and no descriptor number is used any more.
  void on_descriptors_closed() noexcept;
  bool has_lost_descriptors() const noexcept { return has_lost_descriptors_.read(); }
  // Takes the place of the destructor if the program has closed our descriptors: the context stays
  // in memory, because its destructor would close the numbers. Returns false if the program has not
  // closed them and the context can be destroyed.
  bool leave_behind() noexcept;
  // Refuses with EIO, explained, once the daemon is gone.
  void check_alive(const char* verb) const { engines_.first().check_alive(verb); }

  // --- the daemon, by the first engine's connection ---
  template <typename Reply, typename Request>
  control::Outcome<Reply> ask(const Request& request) {
    return first().client().ask<Reply>(request);
  }
  template <typename Message>
  void tell(const Message& message) noexcept {
    first().client().tell(message);
  }
  control::DeviceInfo info() { return first().port().info(); }
  // Returns what the whole port has counted, over all processes. If the emulator does not answer,
  // returns what this context's first engine has counted.
  control::Counters port_counters();
  // Handles the daemon's messages that concern the application, under the first client's lock.
  void on_message(const control::Incoming& message);

  // --- objects ---
  // Returns a number for an SRQ that is not an XRC SRQ.
  std::uint32_t next_srq_number() {
    return control::plain_srq_number(device().options().slot,
                                     srqs_made_.fetch_add(1, std::memory_order_relaxed) + 1);
  }
  std::uint32_t next_cq_number() { return cqs_made_.fetch_add(1, std::memory_order_relaxed) + 1; }
  memory::DomainId next_domain() { return next_domain_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t next_xrc_domain() { return next_xrcd_.fetch_add(1, std::memory_order_relaxed); }
  ObjectCounts& counts() { return first().counts(); }
  Exports& exports() { return exports_; }
  Imports& imports() { return imports_; }
  Multicast& multicast() { return multicast_; }
  std::vector<Xrcd*>& xrc_domains() { return xrcds_; }
  SharedDomains& shared_domains() { return shared_domains_; }
  XrcReceivers& receivers() { return receivers_; }
  FailingCalls& failing_calls() { return failing_calls_; }

  // --- events ---
  std::shared_ptr<CompletionChannel> channel_of(ibv_comp_channel* channel) {
    return channels_.of(channel);
  }
  // Returns the channel of this context whose reading end is `fd`, or null if there is none.
  std::shared_ptr<CompletionChannel> channel_at(int fd) noexcept {
    return is_fatal() ? nullptr : channels_.read_at(fd);
  }
  ProgramEvents& events() { return events_; }
  void on_completion_event(Cq& cq) noexcept;
  void on_async_event(queue::AsyncEvent event, void* cookie) noexcept;
  // A completion queue was armed, or its event has fired.
  void note_armed(Cq& cq, queue::Arming arming) noexcept {
    if (cq.channel) first().engine().note_armed(*cq.channel, arming);
  }
  void note_fired(Cq& cq) noexcept {
    if (cq.channel) first().engine().note_fired(*cq.channel);
  }

  // --- around a fork (live_contexts.hpp) ---
  // Between these two calls no other thread is inside the context and its engines.
  void pause() noexcept;
  void resume() noexcept;
  // Resumes in the child, where the context is dead and holds nothing of the parent's.
  void resume_dead() noexcept;

 private:
  const abi::Library& library_;
  ibv_context* public_context_;
  std::mutex lock_;
  Published<bool> has_lost_descriptors_{false};
  Context* left_before_ = nullptr;  // keeps contexts that were left behind reachable for LSan
  UserMemory memory_;
  ProgramEvents events_;
  Channels channels_{lock_};
  std::vector<Xrcd*> xrcds_;
  std::atomic<memory::DomainId> next_domain_{1};
  std::atomic<std::uint32_t> next_xrcd_{1};
  std::atomic<std::uint32_t> cqs_made_{0};
  std::atomic<std::uint32_t> srqs_made_{0};
  Exports exports_;
  Imports imports_{*this};
  Multicast multicast_{*this};
  SharedDomains shared_domains_{*this};
  XrcReceivers receivers_{*this};
  FailingCalls failing_calls_;
  Engines engines_{*this};
  std::optional<MappingWatch> mappings_;
};

}  // namespace verbena::provider
