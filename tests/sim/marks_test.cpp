// SPDX-License-Identifier: BSD-2-Clause
// Requests that a fault has marked (wire::Bth::mark). Their receiver refuses them as the mark says,
// and both ends are told as of a real failure. A device that does not obey marks ignores them.
#include "steps.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {
namespace {

enum : std::uint8_t { kRnr = 1, kPsn = 2, kInvalid = 3, kAccess = 4, kOperation = 5 };

// Marks the `nth` packet that the left sends.
class Marker {
 public:
  Marker(Scene& scene, int nth, std::uint8_t mark) {
    scene.pair.world.filter = [&scene, nth, mark, this](const Node& from,
                                                        std::span<const std::uint8_t> bytes) {
      if (&from != &scene.pair.a || scene.is_beside(bytes) || ++seen_ != nth) return true;
      std::vector<std::uint8_t> marked(bytes.begin(), bytes.end());
      wire::Bth::mark(marked.data(), mark);
      scene.pair.world.inject(1, scene.pair.a.address(), marked);
      return false;
    };
  }

 private:
  int seen_ = 0;
};

void post_writes(Scene& s) {
  // Each WRITE has two packets.
  for (std::uint64_t id = 1; id <= 4; ++id) s.left.post(s.left.write(id, 300, s.right));
  s.run_until_sent(4);
}

TEST(Marks, MeanNothingUnlessTheyAreObeyed) {
  for (const std::uint8_t mark : {kRnr, kPsn, kInvalid, kAccess, kOperation}) {
    Scene s;
    const Marker marker(s, 3, mark);
    post_writes(s);
    expect_sends(s.left, 4, Status::kSuccess, 4);
    s.expect_unharmed();
  }
}

TEST(Marks, MakeTheResponderRefuse) {
  struct Case {
    std::uint8_t mark;
    Status status;
    AsyncEvent event;
  };
  for (const Case& c : {Case{kInvalid, Status::kRemoteInvalidRequest, AsyncEvent::kQpRequestError},
                        Case{kAccess, Status::kRemoteAccess, AsyncEvent::kQpAccessError},
                        Case{kOperation, Status::kRemoteOperation, AsyncEvent::kQpFatal}}) {
    Scene s;
    s.pair.b.device().obey_marks(true);
    const Marker marker(s, 3, c.mark);
    post_writes(s);
    expect_sends(s.left, 1, c.status, 4);
    EXPECT_EQ(s.right.state(), qp::State::kError);
    EXPECT_EQ(s.right.count(c.event), 1u);
    s.expect_unharmed();
  }
}

TEST(Marks, MakeTheRequesterRepeat) {
  for (const std::uint8_t mark : {kRnr, kPsn}) {
    Scene s;
    s.pair.b.device().obey_marks(true);
    const Marker marker(s, 3, mark);
    post_writes(s);
    expect_sends(s.left, 4, Status::kSuccess, 4);
    EXPECT_GT(s.left.qp().endpoint().counters.retransmitted.read(), 0u);
    s.expect_unharmed();
  }
}

// The responder drops the marked request, and goes on.
TEST(Marks, MakeTheRequesterCompleteWithAStatus) {
  for (const Status status : {Status::kLocalProtection, Status::kRetryExceeded, Status::kGeneral}) {
    for (const bool obeys : {true, false}) {
      Scene s;
      s.pair.b.device().obey_marks(true);
      s.pair.a.device().obey_marks(obeys);
      const auto mark = static_cast<std::uint8_t>(wire::kStatusCodes + static_cast<int>(status));
      const Marker marker(s, 3, mark);
      post_writes(s);
      // A requester that ignores the mark repeats the request in the end.
      if (obeys) {
        expect_sends(s.left, 1, status, 4);
      } else {
        expect_sends(s.left, 4, Status::kSuccess, 4);
      }
      EXPECT_NE(s.right.state(), qp::State::kError);
      s.expect_unharmed();
    }
  }
}

}  // namespace
}  // namespace verbena::sim
