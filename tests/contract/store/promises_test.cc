// Promises of lateness: what instances have counted, in the last hour and the last day.
#include <algorithm>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using ::testing::SizeIs;

class PromiseContract : public StoreContract {
 protected:
  CountBatch batch(const std::string& queue, PromiseCounts more, Ms ago = Ms{0}) {
    return {{{queue, more, {}}}, must(store_->now()) - ago, "a", "1-" + std::to_string(++batches_)};
  }
  void add(const CountBatch& of) { must(store_->add_counts(of)); }
  PromiseRow row(const std::string& queue) {
    for (const PromiseRow& one : must(database().promises())) {
      if (one.queue == queue) return one;
    }
    return {};
  }

 private:
  int batches_ = 0;
};

TEST_P(PromiseContract, AreAddedUpByQueueFromAllInstances) {
  CountBatch both = batch("orders", {1, 2, 3});
  both.changes.push_back({"invoices", {4, 0, 0}, {}});
  add(both);
  CountBatch other = batch("orders", {10, 20, 30});
  other.maker = "b";
  add(other);
  const auto rows = must(database().promises());
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].queue, "invoices");
  EXPECT_EQ(rows[1].queue, "orders");
  EXPECT_EQ(rows[1].last_hour, (PromiseCounts{11, 22, 33}));
  EXPECT_EQ(rows[1].last_day, (PromiseCounts{11, 22, 33}));
}

TEST_P(PromiseContract, ARepeatedBatchChangesNothing) {
  const CountBatch one = batch("orders", {1, 0, 0});
  add(one);
  add(one);
  EXPECT_EQ(row("orders").last_hour, (PromiseCounts{1, 0, 0}));
  CountBatch same_id = one;
  same_id.maker = "b";
  add(same_id);
  add(batch("orders", {1, 0, 0}));
  EXPECT_EQ(row("orders").last_hour, (PromiseCounts{3, 0, 0}));
}

TEST_P(PromiseContract, TheHourAndTheDay) {
  add(batch("orders", {1, 0, 0}));
  add(batch("orders", {0, 1, 0}, std::chrono::minutes{70}));
  add(batch("orders", {0, 0, 1}, std::chrono::hours{26}));
  EXPECT_EQ(row("orders").last_hour, (PromiseCounts{1, 0, 0}));
  EXPECT_EQ(row("orders").last_day, (PromiseCounts{1, 1, 0}));
}

TEST_P(PromiseContract, OldBucketsAreDeletedAFewAtATime) {
  add(batch("orders", {1, 0, 0}));
  add(batch("orders", {1, 0, 0}, std::chrono::hours{2}));   // the bucket of five minutes is old
  add(batch("orders", {1, 0, 0}, std::chrono::hours{30}));  // both are
  const EpochMs now = must(store_->now());
  EXPECT_EQ(must(store_->forget(now, 1)), 2) << "one of each length";
  EXPECT_EQ(must(store_->forget(now, 1)), 1);
  EXPECT_EQ(must(store_->forget(now, 100)), 0);
  EXPECT_EQ(row("orders").last_hour, (PromiseCounts{1, 0, 0}));
  EXPECT_EQ(row("orders").last_day, (PromiseCounts{2, 0, 0}));
}

// The collation ignores blanks at the end.
TEST_P(PromiseContract, NamesThatDifferInBlanks) {
  add(batch("orders", {1, 0, 0}));
  add(batch("orders ", {0, 1, 0}));
  EXPECT_EQ(row("orders").last_hour, (PromiseCounts{1, 0, 0}));
  EXPECT_EQ(row("orders ").last_hour, (PromiseCounts{0, 1, 0}));
}

TEST_P(PromiseContract, AnEmptyBatchIsNothing) {
  add({});
  EXPECT_THAT(must(database().promises()), SizeIs(0));
}

INSTANTIATE_TEST_SUITE_P(Stores, PromiseContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
