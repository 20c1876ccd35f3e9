// SPDX-License-Identifier: BSD-2-Clause
// The first events that wait on a channel, laid out in the memory that the channel's owner has
// mapped (control/cm_event_page.hpp). The books of the rdma_cm layer hear of what was taken there
// only when they are settled: before each command of the channel, and when a listener's backlog
// seems to be used up. Owned by CmService, on its thread.
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
  // Null when there is no memory or no descriptor left: then programs ask for each event.
  static std::unique_ptr<ChannelEvents> create();
  ~ChannelEvents();
  ChannelEvents(const ChannelEvents&) = delete;
  ChannelEvents& operator=(const ChannelEvents&) = delete;

  // The memory's descriptor, once.
  control::UniqueFd release_fd() { return std::move(fd_); }

  // Enters in the books what was handed out; returns how many announcements readers took for it.
  std::size_t settle(cm::RdmaCm& cm, cm::ChannelId channel);
  // Lays out what waits, as far as there is room, and announces the last. Settled before; settles
  // what was handed out meanwhile.
  std::size_t lay_out(cm::Ucma& ucma, cm::RdmaCm& cm, cm::ChannelId channel);
  // The next two settle as well: what they find handed out meanwhile is entered in the books, and
  // what they take back cannot be handed out any more, whatever a program does with the memory.
  //
  // Before somebody fetches the first event by a command.
  std::size_t take_back_first(cm::RdmaCm& cm, cm::ChannelId channel);
  // Before events of this ID or membership are withdrawn: from its first on none is laid out.
  std::size_t take_back_from(cm::RdmaCm& cm, cm::ChannelId channel, std::uint32_t number);
  // How many events are laid out, and how many messages have to be on the channel for them: first
  // as it is, then when those that are not announced yet will be.
  std::size_t size() const { return laid_out_.size(); }
  std::size_t announced() const { return announced_; }
  std::size_t to_be_announced() const {
    return announced_ + (laid_out_.empty() || laid_out_.back().is_announced ? 0 : 1);
  }
  // All that wait are laid out and announced: who has the memory needs the emulator for none.
  bool has_all(const cm::RdmaCm& cm, cm::ChannelId channel) const {
    return laid_out_.size() == cm.pending_events(channel);
  }
  // The emulator ends: they outlive it, since the memory is the programs' as well.
  void leave_to_programs() { laid_out_.clear(); }
  // Before a command changes this ID.
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
  // Enters in the books that the first so many were handed out; returns with how many
  // announcements.
  std::size_t hand_out(cm::RdmaCm& cm, cm::ChannelId channel, std::size_t count);
  void forget_announcement_of(const LaidOut& event) { announced_ -= event.is_announced ? 1 : 0; }

  control::UniqueFd fd_;
  control::CmEventPage* page_;
  control::CmEventWriter writer_;
  std::deque<LaidOut> laid_out_;       // the first of those that wait, in their order
  std::size_t announced_ = 0;          // of them
  std::vector<std::uint8_t> answers_;  // beside the event that is laid out now
};

}  // namespace verbena::cm_service
