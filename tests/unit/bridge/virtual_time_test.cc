// The tests' own clock, loop and store jobs: they must do what UvLoop and StoreThreads do.
#include "tests/support/virtual_time.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/memory/memory_store.h"

namespace rung::bridge {
namespace {

class VirtualTimeTest : public testing::Test {
 protected:
  void submit(Lane lane, int number) {
    jobs.submit<int>(
        lane,
        [number](Store& store) -> Result<int> {
          if (auto now = store.now(); !now) return tl::unexpected(now.error());
          return number;
        },
        [this](const Result<int>& result) { answers.push_back(result ? *result : -1); });
  }

  test::VirtualClock clock;
  test::VirtualLoop loop{clock};
  const std::shared_ptr<MemoryDb> db = std::make_shared<MemoryDb>();
  std::vector<bool> away;
  test::VirtualJobs jobs{loop, [this]() -> Result<std::unique_ptr<Store>> { return open_memory_store(db); },
                         [this](const StoreJobs::Status& status) { away.push_back(status.away); }};
  std::vector<int> answers;
};

TEST_F(VirtualTimeTest, WhatIsDueRunsInOrderAndTimeJumpsToIt) {
  const BootMs begin = clock.boot();
  std::vector<std::pair<int, Ms>> ran;
  const auto note = [&](int number) { ran.emplace_back(number, clock.boot() - begin); };
  io::Timer late(loop, [&] { note(1); });
  io::Timer soon(loop, [&] {
    note(2);
    loop.post([&] { note(3); });
  });
  io::Timer each(loop, [&] { note(4); });
  late.start(Ms{30});
  soon.start(Ms{10});
  each.start(Ms{10}, Ms{20});
  loop.run_for(Ms{30});
  EXPECT_EQ(ran, (std::vector<std::pair<int, Ms>>{
                     {2, Ms{10}}, {4, Ms{10}}, {3, Ms{10}}, {1, Ms{30}}, {4, Ms{30}}}));
  each.stop();
  EXPECT_FALSE(each.active());
  EXPECT_FALSE(loop.step());
  loop.run_for(Ms{5});
  EXPECT_EQ(clock.boot() - begin, Ms{35});
}

TEST_F(VirtualTimeTest, ATimerMayEndItselfAsItFires) {
  std::unique_ptr<io::Timer> timer;
  timer = std::make_unique<io::Timer>(loop, [&] { timer.reset(); });
  timer->start(Ms{1}, Ms{1});
  loop.run_for(Ms{5});
  EXPECT_EQ(timer, nullptr);
}

TEST_F(VirtualTimeTest, TwoFlowJobsAtATimeAndOneOfTheOthers) {
  for (int i = 1; i <= 3; ++i) submit(Lane::flow, i);
  for (int i = 11; i <= 12; ++i) submit(Lane::leases, i);
  loop.run_for(Ms{1});
  EXPECT_EQ(answers, (std::vector<int>{1, 2, 11}));
  loop.run_for(Ms{1});
  EXPECT_EQ(answers, (std::vector<int>{1, 2, 11, 3, 12}));
}

TEST_F(VirtualTimeTest, AJobByHandRunsWhenTheTestSaysSo) {
  jobs.by_hand(Lane::flow);
  submit(Lane::flow, 1);
  submit(Lane::flow, 2);
  loop.run_for(Ms{1000});
  EXPECT_TRUE(answers.empty());
  EXPECT_TRUE(jobs.run_next());
  EXPECT_TRUE(answers.empty()) << "the answer comes by the loop";
  loop.run_for(Ms{0});
  EXPECT_EQ(answers, (std::vector<int>{1}));
  jobs.by_itself(Lane::flow);
  loop.run_for(Ms{1});
  EXPECT_EQ(answers, (std::vector<int>{1, 2}));
  EXPECT_FALSE(jobs.run_next());
}

TEST_F(VirtualTimeTest, AnOutageHoldsAJobAndIsSaidOnce) {
  const BootMs begin = clock.boot();
  db->fail_next(3);  // 100, 200, 400 ms
  submit(Lane::flow, 1);
  ASSERT_TRUE(loop.run_until([&] { return !answers.empty(); }));
  EXPECT_EQ(clock.boot() - begin, Ms{701});
  EXPECT_EQ(jobs.answered(), clock.boot());
  loop.run_for(Ms{0});
  EXPECT_EQ(away, (std::vector<bool>{true, false}));
}

TEST_F(VirtualTimeTest, TheUpkeepIsToldARefusalAndOthersWait) {
  db->fail_next(2, Error::Kind::refused);
  submit(Lane::upkeep, 1);
  submit(Lane::flow, 2);
  loop.run_for(Ms{1});
  EXPECT_EQ(answers, (std::vector<int>{-1}));
  loop.run_for(Ms{100});
  EXPECT_EQ(answers, (std::vector<int>{-1, 2}));
}

TEST_F(VirtualTimeTest, StopGivesUpWhatWaitsAndJoinTriesTheRest) {
  db->fail_next(1'000'000);
  submit(Lane::flow, 1);
  loop.run_for(Ms{1});
  submit(Lane::flow, 2);
  jobs.stop();
  EXPECT_TRUE(jobs.join(Ms{0}));
  loop.run_for(Ms{0});
  EXPECT_EQ(answers, (std::vector<int>{-1, -1}));
}

}  // namespace
}  // namespace rung::bridge
