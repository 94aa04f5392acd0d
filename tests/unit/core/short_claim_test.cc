// Claims that only the attempt records until the confirm (machine.h), and claims of what another owner
// claimed.
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

TEST(Claim, IsShortIfTheAttemptTellsAllOfIt) {
  const Task t = task_in(State::scheduled, kNow - seconds(3));
  const Decision d = decide(t, event::Claim{}, rules(), at());
  EXPECT_TRUE(d.short_claim);
  EXPECT_TRUE(is_short_claim(t, *d.attempt));
  EXPECT_TRUE(d.task == with_short_claim(t, d.attempt->epoch, d.attempt->node));
  EXPECT_FALSE(is_short_claim(d.task, *d.attempt));
  for (const event::Claim& more : {event::Claim{Ms{0}, Ms{1}}, event::Claim{Ms{0}, Ms{0}, 5}})
    EXPECT_FALSE(decide(t, more, rules(), at()).short_claim);
}

// Its former owner may still publish it.
TEST(Claim, OfWhatAnotherOwnerClaimedWaits) {
  const Task short_one = with_short_claim(task_in(State::scheduled, kNow - seconds(3)), kEpoch, kUs);
  for (const Task& t : {short_one, task_in(State::publishing, kNow - seconds(3))}) {
    EXPECT_EQ(decide(t, event::Claim{}, rules(), at(kNow, kEpoch + 1)).verdict, Verdict::stale);
    EXPECT_EQ(decide(t, event::Claim{.again = true}, rules(), at(kNow, kEpoch + 1)).verdict,
              Verdict::applied);
    EXPECT_EQ(decide(t, event::Claim{}, rules(), at(kNow, kEpoch)).verdict, Verdict::applied) << "ours";
  }
  Task refused = task_in(State::publishing, kNow - seconds(3));
  refused.epoch = 0;
  EXPECT_EQ(decide(refused, event::Claim{}, rules(), at(kNow, kEpoch + 1)).verdict, Verdict::applied);
}

TEST(Claim, IsKept) {
  const Task t = with_short_claim(task_in(State::scheduled), kEpoch, kUs);
  Circumstances now = at(kNow, kEpoch + 1);
  EXPECT_EQ(keep_short_claim(t, event::Claim{}, now).verdict, Verdict::stale);
  now.short_claim = true;
  EXPECT_EQ(keep_short_claim(t, event::Claim{}, now).verdict, Verdict::applied);
  EXPECT_TRUE(keep_short_claim(t, event::Claim{}, now).task == t);
}

}  // namespace
}  // namespace rung
