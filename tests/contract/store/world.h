// The fixture of the store's contract tests: a database of either kind, handles to it, tasks, rules.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/store/mysql/mysql_store.h"
#include "tests/support/memory/memory_store.h"
#include "tests/support/mysql.h"

namespace rung::test {

inline constexpr Ms kTtl{60'000};
inline constexpr std::uint64_t kIncarnation = 42;  // of every node that calls join()

// Returns the value; on an error, fails the test and throws to end it.
template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error("not expected to fail: " + result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline void wait_until(const std::function<bool()>& condition) {
  const auto bound = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > bound) throw std::runtime_error("the condition did not come");
    std::this_thread::sleep_for(Ms{2});
  }
}

// Ladder "default": three levels of 1 ms; "long": two of an hour. Queue "presumed": silence of 1 ms is
// success; "strict": failure; "loud": publishes what is parked; "probed": has a breaker; others: silence of
// an hour.
RuleBookPtr rules();
Decider decider();

class StoreContract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;

  std::unique_ptr<Store> open();
  // Registers a node of that name; it gets all shards, or the given ones.
  Fence join(Store& store, const std::string& name, std::vector<int> shards = {}, Ms ttl = kTtl);
  NewTask task(const std::string& queue = "orders", const std::string& body = "hello");
  // Inserts a due task.
  TaskId due_task(Store& store, const Fence& fence, const std::string& queue = "orders");
  Decision apply_one(Store& store, const Fence& fence, TaskId id, Happening what);
  Task get(Store& store, TaskId id);
  std::vector<SystemEvent> events(int limit);  // the newest first, without their ids and times

  // What only MysqlStore has. REQUIRES: "mysql".
  MysqlStore& database() { return static_cast<MysqlStore&>(*store_); }

  std::shared_ptr<MemoryDb> memory_;
  std::shared_ptr<MysqlSchema> mysql_;
  std::unique_ptr<Store> store_;
  IdSource ids_{7};
};

// Tests that ask for what only MysqlStore has.
class ReadContract : public StoreContract {};

std::vector<int> all_shards();

// A task under way, as a starting point.
class Climb {
 public:
  Climb(Store& store, Fence fence) : store_(store), fence_(std::move(fence)) {}
  Decision operator()(TaskId id, Happening what) {
    const Event event{id, std::move(what)};
    return must(store_.apply(std::span(&event, 1), fence_, decider())).at(0);
  }
  EpochMs now() { return must(store_.now()); }
  // Claimed and confirmed: awaiting attempt `n`.
  void deliver(TaskId id, int n) {
    wait_until([&] { return (*this)(id, event::Claim{}).verdict == Decision::Verdict::applied; });
    EXPECT_EQ((*this)(id, event::Confirmed{n, now()}).verdict, Decision::Verdict::applied);
  }

 private:
  Store& store_;
  Fence fence_;
};

}  // namespace rung::test
