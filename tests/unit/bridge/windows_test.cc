// Windows in the flow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/gate_story.h"

namespace rung::bridge {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

GateRules with_window() {
  GateRules gate;
  gate.window =
      std::make_shared<const TimeWindow>(TimeWindow::parse({"08:00-08:30", "09:00-18:00"}, "UTC").value());
  return gate;
}

class PatternWindowStory : public GateStory {
 protected:
  PatternWindowStory() : GateStory(gated_by_pattern(with_window())) { flow->broker.declare("orders.a"); }
};

TEST_F(PatternWindowStory, AQueueThatMatchesWaitsOutsideTheWindow) {
  const Ms in_day{world.now().ms % 86'400'000}, closes = kSecond * 60 * (8 * 60 + 30);
  world.loop.run_for(closes - in_day + kSecond);
  scheduled("orders.a", kSecond);
  const TaskId other = scheduled("invoices", kSecond);
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent("orders.a"), IsEmpty());
  EXPECT_EQ(sent("invoices"), std::vector<TaskId>{other});
  EXPECT_EQ(world.gate("orders.a").state, "outside_window");
}

class WindowStory : public GateStory {
 protected:
  WindowStory() : GateStory(with_window()) {}
};

TEST_F(WindowStory, TasksWaitOutsideTheWindow) {
  const auto in_day = [&] { return Ms{world.now().ms % 86'400'000}; };
  const Ms closes = kSecond * 60 * (8 * 60 + 30), opens = kSecond * 60 * 9 * 60;
  ASSERT_LT(in_day(), closes);
  world.loop.run_for(closes - in_day() + kSecond);
  const EpochMs closed = world.now() - kSecond;
  const TaskId late = scheduled("orders", kSecond), other = scheduled("invoices", kSecond);
  world.loop.run_for(kSecond * 5);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(sent("invoices"), std::vector<TaskId>{other});
  const EpochMs due = *world.row(late).next_at, open = closed + (opens - closes);
  EXPECT_EQ(world.gate("orders").state, "outside_window");
  EXPECT_EQ(world.gate("orders").until, open);
  world.run_until(open - Ms{1});
  EXPECT_THAT(sent(), IsEmpty());
  world.run_until(open + Ms{100});
  EXPECT_EQ(sent(), std::vector<TaskId>{late});
  EXPECT_EQ(world.row(late).uncounted_time, open - due);
}

}  // namespace
}  // namespace rung::bridge
