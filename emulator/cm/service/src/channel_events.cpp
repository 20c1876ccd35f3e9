// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/channel_events.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "verbena/control/cm_answers.hpp"

namespace verbena::cm_service {

using control::CmEventPage;

std::unique_ptr<ChannelEvents> ChannelEvents::create() {
  // The seals keep a client from shrinking the memory, which would cause SIGBUS here.
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  control::UniqueFd fd(::memfd_create("verbena-events", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), sizeof(CmEventPage)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return nullptr;
  }
  void* at = ::mmap(nullptr, sizeof(CmEventPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  // The file's zeros are a valid page. To construct one would touch all of its memory.
  return std::unique_ptr<ChannelEvents>(
      new ChannelEvents(std::move(fd), std::launder(static_cast<CmEventPage*>(at))));
}

// Takes back what is laid out, so that a program that keeps the memory finds nothing in it, except
// after leave_to_programs().
ChannelEvents::~ChannelEvents() {
  for (const LaidOut& event : laid_out_) writer_.take_back(event.sequence);
  writer_.outdate_all_answers();
  ::munmap(page_, sizeof *page_);
}

std::size_t ChannelEvents::hand_out(cm::RdmaCm& cm, cm::ChannelId channel, std::size_t count) {
  const std::size_t before = announced_;
  for (std::size_t i = 0; i < count; ++i) {
    cm.get_event(channel);
    forget_announcement_of(laid_out_.front());
    laid_out_.pop_front();
  }
  return before - announced_;
}

std::size_t ChannelEvents::settle(cm::RdmaCm& cm, cm::ChannelId channel) {
  const auto first_left = std::find_if(laid_out_.begin(), laid_out_.end(), [&](const auto& event) {
    return !writer_.is_handed_out(event.sequence);
  });
  return hand_out(cm, channel, static_cast<std::size_t>(first_left - laid_out_.begin()));
}

std::size_t ChannelEvents::lay_out(cm::Ucma& ucma, cm::RdmaCm& cm, cm::ChannelId channel) {
  while (const cm::RdmaEvent* event = cm.pending_event(channel, laid_out_.size())) {
    const cm::IdHandle asked_about = event->request != 0 ? event->request : event->owner;
    writer_.outdate_answers(asked_about);
    if (!writer_.has_room()) break;
    answers_.clear();
    ucma.answers_after(channel, *event, [this](const cm::UcmaAnswer& answer) {
      control::append_answer(answers_, {answer.command, answer.argument}, answer.response);
    });
    const auto sequence = writer_.push(asked_about, cm::Ucma::event_bytes(*event), answers_);
    if (!sequence) break;
    laid_out_.push_back({*sequence, event->owner, event->membership});
  }
  if (laid_out_.empty() || laid_out_.back().is_announced) return 0;
  // The last event was handed out already, and so were those before it: nothing is left to
  // announce.
  if (!writer_.announce(laid_out_.back().sequence)) return hand_out(cm, channel, laid_out_.size());
  laid_out_.back().is_announced = true;
  ++announced_;
  return 0;
}

std::size_t ChannelEvents::take_back_first(cm::RdmaCm& cm, cm::ChannelId channel) {
  std::size_t count = 0;
  while (!laid_out_.empty() && !writer_.take_back(laid_out_.front().sequence)) {
    count += hand_out(cm, channel, 1);
  }
  if (laid_out_.empty()) return count;
  forget_announcement_of(laid_out_.front());
  laid_out_.pop_front();
  return count;
}

// Goes backwards: readers take events in their order, so the first that cannot be taken back shows
// that all before it were handed out.
std::size_t ChannelEvents::take_back_after(cm::RdmaCm& cm, cm::ChannelId channel,
                                           std::size_t count) {
  while (laid_out_.size() > count) {
    if (!writer_.take_back(laid_out_.back().sequence)) {
      return hand_out(cm, channel, laid_out_.size());
    }
    forget_announcement_of(laid_out_.back());
    laid_out_.pop_back();
  }
  return settle(cm, channel);
}

std::size_t ChannelEvents::take_back_from(cm::RdmaCm& cm, cm::ChannelId channel,
                                          std::uint32_t number) {
  const auto first = std::find_if(laid_out_.begin(), laid_out_.end(), [&](const LaidOut& event) {
    return event.owner == number || event.membership == number;
  });
  return take_back_after(cm, channel, static_cast<std::size_t>(first - laid_out_.begin()));
}

}  // namespace verbena::cm_service
