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

using Verdict = Decision::Verdict;

inline constexpr Ms kTtl{60'000};
inline constexpr std::uint64_t kIncarnation = 42;  // of every node that calls join()

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
  EpochMs db_now() { return store_->now(); }
  // Registers a node of that name; it gets all shards, or the given ones.
  Fence join(const std::string& name, std::vector<int> shards = {}, Ms ttl = kTtl);
  // Of the node "a" with all shards, which joins at the first call.
  const Fence& fence();
  NewTask task(const std::string& queue = "orders", const std::string& body = "hello");
  // Inserts it under fence(), or under another.
  TaskId insert(const NewTask& one) { return insert(one, fence()); }
  TaskId insert(const NewTask& one, const Fence& under);
  TaskId due_task(const std::string& queue = "orders") { return insert(task(queue)); }
  TaskId waiting(const std::string& queue = "orders", Ms delay = Ms{3'600'000});  // scheduled
  TaskId parked(const std::string& queue = "orders");
  Decision apply_one(const Fence& who, TaskId id, Happening what);
  Decision apply_one(TaskId id, Happening what) { return apply_one(fence(), id, std::move(what)); }
  // Expects that it is applied.
  Decision applied(const Fence& who, TaskId id, Happening what);
  Decision applied(TaskId id, Happening what) { return applied(fence(), id, std::move(what)); }
  // Claims it as soon as it is due, and confirms: it awaits the outcome.
  void deliver(TaskId id);
  void wait_until_applied(TaskId id, const Happening& what);
  Task get(TaskId id);
  std::vector<SystemEvent> events(int limit);  // the newest first, without their ids and times

  // What only MysqlStore has. REQUIRES: "mysql".
  MysqlStore& database() { return static_cast<MysqlStore&>(*store_); }

  std::shared_ptr<MemoryDb> memory_;
  std::shared_ptr<MysqlSchema> mysql_;
  std::unique_ptr<Store> store_;
  IdSource ids_{7};

 private:
  Fence of_a_;
};

// Tests that ask for what only MysqlStore has.
class ReadContract : public StoreContract {};

std::vector<int> all_shards();

// Runs `body` in `n` threads; what it throws fails the test.
void in_threads(int n, const std::function<void(int)>& body);

}  // namespace rung::test
