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

// As many as its slots have numbers for. A context that reports more is not believed.
std::size_t most_pages_of_qps(const ContextStatus& context) {
  constexpr std::size_t kPerSlot = std::size_t{1} << Qpn::kIndexBits;
  return (1 + context.extra_slots.size()) * kPerSlot / kPage + 1;
}

// As many as it said that it has, and some that it made meanwhile.
std::size_t most_pages_of_srqs(const ContextStatus& context) {
  return std::size_t{context.counts.srqs} * 2 / kPage + 2;
}

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
  const bool wants_qps = writer_->context(context);
  is_in_context_ = true;
  if (!context.responds) return end_context(false);
  if (!wants_qps || context.counts.qps == 0) return begin_srqs();
  what_ = StatusOf::kQueuePairs;
  pages_left_ = most_pages_of_qps(context);
  constexpr std::size_t kFirst = control::StatusReport::kFirst;
  take_qps(std::span(context.qps).first(std::min(context.qps.size(), kFirst)), kFirst,
           context.has_told_all);
}

void StatusStream::begin_srqs() {
  const ContextStatus& context = contexts_[next_context_ - 1];
  if (!writer_->wants_srqs() || context.counts.srqs == 0) return end_context(true);
  what_ = StatusOf::kSharedReceives;
  after_ = 0;
  pages_left_ = most_pages_of_srqs(context);
  host_.go_on_when_read(asker_);
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
  const auto page_of = [](const auto& all) {
    return std::span(all).first(std::min<std::size_t>(all.size(), kPage));
  };
  if (what_ == StatusOf::kQueuePairs) {
    return take_qps(page_of(report.qps), kPage, report.last);
  }
  const auto srqs = page_of(report.srqs);
  writer_->srqs(srqs);
  if (report.last) return end_context(true);
  go_on_behind(srqs.size(), kPage, srqs.empty() ? 0 : srqs.back().number);
}

void StatusStream::take_qps(std::span<const control::QpStatus> qps, std::size_t asked,
                            bool is_last) {
  const bool wants_more = writer_->qps(qps);
  if (is_last || !wants_more) return begin_srqs();
  go_on_behind(qps.size(), asked, qps.empty() ? 0 : qps.back().qpn);
}

void StatusStream::go_on_behind(std::size_t told, std::size_t asked, std::uint32_t last) {
  // Only the last page is not full.
  if (told != asked || --pages_left_ == 0) return end_context(false);
  after_ = last;
  host_.go_on_when_read(asker_);
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
