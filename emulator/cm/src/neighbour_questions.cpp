// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/neighbour_questions.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace verbena::cm {

void NeighbourQuestions::ask(IdHandle id, const ResolvedRoute& route, TimeNs until) {
  Neighbour& neighbour = neighbours_[route.peer];
  // A neighbour that others wait for has been asked lately.
  neighbour.look_at =
      neighbour.open.empty() ? 0 : std::min(neighbour.look_at, neighbour.looked_at + kLook);
  neighbour.silent_since.reset();
  neighbour.open.push_back({id, route.port->device, route, until});
}

void NeighbourQuestions::forget(IdHandle id) {
  for (auto& [address, neighbour] : neighbours_) {
    std::erase_if(neighbour.open, [id](const Question& question) { return question.id == id; });
  }
  drop_unawaited();
}

void NeighbourQuestions::drop_unawaited() {
  std::erase_if(neighbours_, [](const auto& entry) { return entry.second.open.empty(); });
}

void NeighbourQuestions::look_soon() {
  for (auto& [address, neighbour] : neighbours_) neighbour.look_at = 0;
}

TimeNs NeighbourQuestions::next_deadline() const {
  TimeNs first = kNever;
  for (const auto& [address, neighbour] : neighbours_) first = std::min(first, neighbour.look_at);
  return first;
}

std::vector<NeighbourQuestions::Ended> NeighbourQuestions::look(TimeNs now) {
  std::vector<Ended> ended;
  for (auto& [address, neighbour] : neighbours_) {
    if (now >= neighbour.look_at) check(address, neighbour, now, ended);
  }
  drop_unawaited();
  return ended;
}

void NeighbourQuestions::check(const IpAddress& address, Neighbour& neighbour, TimeNs now,
                               std::vector<Ended>& ended) {
  std::optional<bool> has_answered;
  TimeNs first_end = kNever;
  for (Question& question : std::exchange(neighbour.open, {})) {
    question.route.port = ports_.find(question.device);
    const bool is_up = question.route.port != nullptr && ports_.is_active(question.device);
    if (is_up && !has_answered) has_answered = ports_.has_answered(address);
    if (is_up && *has_answered) {
      ended.push_back({question.id, question.route, 0});
    } else if (is_up && now < question.until) {
      first_end = std::min(first_end, question.until);
      neighbour.open.push_back(question);
    } else {
      ended.push_back({question.id, question.route, is_up ? ETIMEDOUT : ENODEV});
    }
  }
  if (neighbour.open.empty()) return;
  if (!neighbour.silent_since) neighbour.silent_since = now;
  const TimeNs pause = std::clamp((now - *neighbour.silent_since) / 4, kLook, kLookMax);
  neighbour.looked_at = now;
  neighbour.look_at = now + std::max(kLook, std::min(pause, first_end - now));
}

}  // namespace verbena::cm
