#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>

#include "src/bridge/watch/store_watch.h"
#include "src/io/uv_loop.h"
#include "tests/support/clock.h"
#include "tests/support/memory/memory_store.h"

namespace rung::bridge {
namespace {

class StoreThreadsTest : public testing::Test {
 protected:
  StoreFactory factory() {
    return [this] {
      ++opened_;
      if (refusals_ > 0) {
        --refusals_;
        throw StoreError({Error::Kind::transient, "connection refused"});
      }
      return open_memory_store(db_);
    };
  }
  std::function<void(const StoreThreads::Status&)> listener() {
    return [this](const StoreThreads::Status& status) {
      said_.push_back(status.away);
      if (status.away) reasons_.push_back(status.reason);
      refused_ = refused_ || status.refused;
    };
  }
  void run() {
    io::Timer bound(loop_, [this] {
      ADD_FAILURE() << "it hangs";
      loop_.stop();
    });
    bound.start(kBound);
    loop_.run();
  }

  // The answer of the only job.
  Result<int> answer(StoreThreads& threads, Lane lane, std::function<int(Store&)> job) {
    std::optional<Result<int>> got;
    threads.submit<int>(lane, std::move(job), [&](const Result<int>& result) {
      got = result;
      loop_.stop();
    });
    run();
    return got ? *got : transient("no answer");
  }

  static constexpr Ms kBound{std::chrono::minutes{2}};
  io::UvLoop loop_{test_clock()};
  const std::shared_ptr<MemoryDb> db_ = std::make_shared<MemoryDb>();
  std::atomic<int> opened_{0}, refusals_{0};
  std::vector<bool> said_;
  std::vector<std::string> reasons_;
  bool refused_ = false;
};

TEST_F(StoreThreadsTest, AJobIsTriedAgainUntilTheDatabaseIsBackAndTheOutageIsSaidOnce) {
  refusals_ = 3;
  StoreThreads threads(loop_, factory(), 1, listener());
  EXPECT_EQ(answer(threads, Lane::flow, [](Store&) { return 42; }).value(), 42);
  EXPECT_EQ(opened_, 4);
  EXPECT_EQ(said_, (std::vector<bool>{true, false}));
}

TEST_F(StoreThreadsTest, ATransientErrorOfTheJobIsTriedAgainOnANewConnection) {
  StoreThreads threads(loop_, factory(), 1, listener());
  std::atomic<int> tries = 0;
  EXPECT_TRUE(answer(threads, Lane::flow, [&](Store&) {
    if (++tries < 3) throw StoreError({Error::Kind::transient, "server has gone away"});
    return 1;
  }));
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(opened_, 3);
}

StoreError refusal(std::string why) { return StoreError({Error::Kind::refused, std::move(why)}); }

TEST_F(StoreThreadsTest, WhatTheDatabaseRefusesIsTriedAgainAndEachReasonIsSaidOnce) {
  StoreThreads threads(loop_, factory(), 1, listener());
  std::atomic<int> tries = 0;
  EXPECT_TRUE(answer(threads, Lane::flow, [&](Store&) {
    const int n = ++tries;
    if (n < 5) throw refusal(n < 3 ? "INSERT command denied" : "no such table");
    return 1;
  }));
  EXPECT_EQ(tries, 5);
  EXPECT_EQ(reasons_, (std::vector<std::string>{"INSERT command denied", "no such table"}));
  EXPECT_TRUE(refused_);
}

// What may be left undone is no outage: a user without the right to drop parts works all the same.
TEST_F(StoreThreadsTest, WhatTheDatabaseRefusesTheUpkeepIsAnAnswer) {
  StoreThreads threads(loop_, factory(), 1, listener());
  const auto result =
      answer(threads, Lane::upkeep, [](Store&) -> int { throw refusal("DROP command denied"); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Error::Kind::refused);
  EXPECT_TRUE(said_.empty());
}

// A session keeps the rights that it had when it was opened.
TEST_F(StoreThreadsTest, ARightThatWasGrantedIsSeenByTheUpkeepsNextJob) {
  StoreThreads threads(loop_, factory(), 1, listener());
  const auto job = [this](Store&) {
    if (opened_ == 1) throw refusal("DELETE command denied");
    return 1;
  };
  threads.submit<int>(Lane::upkeep, job, [&](const Result<int>& first) {
    EXPECT_FALSE(first);
    threads.submit<int>(Lane::upkeep, job, [&](const Result<int>& second) {
      EXPECT_TRUE(second);
      loop_.stop();
    });
  });
  run();
  EXPECT_EQ(opened_, 2);
  EXPECT_TRUE(said_.empty());
}

TEST_F(StoreThreadsTest, AThreadThatHasNothingToDoClosesItsConnection) {
  constexpr Ms kIdle{50};
  const long without = db_.use_count();
  StoreThreads threads(loop_, factory(), 1, listener(), kIdle);
  io::Timer again(loop_, [&] {
    if (db_.use_count() > without) return again.start(kIdle);  // it is open still
    threads.submit<int>(
        Lane::flow, [](Store&) { return 2; }, [&](const Result<int>&) { loop_.stop(); });
  });
  threads.submit<int>(
      Lane::flow, [](Store&) { return 1; }, [&](const Result<int>&) { again.start(kIdle); });
  run();
  EXPECT_EQ(opened_, 2);
  EXPECT_TRUE(said_.empty()) << "nothing was away";
}

TEST_F(StoreThreadsTest, APermanentErrorIsAnAnswer) {
  StoreThreads threads(loop_, factory(), 1, listener());
  const auto result = answer(threads, Lane::flow, [](Store&) -> int {
    throw StoreError({Error::Kind::permanent, "too large"});
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "too large");
  EXPECT_TRUE(said_.empty());
}

TEST_F(StoreThreadsTest, StopEndsAnOutagesWait) {
  refusals_ = 1'000'000;
  StoreThreads threads(loop_, factory(), 2, listener());
  threads.submit<int>(
      Lane::flow, [](Store&) { return 1; }, [](const Result<int>&) {});
  while (opened_ == 0) std::this_thread::yield();
  threads.stop();
  EXPECT_TRUE(threads.join(kBound));
}

// Whatever waits elsewhere: jobs that hang, and thousands of them.
TEST_F(StoreThreadsTest, FloodedLanesDelayNoLease) {
  std::atomic<bool> go_on{false};
  int given_up = 0, leases = 0;
  StoreThreads threads(loop_, factory(), 2, listener());
  for (const Lane lane : {Lane::flow, Lane::upkeep, Lane::gates, Lane::sweeps}) {
    for (int i = 0; i < 5000; ++i) {
      threads.submit<bool>(
          lane,
          [&](Store&) {
            while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds{1});
            return true;
          },
          [&](const Result<bool>& done) { given_up += done ? 0 : 1; });
    }
  }
  const std::function<void()> ask = [&] {
    threads.submit<bool>(
        Lane::leases, [](Store&) { return true; },
        [&](const Result<bool>& done) {
          EXPECT_TRUE(done);
          if (++leases < 200) return ask();
          go_on = true;
          loop_.stop();
        });
  };
  ask();
  run();
  EXPECT_EQ(leases, 200);
  EXPECT_GE(given_up, 3 * 5000 - 2000 - 2 * 200 - 3) << "what waits is bounded, but for the flow";
  threads.stop();
  EXPECT_TRUE(threads.join(kBound));
}

}  // namespace
}  // namespace rung::bridge
