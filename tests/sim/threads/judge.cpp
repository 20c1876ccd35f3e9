// SPDX-License-Identifier: BSD-2-Clause
#include "judge.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace verbena::threads {
namespace {

std::string micros(TimeNs time) { return std::to_string(time / 1000) + " us"; }

}  // namespace

void Judge::fail(std::string what) {
  if (!failure_.empty()) return;
  failure_ = "at " + micros(machine_.now()) + ": " + std::move(what);
  machine_.stop();
}

void Judge::trace(const char* what, const void* whose) const {
  if (!traces_) return;
  const Thread* thread = machine_.running();
  std::printf("%12.3f us %-11s of %p: %s\n", static_cast<double>(machine_.now()) / 1000,
              thread != nullptr ? thread->name.c_str() : "outside", whose, what);
}

void Judge::note_arrival(Message& message, const char* how) {
  message.number = ++messages_;
  message.fate = std::make_shared<Message::Fate>();
  expect_taken("message " + std::to_string(message.number) + " by " + how, message.fate,
               machine_.now() + longest_unattended(turn_));
}

void Judge::note_next(const Message& message) { message.fate->is_next_since = machine_.now(); }

void Judge::expect_taken(std::string what, std::shared_ptr<Message::Fate> fate, TimeNs at) {
  machine_.at(at, [this, what = std::move(what), fate = std::move(fate), at]() mutable {
    if (fate->is_taken) return;
    const TimeNs most = longest_unattended(turn_);
    const TimeNs latest = (fate->is_next_since == kNever ? at : fate->is_next_since) + most;
    if (latest > at) return expect_taken(std::move(what), std::move(fate), latest);
    fail(what + " has waited for more than " + micros(most));
  });
}

void Judge::note_taken(const Message& message, TimeNs attended_since) {
  Message::Fate& fate = *message.fate;
  if (std::exchange(fate.is_taken, true)) return fail("a message was taken twice");
  const TimeNs since = fate.is_next_since;
  const TimeNs waited = std::max(machine_.now(), since) - since;
  worst_unattended_ = std::max(worst_unattended_, waited * 1000 / longest_unattended(turn_));
  if (traces_ && waited > kWork) {
    trace(("takes message " + std::to_string(message.number) + " after " + micros(waited)).c_str(),
          &message);
  }
  if (attended_since > since) return;
  const TimeNs most = longest_attended(turn_);
  worst_attended_ = std::max(worst_attended_, waited * 1000 / most);
  if (waited <= most) return;
  fail("message " + std::to_string(message.number) + " lay for " + micros(waited) +
       " before a thread that waited for it, at most " + micros(most) + " are allowed");
}

void Judge::expect(std::string what, TimeNs from, std::function<bool()> is_done) {
  const TimeNs most = longest_unattended(turn_);
  machine_.at(std::max(from, machine_.now()) + most,
              [this, what = std::move(what), is_done = std::move(is_done), most] {
                if (!is_done()) fail(what + " has waited for more than " + micros(most));
              });
}

}  // namespace verbena::threads
