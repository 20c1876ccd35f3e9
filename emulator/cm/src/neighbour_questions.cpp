// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/neighbour_questions.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::cm {

void NeighbourQuestions::forget(IdHandle id) {
  std::erase_if(open_, [&](const Question& question) { return question.id == id; });
}

TimeNs NeighbourQuestions::next_deadline() const {
  TimeNs first = kNever;
  for (const Question& question : open_) first = std::min(first, question.look_at);
  return first;
}

std::vector<NeighbourQuestions::Ended> NeighbourQuestions::look(TimeNs now) {
  std::vector<Ended> ended;
  for (Question& question : std::exchange(open_, {})) {
    if (now < question.look_at) {
      open_.push_back(question);
      continue;
    }
    question.route.port = ports_.find(question.device);
    const bool is_up = question.route.port != nullptr && ports_.is_active(question.device);
    if (is_up && ports_.has_answered(question.route.peer)) {
      ended.push_back({question.id, question.route, 0});
    } else if (is_up && now < question.until) {
      question.look_at = now + kLook;
      open_.push_back(question);
    } else {
      ended.push_back({question.id, question.route, is_up ? ETIMEDOUT : ENODEV});
    }
  }
  return ended;
}

}  // namespace verbena::cm
