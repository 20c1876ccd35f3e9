// SPDX-License-Identifier: BSD-2-Clause
#include "traffic.hpp"

#include <algorithm>
#include <cstring>

namespace verbena::sim {

using queue::CompletionOpcode;
using queue::WorkOpcode;

Arena::Arena(Node& node, memory::DomainId domain, std::size_t size, std::uint32_t access)
    : size_(size), storage_(size + 2 * kGuard, 0xa5) {
  memory::RegionRequest request;
  request.domain = domain;
  request.host_address = request.base = address();
  request.length = size;
  request.access = access;
  const auto key = node.device().memory().register_region(request);
  if (!key.ok()) throw Failure("registration refused");
  key_ = *key;
}

void Arena::expect_guards() const {
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (storage_[i] != 0xa5 || storage_[storage_.size() - 1 - i] != 0xa5) {
      throw Failure("a byte outside of every region changed");
    }
  }
}

SharedCounter::SharedCounter(Node& node, memory::DomainId domain)
    : arena(node, domain, 8, memory::kLocalWrite | memory::kRemoteAtomic) {
  std::memset(arena.bytes().data(), 0, 8);
}

std::uint64_t SharedCounter::value() {
  std::uint64_t v;
  std::memcpy(&v, arena.bytes().data(), 8);
  return v;
}

namespace {

constexpr std::uint32_t kRemoteAll =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
constexpr std::size_t kTargetSize = 64 * 1024;

}  // namespace

End::End(World& world, Node& node, const TrafficOptions& options, bool receives_xrc)
    : world_(world),
      node_(node),
      options_(options),
      send_cq_({.capacity = 4 * (options.send_depth + options.receive_depth) + 16}, node),
      receive_cq_({.capacity = 4 * options.receive_depth + 16}, node),
      source_(node, kDomain, slot_size() * options.send_depth, 0),
      result_(node, kDomain, slot_size() * options.send_depth, memory::kLocalWrite),
      receive_(node, kDomain, slot_size() * options.receive_depth, memory::kLocalWrite),
      target_(node, kDomain, kTargetSize, kRemoteAll),
      library_(node, kDomain, kTargetSize, memory::kRemoteRead),
      word_(node, kDomain, 8, kRemoteAll),
      target_model_(kTargetSize) {
  library_key_ = world.random().next();
  fill_pattern(library_.bytes(), library_key_);
  std::memset(target_.bytes().data(), 0, kTargetSize);
  std::memset(word_.bytes().data(), 0, 8);
  qp::QueuePairOptions o;
  o.domain = kDomain;
  queue::CompletionQueue& receive_cq = options.one_queue ? send_cq_ : receive_cq_;
  o.send_cq = &send_cq_;
  o.receive_cq = &receive_cq;
  o.send = {options.send_depth, options.max_sges, 64, false};
  o.receive_capacity = options.receive_depth;
  o.receive_max_sges = options.max_sges;
  o.cookie = this;
  if (options.use_srq || options.use_xrc) {
    srq_ = std::make_unique<queue::SharedReceive>(
        queue::ReceiveQueue::Options{options.receive_depth, options.max_sges, this, true}, node);
    srq_->domain = kDomain;
    if (!options.use_xrc) o.shared = srq_.get();
  }
  if (options.use_xrc) {
    srq_->xrc_domain = o.xrc_domain = 7;
    srq_->complete_to(receive_cq);
    node.device().add_shared(*srq_);
    o.transport = Transport::kXrcSend;
    sender_ = node.device().create_qp(o);
    o.transport = Transport::kXrcReceive;
    o.send_cq = o.receive_cq = nullptr;
    qp_ = node.device().create_qp(o);
  } else {
    qp_ = sender_ = node.device().create_qp(o);
  }
  (void)receives_xrc;
}

End::~End() {
  if (sender_ != qp_) node_.device().destroy_qp(sender_);
  node_.device().destroy_qp(qp_);
  if (srq_ && options_.use_xrc) node_.device().remove_shared(*srq_);
}

void End::connect_to(End& other, SharedCounter* counter) {
  peer_ = &other;
  counter_ = counter;
}

namespace {

void modify(Node& node, qp::QueuePair& qp, const qp::Attributes& a, std::uint32_t mask,
            TimeNs now) {
  if (const auto refused = node.device().modify_qp(qp, a, mask, now)) {
    throw Failure("transition refused: " + refused->reason);
  }
}

}  // namespace

