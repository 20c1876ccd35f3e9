#include "verbena/link/direct_choice.hpp"

#include <algorithm>
#include <utility>

#include "verbena/wire/bth.hpp"
#include "verbena/wire/direct.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::link {
namespace {

wire::BthView header_of(const wire::RxDatagram& datagram) {
  return wire::BthView(datagram.copied_start != nullptr ? datagram.copied_start
                                                        : datagram.bytes.data());
}

TimeNs for_a_mebibyte(TimeNs time, std::uint64_t bytes) {
  return time * (1u << 20) / std::max<std::uint64_t>(bytes, 1);
}

}  // namespace

void DirectChoice::before(const wire::RxDatagram& datagram) noexcept {
  const bool begins = datagram.sender != nullptr || (is_following_ && followed_ == 0);
  if (begins && is_measuring()) begin_ = clock_();
}

bool DirectChoice::after(const wire::RxDatagram& datagram, std::uint64_t fetched) noexcept {
  if (datagram.sender != nullptr) {
    bytes_ += fetched;
    return fetched != 0 && came(true, fetched);
  }
  bytes_ += datagram.bytes.size();
  if (!finishes(datagram)) return false;
  const std::uint64_t followed = std::exchange(followed_, 0);
  return followed >= kLeast && came(false, followed);
}

// Follows the payload whose part this is. True: it ends here, or enough of it has come.
bool DirectChoice::finishes(const wire::RxDatagram& datagram) noexcept {
  const wire::BthView bth = header_of(datagram);
  const wire::OpcodeRow& row = wire::row_of(bth.opcode());
  const std::uint32_t qpn = bth.dest_qp().value();
  if (!is_following_) {
    is_following_ = row.place == wire::Place::kFirst && wire::may_stand_for_several(row);
    qpn_ = qpn;
    followed_ = 0;
    return false;
  }
  followed_ += datagram.bytes.size();
  const bool is_enough = followed_ >= kMost;
  const bool is_part = qpn == qpn_;
  // One that ends without a last part is not followed for ever.
  is_following_ = is_part ? row.place == wire::Place::kMiddle : !is_enough;
  return !is_following_ || is_enough;
}

// A payload, or a part of one. True: the preference has changed.
bool DirectChoice::came(bool directly, std::uint64_t worked_on) noexcept {
  if (directly != is_direct_) return false;  // it was on its way
  if (left_ == 0) return measure(worked_on);
  if (--left_ != 0) return false;
  if (!is_measuring()) start(Step::kThisWay, 1);
  bytes_ = 0;
  since_ = clock_();
  return false;
}

bool DirectChoice::measure(std::uint64_t worked_on) noexcept {
  if (measured_ == kMeasured && bytes_ < kPaced) return false;
  const TimeNs now = clock_();
  if (measured_ < kMeasured) {
    works_[measured_++] = for_a_mebibyte(now - begin_, worked_on);
    if (measured_ < kMeasured) return false;
  }
  const auto middle = works_.begin() + kMeasured / 2;
  std::nth_element(works_.begin(), middle, works_.end());
  if (bytes_ < kPaced) {
    // They do not come faster than they are worked on.
    const bool may_be_better = is_better({*middle, *middle});
    return step_ == Step::kOtherWay && !may_be_better && decide(false);
  }
  const Price price{*middle, for_a_mebibyte(now - since_, bytes_)};
  if (step_ == Step::kOtherWay) return decide(is_better(price));
  price_of_this_way_ = price;
  is_direct_ = !is_direct_;
  start(Step::kOtherWay, kUntilSettled);
  return true;
}

void DirectChoice::start(Step step, std::uint32_t left) noexcept {
  step_ = step;
  left_ = left;
  measured_ = 0;
}

// By a tenth, or each trial would find something.
bool DirectChoice::is_better(const Price& price) const noexcept {
  const Price& before = price_of_this_way_;
  const bool is_less_work = price.work < before.work / 10 * 9;
  // Much longer than the work of both sides: something else sets it.
  const auto says_nothing = [](const Price& p) { return p.pace > 10 * p.work; };
  if (says_nothing(before) || says_nothing(price)) return is_less_work;
  return price.pace < before.pace / 10 * (is_less_work ? 11 : 8);
}

// Ends a trial. True: the preference has changed.
bool DirectChoice::decide(bool stays) noexcept {
  rest_ = stays ? kRestAtFirst : std::min(2 * rest_, kRestMost);
  if (!stays) is_direct_ = !is_direct_;
  start(Step::kRest, rest_);
  return !stays;
}

}  // namespace verbena::link
