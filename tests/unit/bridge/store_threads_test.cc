#include "src/bridge/store_threads.h"

#include <gtest/gtest.h>

#include <atomic>

namespace rung::bridge {
namespace {

// What the threads do around a store is tested here; no job of these tests looks into it.
class NoStore : public Store {
 public:
  Result<std::vector<std::string>> migrate() override { return permanent("unused"); }
  Result<void> check_schema() override { return permanent("unused"); }
  Result<EpochMs> now() override { return permanent("unused"); }
  Result<int> register_node(const NodeIdentity&, Ms) override { return permanent("unused"); }
  Result<Beat> heartbeat(int, std::uint64_t, Ms) override { return permanent("unused"); }
  Result<void> leave(int, std::uint64_t) override { return permanent("unused"); }
  Result<std::vector<NodeRow>> live_nodes() override { return permanent("unused"); }
  Result<std::vector<ShardRow>> shards() override { return permanent("unused"); }
  Result<std::vector<NodeRow>> nodes() override { return permanent("unused"); }
  Result<std::vector<ShardOverdue>> overdue() override { return permanent("unused"); }
  Result<std::vector<Lease>> acquire(int, std::uint64_t, std::span<const int>, Ms) override {
    return permanent("unused");
  }
  Result<Renewal> renew(int, std::span<const Lease>, Ms) override { return permanent("unused"); }
  Result<void> release(int, std::span<const Lease>) override { return permanent("unused"); }
  Result<std::vector<Inserted>> insert(std::span<const NewTask>, const Fence&) override {
    return permanent("unused");
  }
  Result<std::vector<Decision>> apply(std::span<const Event>, const Fence&, const Decider&) override {
    return permanent("unused");
  }
  Result<std::vector<std::pair<TaskId, MessagePtr>>> messages(std::span<const TaskId>) override {
    return permanent("unused");
  }
  Result<std::vector<DueEntry>> due(State, std::span<const int>, std::optional<EpochMs>, EpochMs,
                                    int) override {
    return permanent("unused");
  }
  Result<std::vector<DueEntry>> stranded(std::span<const Lease>, int) override { return permanent("unused"); }
  Result<std::int64_t> count(State, std::span<const int>, std::int64_t) override {
    return permanent("unused");
  }
  Result<std::vector<TaskRow>> list(const Filter&) override { return permanent("unused"); }
  Result<std::optional<TaskRow>> find(TaskId) override { return permanent("unused"); }
  Result<std::vector<AttemptRow>> history(TaskId) override { return permanent("unused"); }
  Result<std::string> origin(TaskId) override { return permanent("unused"); }
  Result<std::vector<QueueStat>> by_queue() override { return permanent("unused"); }
};

class StoreThreadsTest : public testing::Test {
 protected:
  StoreFactory factory() {
    return [this]() -> Result<std::unique_ptr<Store>> {
      ++opened_;
      if (refusals_ > 0) {
        --refusals_;
        return transient("connection refused");
      }
      return std::make_unique<NoStore>();
    };
  }
  std::function<void(const StoreThreads::Status&)> listener() {
    return [this](const StoreThreads::Status& status) { said_.push_back(status.away); };
  }
  void run() {
    io::Timer bound(loop_, [this] {
      ADD_FAILURE() << "not done within ten seconds";
      loop_.stop();
    });
    bound.start(Ms{10'000});
    loop_.run();
  }

  io::Loop loop_;
  std::atomic<int> opened_{0}, refusals_{0};
  std::vector<bool> said_;
};

TEST_F(StoreThreadsTest, AJobIsTriedAgainUntilTheDatabaseIsBackAndTheOutageIsSaidOnce) {
  refusals_ = 3;
  StoreThreads threads(loop_, factory(), 1, listener());
  int answer = 0;
  threads.submit<int>(
      Lane::flow, [](Store&) -> Result<int> { return 42; },
      [&](const Result<int>& result) {
        ASSERT_TRUE(result);
        answer = *result;
        loop_.stop();
      });
  run();
  EXPECT_EQ(answer, 42);
  EXPECT_EQ(opened_, 4);
  EXPECT_EQ(said_, (std::vector<bool>{true, false}));
}

TEST_F(StoreThreadsTest, ATransientErrorOfTheJobIsTriedAgainOnANewConnection) {
  StoreThreads threads(loop_, factory(), 1, listener());
  auto tries = std::make_shared<std::atomic<int>>(0);
  threads.submit<int>(
      Lane::flow,
      [tries](Store&) -> Result<int> {
        if (++*tries < 3) return transient("server has gone away");
        return 1;
      },
      [&](const Result<int>& result) {
        EXPECT_TRUE(result);
        loop_.stop();
      });
  run();
  EXPECT_EQ(*tries, 3);
  EXPECT_EQ(opened_, 3);
}

TEST_F(StoreThreadsTest, APermanentErrorIsAnAnswer) {
  StoreThreads threads(loop_, factory(), 1, listener());
  threads.submit<int>(
      Lane::flow, [](Store&) -> Result<int> { return permanent("too large"); },
      [&](const Result<int>& result) {
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().message, "too large");
        loop_.stop();
      });
  run();
  EXPECT_TRUE(said_.empty());
}

TEST_F(StoreThreadsTest, StopEndsAnOutagesWaitAtOnce) {
  refusals_ = 1'000'000;
  StoreThreads threads(loop_, factory(), 2, listener());
  threads.submit<int>(
      Lane::flow, [](Store&) -> Result<int> { return 1; }, [](const Result<int>&) {});
  while (opened_ == 0) std::this_thread::yield();
  threads.stop();
  EXPECT_TRUE(threads.join(Ms{5000}));
}

}  // namespace
}  // namespace rung::bridge
