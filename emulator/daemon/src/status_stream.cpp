// SPDX-License-Identifier: BSD-2-Clause
#include "status_stream.hpp"

#include <algorithm>

#include "verbena/base/types.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/fabric/port.hpp"

namespace verbena::daemon {
namespace {

using control::StatusOf;

constexpr std::uint32_t kPage = control::StatusReport::kMostInOne;

// Returns how many pages the context may have. A context that reports more is not believed.
std::size_t most_pages(StatusOf what, const ContextStatus& context) {
  // Allows what the context said that it has, and more for objects that it made meanwhile.
  const auto pages_of = [](std::uint32_t count) { return std::size_t{count} * 2 / kPage + 2; };
  switch (what) {
    case StatusOf::kCompletionQueues:
      return pages_of(context.first.counts.cqs);
    case StatusOf::kSharedReceives:
      return pages_of(context.first.counts.srqs);
    case StatusOf::kQueuePairs:
    case StatusOf::kAll:
      break;
  }
  // Allows as many as the context's slots have numbers for.
  constexpr std::size_t kPerSlot = std::size_t{1} << Qpn::kIndexBits;
  return (1 + context.extra_slots.size()) * kPerSlot / kPage + 1;
}

std::uint32_t number_of(const control::QpStatus& qp) { return qp.qpn; }
std::uint32_t number_of(const control::CqStatus& cq) { return cq.number; }
std::uint32_t number_of(const control::SrqStatus& srq) { return srq.number; }

}  // namespace

StatusStream::StatusStream(Host& host, fabric::ClientId asker,
                           std::vector<const fabric::Port*> ports,
                           std::vector<ContextStatus> contexts,
                           std::unique_ptr<StatusWriter> writer)
    : host_(host),
      asker_(asker),
      ports_(std::move(ports)),
      contexts_(std::move(contexts)),
      writer_(std::move(writer)) {}

void StatusStream::go_on() {
  if (!has_begun_) {
    has_begun_ = true;
    writer_->begin();
    return host_.go_on_when_read(asker_);
  }
  if (next_port_ == 0 && writer_->cm_ids()) return host_.go_on_when_read(asker_);
  if (is_in_context_) return ask();
  const bool is_of_this_device = next_context_ < contexts_.size() && next_port_ > 0 &&
                                 contexts_[next_context_].port == ports_[next_port_ - 1];
  if (is_of_this_device) return begin_next_context();
  if (next_port_ < ports_.size()) {
    writer_->device(*ports_[next_port_++]);
    return host_.go_on_when_read(asker_);
  }
  writer_->end();
  host_.end_stream(asker_);
}

void StatusStream::begin_next_context() {
  const ContextStatus& context = contexts_[next_context_++];
  const bool wants_objects = writer_->context(context);
  is_in_context_ = true;
  if (!context.responds || !wants_objects) return end_context(context.responds);
  begin(StatusOf::kQueuePairs);
}

void StatusStream::begin(StatusOf what) {
  const ContextStatus& context = contexts_[next_context_ - 1];
  what_ = what;
  pages_left_ = most_pages(what, context);
  take(context.first, control::StatusReport::kFirst);
}

void StatusStream::ask() {
  page_ = host_.ask_for_page(contexts_[next_context_ - 1].client, {after_, kPage, what_});
  if (!page_) return end_context(false);
  host_.await_page(asker_);
}

bool StatusStream::awaits(std::uint32_t page, fabric::ClientId context) const {
  return page_ == page && awaits_context(context);
}

bool StatusStream::awaits_context(fabric::ClientId context) const {
  return page_ && contexts_[next_context_ - 1].client == context;
}

void StatusStream::on_page(const control::StatusReport& report) {
  page_.reset();
  take(report, kPage);
}

void StatusStream::take(const control::StatusReport& report, std::size_t asked) {
  switch (what_) {
    case StatusOf::kQueuePairs:
    case StatusOf::kAll:
      return take(report.qps, asked);
    case StatusOf::kCompletionQueues:
      return take(report.cqs, asked);
    case StatusOf::kSharedReceives:
      return take(report.srqs, asked);
  }
}

template <typename Object>
void StatusStream::take(const control::StatusPage<Object>& page, std::size_t asked) {
  const auto objects = std::span(page.objects).first(std::min(page.objects.size(), asked));
  const bool wants_more = writer_->objects(objects);
  if (page.last || !wants_more) return end_kind();
  // Only the last page is not full.
  if (objects.size() != asked || --pages_left_ == 0) return end_context(false);
  after_ = number_of(objects.back());
  host_.go_on_when_read(asker_);
}

void StatusStream::end_kind() {
  switch (what_) {
    case StatusOf::kQueuePairs:
    case StatusOf::kAll:
      return begin(StatusOf::kCompletionQueues);
    case StatusOf::kCompletionQueues:
      return begin(StatusOf::kSharedReceives);
    case StatusOf::kSharedReceives:
      return end_context(true);
  }
}

void StatusStream::on_silence() {
  page_.reset();
  end_context(false);
}

void StatusStream::end_context(bool is_complete) {
  is_in_context_ = false;
  writer_->context_end(is_complete);
  host_.go_on_when_read(asker_);
}

}  // namespace verbena::daemon
