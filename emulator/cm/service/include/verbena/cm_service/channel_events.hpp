// SPDX-License-Identifier: BSD-2-Clause
// The first events that wait on a channel, laid out in the memory that the channel's owner has
// mapped (control/cm_event_page.hpp). The rdma_cm layer learns what was taken from there only when
// it is settled: before each command of the channel, and when a listener's backlog seems to be used
// up. Owned by CmService, on its thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "verbena/cm/rdma_cm.hpp"
#include "verbena/cm/ucma.hpp"
#include "verbena/control/cm_event_page.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cm_service {

class ChannelEvents {
 public:
  // Returns null if no memory or no descriptor is left. Programs then ask for each event.
  static std::unique_ptr<ChannelEvents> create();
  ~ChannelEvents();
  ChannelEvents(const ChannelEvents&) = delete;
  ChannelEvents& operator=(const ChannelEvents&) = delete;

  // Returns the memory's descriptor, once.
  control::UniqueFd release_fd() { return std::move(fd_); }

  // Counts what was handed out as reported. Returns how many announcements readers took for it.
  std::size_t settle(cm::RdmaCm& cm, cm::ChannelId channel);
  // Lays out the waiting events, as far as they fit, and announces the last. Must be called after
  // settle(). Settles what was handed out meanwhile.
  std::size_t lay_out(cm::Ucma& ucma, cm::RdmaCm& cm, cm::ChannelId channel);
  // The next two settle as well: what they find handed out meanwhile counts as reported. What they
  // take back cannot be handed out any more, whatever a program does with the memory.
  //
  // Takes back the first event, before a client fetches it by a command.
  std::size_t take_back_first(cm::RdmaCm& cm, cm::ChannelId channel);
  // Takes back the first event of this ID or membership and all behind it, before it is withdrawn.
  std::size_t take_back_from(cm::RdmaCm& cm, cm::ChannelId channel, std::uint32_t number);
  // Return how many events are laid out, how many messages are on the channel for them, and how
  // many there will be once the last event is announced.
  std::size_t size() const { return laid_out_.size(); }
  std::size_t announced() const { return announced_; }
  std::size_t to_be_announced() const {
    return announced_ + (laid_out_.empty() || laid_out_.back().is_announced ? 0 : 1);
  }
  // Returns true if all waiting events are laid out. A program that has the memory then needs the
  // emulator for none of them.
  bool has_all(const cm::RdmaCm& cm, cm::ChannelId channel) const {
    return laid_out_.size() == cm.pending_events(channel);
  }
  // Leaves the events in the memory, which the programs keep when the emulator ends.
  void leave_to_programs() { laid_out_.clear(); }
  // Must be called before a command changes this ID.
  void outdate_answers(std::uint32_t id) { writer_.outdate_answers(id); }
  void outdate_all_answers() { writer_.outdate_all_answers(); }

 private:
  struct LaidOut {
    control::CmEventWriter::Sequence sequence;
    cm::IdHandle owner;
    std::uint32_t membership;
    bool is_announced = false;
  };

  ChannelEvents(control::UniqueFd fd, control::CmEventPage* page)
      : fd_(std::move(fd)), page_(page), writer_(*page) {}
  std::size_t take_back_after(cm::RdmaCm& cm, cm::ChannelId channel, std::size_t count);
  // Counts the first `count` events as reported. Returns how many announcements belong to them.
  std::size_t hand_out(cm::RdmaCm& cm, cm::ChannelId channel, std::size_t count);
  void forget_announcement_of(const LaidOut& event) { announced_ -= event.is_announced ? 1 : 0; }

  control::UniqueFd fd_;
  control::CmEventPage* page_;
  control::CmEventWriter writer_;
  std::deque<LaidOut> laid_out_;       // the first waiting events, in their order
  std::size_t announced_ = 0;          // how many of them are announced
  std::vector<std::uint8_t> answers_;  // answers beside the event that is laid out now
};

}  // namespace verbena::cm_service