void End::bring_up() {
  const auto up = [this](qp::QueuePair& qp, qp::QueuePair& to) {
    using namespace qp;
    const bool sends = qp.transport() != Transport::kXrcReceive;
    const bool receives = qp.transport() != Transport::kXrcSend;
    Attributes a;
    a.state = State::kInit;
    a.port = 1;
    a.access_flags = kRemoteAll & ~1u;
    modify(node_, qp, a, kMaskState | kMaskPkeyIndex | kMaskPort | kMaskAccessFlags, world_.now());
    a.state = State::kRtr;
    a.path.dlid = static_cast<std::uint16_t>(1 + peer_->node_.index());
    a.path.port = 1;
    a.path.resolved = true;
    a.path.destination.address = peer_->node_.address();
    a.path_mtu = options_.mtu;
    a.dest_qpn = to.number();
    a.rq_psn = Psn(to.number().value() * 7919u);
    a.max_dest_rd_atomic = options_.max_rd_atomic;
    a.min_rnr_timer = options_.min_rnr_timer;
    modify(node_, qp, a,
           kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
               (receives ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : 0u),
           world_.now());
    a.state = State::kRts;
    a.timeout = options_.timeout;
    a.retry_count = options_.retry_count;
    a.rnr_retry = 7;
    a.sq_psn = Psn(qp.number().value() * 7919u);
    a.max_rd_atomic = options_.max_rd_atomic;
    modify(node_, qp, a,
           kMaskState | kMaskTimeout | kMaskSqPsn |
               (sends ? kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : 0u),
           world_.now());
  };
  if (sender_ == qp_) {
    up(*qp_, *peer_->qp_);
  } else {
    up(*sender_, *peer_->qp_);
    up(*qp_, *peer_->sender_);
  }
  for (std::size_t slot = 0; slot < options_.receive_depth; ++slot) post_receive(slot);
}

