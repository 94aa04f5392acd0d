#include <gtest/gtest.h>

#include "src/bridge/intake/intake.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

// A look, by which a queue of ours has this delivery limit; 0 = none has one.
AttachmentLook limit(std::int64_t deliveries) {
  AttachmentLook look;
  look.limit = deliveries > 0 ? DeliveryLimit{"rung.failed", deliveries} : DeliveryLimit{};
  return look;
}
AttachmentLook no_answer() { return {}; }

class CrashLoopTest : public testing::Test {
 protected:
  // One start. It ends as a crash does, unless it is drained.
  struct Start {
    explicit Start(CrashLoopTest& test) : holds(test.flow.broker), guard(test.flow.sidecar, holds) {
      guard.start();
    }
    IntakeHolds holds;
    CrashLoop guard;
  };
  bool consumes(Start& start, Ms within) {
    return loop.run_until([&] { return !start.holds.held(); }, within);
  }
  void crash(int times) {
    for (int i = 0; i < times; ++i) {
      Start start(*this);
      loop.run_until([] { return false; }, Ms{50});
    }
  }

  World world;
  Flow flow{world};
  test::VirtualLoop& loop = world.loop;
};

TEST_F(CrashLoopTest, TheFirstStartConsumesAtOnce) {
  Start start(*this);
  EXPECT_TRUE(consumes(start, Ms{100}));
}

TEST_F(CrashLoopTest, AfterAFewThatWereNotFinishedThereIsAPauseThatGrows) {
  crash(3);
  Start fourth(*this);
  fourth.guard.looked(limit(0));
  EXPECT_FALSE(consumes(fourth, Ms{5'900}));
  EXPECT_TRUE(consumes(fourth, Ms{300}));
  crash(2);
  Start seventh(*this);
  seventh.guard.looked(no_answer());
  EXPECT_FALSE(consumes(seventh, Ms{8'900}));
  EXPECT_TRUE(consumes(seventh, Ms{300}));
}

TEST_F(CrashLoopTest, AtHalfOfAKnownLimitNothingIsConsumedUntilItIsGone) {
  crash(3);
  Start start(*this);
  start.guard.looked(limit(6));
  EXPECT_FALSE(consumes(start, Ms{600'000}));
  EXPECT_TRUE(flow.health.has("crash_loop"));
  ASSERT_EQ(flow.events.size(), 1U);
  EXPECT_EQ(flow.events[0].kind, "intake_stopped");
  start.guard.looked(no_answer());  // the management API does not answer
  EXPECT_FALSE(consumes(start, Ms{1'000}));
  start.guard.looked(limit(0));
  EXPECT_TRUE(consumes(start, Ms{100}));
  EXPECT_FALSE(flow.health.has("crash_loop"));
}

// The first look may fail, or come late.
TEST_F(CrashLoopTest, ALimitThatIsFoundLaterStopsItToo) {
  crash(3);
  Start start(*this);
  start.guard.looked(no_answer());
  EXPECT_FALSE(consumes(start, Ms{500}));  // it pauses
  start.guard.looked(limit(6));
  EXPECT_FALSE(consumes(start, Ms{600'000}));
  EXPECT_TRUE(flow.health.has("crash_loop"));
}

TEST_F(CrashLoopTest, AfterAMinuteOfIntakeOrADrainTheCountBeginsAnew) {
  crash(5);
  {
    Start start(*this);
    start.guard.looked(no_answer());
    ASSERT_TRUE(consumes(start, CrashLoop::kLongestPause));
    loop.run_until([] { return false; }, CrashLoop::kStable + Ms{100});
  }
  Start next(*this);
  EXPECT_TRUE(consumes(next, Ms{100}));
  next.guard.drain();
  loop.run_until([] { return false; }, Ms{50});
  EXPECT_EQ(*world.eyes->setting("intake_starts a", ""), "") << "no row is left behind";
  Start last(*this);
  EXPECT_TRUE(consumes(last, Ms{100}));
}

TEST_F(CrashLoopTest, WithoutAnyLookItWaitsOnlyAWhile) {
  crash(1);
  Start start(*this);
  EXPECT_FALSE(consumes(start, CrashLoop::kLookTakes - Ms{100}));
  EXPECT_TRUE(consumes(start, Ms{300}));
}

}  // namespace
}  // namespace rung::bridge