std::vector<queue::Sge> End::split(const Arena& arena, std::size_t offset, std::uint32_t length) {
  std::vector<queue::Sge> sges;
  while (sges.size() + 1 < options_.max_sges && length > 1 && world_.random().chance(400'000)) {
    const auto part = static_cast<std::uint32_t>(world_.random().below(length));
    sges.push_back({arena.address(offset), part, arena.key()});
    offset += part;
    length -= part;
  }
  sges.push_back({arena.address(offset), length, arena.key()});
  return sges;
}

bool End::try_to_post_receive(std::size_t slot) {
  const auto sges = split(receive_, slot * slot_size(), static_cast<std::uint32_t>(slot_size()));
  const queue::RecvRequest request{slot, sges};
  return srq_ ? srq_->queue.post(request) == queue::ReceiveQueue::Posted::kOk
              : qp_->post_receive(request) == qp::PostedReceive::kOk;
}

void End::post_receive(std::size_t slot) {
  if (!try_to_post_receive(slot)) throw Failure("a receive was refused");
  posted_slots_.push_back(slot);
}

// A queue is as full as the model says, however much is done already: slots become free only when
// completions are polled.
void End::expect_full_queues() {
  if (posted_slots_.size() == options_.receive_depth && try_to_post_receive(0)) {
    throw Failure("a full receive queue took one more");
  }
  if (model_.outstanding() != options_.send_depth) return;
  queue::SendRequest request;
  const Guard guard(sender_->lock());
  if (sender_->post_send(request) != requester::Posted::kQueueFull) {
    throw Failure("a full send queue took one more");
  }
}

void End::choose_send(queue::SendRequest& r, std::vector<queue::Sge>& sges, std::size_t slot) {
  Random& random = world_.random();
  const auto length = static_cast<std::uint32_t>(random.below(slot_size() + 1));
  const std::uint64_t key = next_key_++ * 1000003 + reinterpret_cast<std::uintptr_t>(this) % 1000;
  fill_pattern(source_.bytes().subspan(slot * slot_size(), length), key);
  sges = split(source_, slot * slot_size(), length);
  ExpectedMessage message{length, key, false, std::nullopt, heard_, r.id};
  if (random.chance(300'000)) {
    r.opcode = WorkOpcode::kSendImmediate;
    message.immediate = r.immediate = static_cast<std::uint32_t>(random.next());
  }
  if (length <= 64 && random.chance(500'000)) r.flags |= queue::kInline;
  peer_->inbox_.push_back(message);
}

void End::choose_write(queue::SendRequest& r, std::vector<queue::Sge>& sges, std::size_t slot) {
  Random& random = world_.random();
  const auto length = static_cast<std::uint32_t>(random.below(slot_size() + 1));
  const std::size_t at = random.below(kTargetSize - length + 1);
  const std::uint64_t key = random.next();
  fill_pattern(source_.bytes().subspan(slot * slot_size(), length), key);
  for (std::uint32_t i = 0; i < length; ++i) peer_->target_model_[at + i] = pattern(key, i);
  sges = split(source_, slot * slot_size(), length);
  r.opcode = WorkOpcode::kWrite;
  r.remote_address = peer_->target_.address(at);
  r.remote_key = peer_->target_.key();
  // A WRITE must not overtake a READ of the same memory.
  if (reads_of_target_) r.flags |= queue::kFence;
  reads_of_target_ = false;
  if (random.chance(250'000)) {
    r.opcode = WorkOpcode::kWriteImmediate;
    r.immediate = static_cast<std::uint32_t>(random.next());
    peer_->inbox_.push_back({length, 0, true, r.immediate, heard_, r.id});
  }
}

void End::choose_read(queue::SendRequest& r, ExpectedCompletion& expected,
                      std::vector<queue::Sge>& sges, std::size_t slot) {
  Random& random = world_.random();
  const auto length = static_cast<std::uint32_t>(random.below(slot_size() + 1));
  const std::size_t at = random.below(kTargetSize - length + 1);
  const bool written = random.chance(400'000);
  Arena& from = written ? peer_->target_ : peer_->library_;
  expected.opcode = CompletionOpcode::kRead;
  expected.result.resize(length);
  expected.result_offset = slot * slot_size();
  for (std::uint32_t i = 0; i < length; ++i) {
    expected.result[i] =
        written ? peer_->target_model_[at + i] : pattern(peer_->library_key_, at + i);
  }
  reads_of_target_ = reads_of_target_ || written;
  sges = split(result_, slot * slot_size(), length);
  r.opcode = WorkOpcode::kRead;
  r.remote_address = from.address(at);
  r.remote_key = from.key();
}

void End::choose_atomic(queue::SendRequest& r, ExpectedCompletion& expected,
                        std::vector<queue::Sge>& sges, std::size_t slot) {
  Random& random = world_.random();
  sges = {{result_.address(slot * slot_size()), 8, result_.key()}};
  expected.result_offset = slot * slot_size();
  if (counter_ != nullptr && random.chance(500'000)) {
    r.opcode = WorkOpcode::kFetchAdd;
    r.swap_or_add = 1;
    r.remote_address = counter_->arena.address();
    r.remote_key = counter_->arena.key();
    expected.opcode = CompletionOpcode::kFetchAdd;
    expected.counts = true;
    return;
  }
  r.remote_address = peer_->word_.address();
  r.remote_key = peer_->word_.key();
  expected.original = peer_->word_model_;
  if (random.chance(500'000)) {
    r.opcode = WorkOpcode::kFetchAdd;
    r.swap_or_add = random.next();
    expected.opcode = CompletionOpcode::kFetchAdd;
    peer_->word_model_ += r.swap_or_add;
    return;
  }
  r.opcode = WorkOpcode::kCompareSwap;
  expected.opcode = CompletionOpcode::kCompareSwap;
  r.compare = random.chance(600'000) ? peer_->word_model_ : random.next();
  r.swap_or_add = random.next();
  if (r.compare == peer_->word_model_) peer_->word_model_ = r.swap_or_add;
}

void End::choose(queue::SendRequest& r, ExpectedCompletion& expected, std::vector<queue::Sge>& sges,
                 std::size_t slot) {
  for (;;) {
    switch (world_.random().below(4)) {
      case 0:
        if (!options_.sends) break;
        expected.opcode = CompletionOpcode::kSend;
        return choose_send(r, sges, slot);
      case 1:
        if (!options_.writes) break;
        expected.opcode = CompletionOpcode::kWrite;
        return choose_write(r, sges, slot);
      case 2:
        if (!options_.reads) break;
        return choose_read(r, expected, sges, slot);
      default:
        if (!options_.atomics) break;
        return choose_atomic(r, expected, sges, slot);
    }
  }
}

bool End::post_one() {
  if (posted_ == options_.operations || model_.outstanding() == options_.send_depth) return false;
  const std::size_t slot = posted_ % options_.send_depth;
  queue::SendRequest request;
  ExpectedCompletion expected;
  std::vector<queue::Sge> sges;
  request.id = expected.id = posted_;
  choose(request, expected, sges, slot);
  request.sges = sges;
  if (srq_ && options_.use_xrc) request.remote_srqn = peer_->srq_->number;
  // The last request is signaled, so that all are known to be done, and one in each length of the
  // queue, as the verbs require. FETCH_ADDs that draw tickets are always signaled, because each
  // ticket is checked.
  const bool signaled = expected.counts || posted_ + 1 == options_.operations ||
                        (posted_ + 1) % options_.send_depth == 0 ||
                        !world_.random().chance(options_.unsignaled);
  expected.signaled = signaled;
  if (signaled) request.flags |= queue::kSignaled;
  if (world_.random().chance(50'000)) request.flags |= queue::kFence;
  const Guard guard(sender_->lock());
  const auto posted = sender_->post_send(request);
  if (posted != requester::Posted::kOk)
    throw Failure(std::string("post refused: ") + to_string(posted));
  model_.posted(std::move(expected));
  ++posted_;
  return true;
}

void End::take_send(const queue::Completion& c) {
  const ExpectedCompletion e = model_.completed(c);
  const auto result = result_.bytes().subspan(e.result_offset);
  if (e.opcode == CompletionOpcode::kRead) {
    expect_equal(result.first(e.result.size()), e.result, "result of a READ");
  }
  std::uint64_t original;
  std::memcpy(&original, result.data(), 8);
  if (e.counts) counter_->tickets.draw(original);
  if (e.original && *e.original != original) throw Failure("an atomic brought a wrong value");
}

void End::check_message(const queue::Completion& c) {
  if (c.status != queue::Status::kSuccess) {
    throw Failure("a receive failed: " + std::string(to_string(c.status)));
  }
  if (inbox_.empty()) throw Failure("a message that nobody sent");
  const ExpectedMessage m = inbox_.front();
  inbox_.pop_front();
  if (options_.in_order && !model_.has_heard_of(m.heard)) {
    throw Failure("an answer came before the completion of what it answers");
  }
  heard_ = m.request + 1;
  if (posted_slots_.empty() || posted_slots_.front() != c.id) {
    throw Failure("receives completed out of order");
  }
  posted_slots_.pop_front();
  const auto opcode =
      m.is_write ? CompletionOpcode::kReceiveWriteImmediate : CompletionOpcode::kReceive;
  if (c.opcode != opcode || c.byte_length != m.length)
    throw Failure("not the message that was due");
  if (m.immediate.has_value() != ((c.flags & queue::kHasImmediate) != 0) ||
      (m.immediate && *m.immediate != c.immediate)) {
    throw Failure("the immediate is not what was sent");
  }
  if (!m.is_write) {
    expect_pattern(receive_.bytes().subspan(c.id * slot_size(), m.length), m.pattern_key,
                   "message");
  }
}

void End::take_receive(const queue::Completion& c) {
  check_message(c);
  if (world_.random().chance(options_.late_receives)) {
    late_.emplace_back(world_.now() + world_.random().below(3'000'000), c.id);
  } else {
    post_receive(c.id);
  }
}

void End::reap(queue::CompletionQueue& cq) {
  queue::Completion c;
  while (cq.poll_one(c)) {
    c.opcode >= CompletionOpcode::kReceive ? take_receive(c) : take_send(c);
  }
}

void End::post_late_receives() {
  while (!late_.empty() && late_.front().first <= world_.now()) {
    post_receive(late_.front().second);
    late_.pop_front();
  }
}

bool End::turn() {
  reap(send_cq_);
  reap(receive_cq_);
  post_late_receives();
  bool posted = false;
  const std::uint64_t burst = 1 + world_.random().below(options_.send_depth);
  for (std::uint64_t i = 0; i < burst && post_one(); ++i) posted = true;
  expect_full_queues();
  if (posted) node_.device().doorbell(*sender_, world_.now());
  return posted;
}

bool End::is_done() const {
  return posted_ == options_.operations && model_.is_done() && inbox_.empty();
}

void End::expect_final() const {
  const_cast<End*>(this)->reap(const_cast<End*>(this)->send_cq_);
  expect_equal(const_cast<Arena&>(target_).bytes(), target_model_, "memory that was written");
  std::uint64_t word;
  std::memcpy(&word, const_cast<Arena&>(word_).bytes().data(), 8);
  if (word != word_model_) throw Failure("the atomic word differs from the model");
  expect_pattern(const_cast<Arena&>(library_).bytes(), library_key_, "memory that nobody writes");
  for (const Arena* a : {&source_, &result_, &receive_, &target_, &library_, &word_}) {
    a->expect_guards();
  }
}

}  // namespace verbena::sim
