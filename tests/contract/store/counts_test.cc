// Tasks by queue and state: the open ones at once, the ended ones in pieces.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/api/base/context.h"
#include "src/api/stats/stats.h"
#include "src/store/store.h"
#include "tests/contract/store/world.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

using testing::IsEmpty;
using Counts = std::map<std::pair<std::string, State>, std::int64_t>;

class CountContract : public StoreContract {
 protected:
  void insert(int tasks, const std::string& queue, State state) {
    std::vector<NewTask> rows;
    for (int i = 0; i < tasks; ++i) {
      rows.push_back(task(queue));
      rows.back().task.state = state;
    }
    store_->insert(rows, fence());
  }
  // With pieces of this size; each counts at most twice as many.
  Counts ended(int piece_size) {
    Counts counts;
    std::optional<EndedPlace> place = EndedPlace{};
    while (place) {
      const EndedPiece piece = database().count_ended(*place, piece_size);
      std::int64_t tasks = 0;
      for (const QueueStat& stat : piece.queues) {
        counts[{stat.queue, stat.state}] += stat.tasks;
        tasks += stat.tasks;
      }
      EXPECT_LT(tasks, 2 * piece_size);
      place = piece.next;
    }
    return counts;
  }
};

TEST_P(CountContract, OpenTasksAreCountedByStateAndWhatIsOverdue) {
  const EpochMs now = db_now();
  std::vector<NewTask> tasks;
  for (int i = 0; i < 6; ++i) tasks.push_back(task(i < 3 ? "orders" : "orders "));
  tasks[0].task.next_at = now - Ms{5000};
  tasks[1].task.next_at = now + Ms{600'000};
  tasks[2].task.state = State::awaiting;
  store_->insert(tasks, fence());
  const auto stats = database().open_by_queue();
  ASSERT_EQ(stats.size(), 3U);
  const auto of = [&](const std::string& queue, State state) {
    return *std::find_if(stats.begin(), stats.end(),
                         [&](const QueueStat& s) { return s.queue == queue && s.state == state; });
  };
  EXPECT_EQ(of("orders", State::scheduled).tasks, 2);
  EXPECT_EQ(of("orders", State::scheduled).overdue, 1);
  EXPECT_EQ(of("orders", State::scheduled).oldest_due_at, now - Ms{5000});
  EXPECT_EQ(of("orders", State::awaiting).tasks, 1);
  EXPECT_EQ(of("orders", State::awaiting).overdue, 0);
  EXPECT_FALSE(of("orders", State::awaiting).oldest_due_at);
  EXPECT_EQ(of("orders ", State::scheduled).tasks, 3);
}

// Nothing of them is read.
TEST_P(CountContract, OpenTasksAreTheUnfinishedAndTheParked) {
  for (const State state : {State::parked, State::succeeded, State::cancelled, State::discarded})
    insert(1, "orders", state);
  const auto open = database().open_by_queue();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].state, State::parked);
}

TEST_P(CountContract, PiecesNeitherRepeatNorSkip) {
  insert(7, "orders", State::succeeded);
  insert(1, "letters", State::succeeded);
  for (int i = 0; i < 4; ++i) {  // one place in the index, two queues
    insert(1, "mails", State::succeeded);
    insert(1, "mails ", State::succeeded);
  }
  insert(1, "mails!", State::succeeded);
  insert(1, "\tmails", State::succeeded);  // less than "", which is padded with blanks
  insert(3, "", State::succeeded);         // of a delay to an exchange
  insert(2, "orders", State::discarded);
  insert(5, "orders", State::parked);
  const Counts all{{{"orders", State::succeeded}, 7}, {{"letters", State::succeeded}, 1},
                   {{"mails", State::succeeded}, 4},  {{"mails ", State::succeeded}, 4},
                   {{"mails!", State::succeeded}, 1}, {{"\tmails", State::succeeded}, 1},
                   {{"", State::succeeded}, 3},       {{"orders", State::discarded}, 2}};
  for (const int piece : {1, 2, 3, 4, 8, 11, 100}) EXPECT_EQ(ended(piece), all) << piece;
}

Counts counts_of(const api::TaskCount& count) {
  Counts counts;
  for (const QueueStat& stat : count.queues) counts[{stat.queue, stat.state}] += stat.tasks;
  return counts;
}

// If one call counts all ended tasks, its result is current.
TEST_P(CountContract, FewEndedTasksAreCountedAtOnce) {
  api::TaskCounter counter(test_clock());
  EXPECT_THAT(counter.count(database(), EpochMs{1}, Ms{0}).queues, IsEmpty());
  insert(3, "orders", State::succeeded);
  insert(2, "orders", State::scheduled);
  insert(1, "letters", State::discarded);
  // Three pieces, one of each state.
  const api::TaskCount count = counter.count(database(), EpochMs{2}, Ms{60'000});
  EXPECT_EQ(count.ended_at, EpochMs{2});
  EXPECT_EQ(counts_of(count), (Counts{{{"orders", State::succeeded}, 3},
                                      {{"orders", State::scheduled}, 2},
                                      {{"letters", State::discarded}, 1}}));
  EXPECT_TRUE(std::ranges::is_sorted(count.queues, {}, &QueueStat::queue));
}

// One piece a call: four for the five succeeded tasks and the rest of their state, one for each other state.
TEST_P(CountContract, ManyEndedTasksTakeSeveralCalls) {
  insert(5, "orders", State::succeeded);
  api::TaskCounter counter(test_clock(), 2);
  const auto succeeded = [&](std::int64_t at) {
    insert(1, "orders", State::scheduled);
    const api::TaskCount count = counter.count(database(), EpochMs{at}, Ms{0});
    EXPECT_EQ(counts_of(count)[std::pair("orders", State::scheduled)], at) << "open tasks are always of now";
    return std::pair(counts_of(count)[std::pair("orders", State::succeeded)], count.ended_at);
  };
  using Seen = std::pair<std::int64_t, std::optional<EpochMs>>;
  EXPECT_EQ(succeeded(1), Seen(2, std::nullopt));
  EXPECT_EQ(succeeded(2), Seen(4, std::nullopt));
  EXPECT_EQ(succeeded(3), Seen(5, std::nullopt));
  EXPECT_EQ(succeeded(4), Seen(5, std::nullopt)) << "the cancelled ones";
  EXPECT_EQ(succeeded(5), Seen(5, EpochMs{1})) << "the discarded ones";
  insert(1, "orders", State::succeeded);
  for (std::int64_t at = 6; at < 11; ++at) EXPECT_EQ(succeeded(at), Seen(5, EpochMs{1})) << at;
  EXPECT_EQ(succeeded(11), Seen(6, EpochMs{6}));
}

TEST_P(CountContract, CallersAtTheSameTimeEachGetAll) {
  insert(20, "orders", State::succeeded);
  api::TaskCounter counter(test_clock(), 3);
  in_threads(4, [&](int) {
    const auto store = open();
    const auto count = counter.count(static_cast<MysqlStore&>(*store), EpochMs{1}, Ms{60'000});
    EXPECT_EQ(counts_of(count), (Counts{{{"orders", State::succeeded}, 20}}));
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, CountContract, testing::Values("mysql"));

// ---- Activity: what instances have counted, by queue and minute.

using ::testing::ElementsAre;

constexpr EpochMs kNoon{1'789'992'000'000};  // a whole hour
constexpr Ms kMinute = kActivityMinute;

class ActivityContract : public StoreContract {
 protected:
  CountBatch batch(const std::string& queue, ActivityCounts more, EpochMs at) {
    return {{{queue, {}, more}}, at, "a", "1-" + std::to_string(++batches_)};
  }
  void add(const CountBatch& of) { store_->add_counts(of); }
  // Of the two hours from noon on.
  std::vector<ActivityPoint> points(const std::string& queue, Ms step = kMinute) {
    return database().activity({queue, kNoon, kNoon + kMinute * 120, step});
  }

 private:
  int batches_ = 0;
};

TEST_P(ActivityContract, IsAddedUpByMinuteQueueAndOverAllQueues) {
  CountBatch both = batch("orders", {1, 2, 3}, kNoon + Ms{59'999});
  both.changes.push_back({"invoices", {}, {10, 0, 0}});
  add(both);
  CountBatch other = batch("orders", {4, 0, 0}, kNoon);
  other.maker = "b";
  add(other);
  add(batch("orders", {0, 0, 7}, kNoon + kMinute));
  EXPECT_THAT(points("orders"),
              ElementsAre(ActivityPoint{kNoon, {5, 2, 3}}, ActivityPoint{kNoon + kMinute, {0, 0, 7}}));
  EXPECT_THAT(points("invoices"), ElementsAre(ActivityPoint{kNoon, {10, 0, 0}}));
  EXPECT_THAT(points(kAllQueues),
              ElementsAre(ActivityPoint{kNoon, {15, 2, 3}}, ActivityPoint{kNoon + kMinute, {0, 0, 7}}));
  EXPECT_THAT(points("elsewhere"), IsEmpty());
}

TEST_P(ActivityContract, ARangeInSteps) {
  for (const int minute : {-1, 0, 4, 5, 14, 119, 120})
    add(batch("orders", {1, 0, 0}, kNoon + kMinute * minute));
  EXPECT_THAT(points("orders", kMinute * 5),
              ElementsAre(ActivityPoint{kNoon, {2, 0, 0}}, ActivityPoint{kNoon + kMinute * 5, {1, 0, 0}},
                          ActivityPoint{kNoon + kMinute * 10, {1, 0, 0}},
                          ActivityPoint{kNoon + kMinute * 115, {1, 0, 0}}));
}

TEST_P(ActivityContract, ARepeatedBatchChangesNothing) {
  CountBatch one = batch("orders", {1, 0, 0}, kNoon);
  one.changes[0].promised = {1, 0, 0};
  one.at = db_now();
  add(one);
  add(one);
  const EpochMs minute = bucket_of(one.at, kMinute);
  EXPECT_THAT(database().activity({"orders", minute, minute + kMinute, kMinute}),
              ElementsAre(ActivityPoint{minute, {1, 0, 0}}));
  EXPECT_EQ(database().promises().at(0).last_hour, (PromiseCounts{1, 0, 0}));
}

TEST_P(ActivityContract, OldMinutesAreDeletedAFewAtATime) {
  for (int minute = 0; minute < 3; ++minute) add(batch("orders", {1, 0, 0}, kNoon + kMinute * minute));
  const EpochMs then = kNoon + kMinute + kActivityKept;  // two of them are old
  EXPECT_EQ(store_->forget(then, 3), 3) << "two rows for each minute: the queue's, and all";
  EXPECT_EQ(store_->forget(then, 3), 1);
  EXPECT_EQ(store_->forget(then, 3), 0);
  EXPECT_THAT(points("orders"), ElementsAre(ActivityPoint{kNoon + kMinute * 2, {1, 0, 0}}));
  EXPECT_THAT(points(kAllQueues), ElementsAre(ActivityPoint{kNoon + kMinute * 2, {1, 0, 0}}));
}

// The collation ignores blanks at the end.
TEST_P(ActivityContract, NamesThatDifferInBlanks) {
  add(batch("orders", {1, 0, 0}, kNoon));
  add(batch("orders ", {0, 1, 0}, kNoon));
  EXPECT_THAT(points("orders"), ElementsAre(ActivityPoint{kNoon, {1, 0, 0}}));
  EXPECT_THAT(points("orders "), ElementsAre(ActivityPoint{kNoon, {0, 1, 0}}));
}

// As GET /v1/activity answers.
TEST_P(ActivityContract, EachStepHasItsPoint) {
  const EpochMs now = kNoon + Ms{25'123};
  add(batch("orders", {1, 2, 3}, kNoon - kMinute * 3));
  add(batch("orders", {4, 0, 0}, now));
  const api::Json activity = api::read_activity(database(), {"orders", now - kMinute * 4, now}, now);
  EXPECT_EQ(activity.at("step_s"), 60);
  std::vector<int> failed;
  for (const api::Json& point : activity.at("points")) failed.push_back(point.at("failed"));
  EXPECT_THAT(failed, ElementsAre(0, 1, 0, 0, 4));
  EXPECT_EQ(api::dump(activity.at("points")[1]),
            R"({"at":"2026-09-21T11:57:00.000Z","failed":1,"retried":2,"succeeded":3})");
  EXPECT_TRUE(api::read_activity(database(), {"", EpochMs{0}, EpochMs{1}}, now).at("points").empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, ActivityContract, testing::Values("mysql"));

// ---- Promises of lateness: what instances have counted, in the last hour and the last day.

using ::testing::SizeIs;

class PromiseContract : public StoreContract {
 protected:
  CountBatch batch(const std::string& queue, PromiseCounts more, Ms ago = Ms{0}) {
    return {{{queue, more, {}}}, db_now() - ago, "a", "1-" + std::to_string(++batches_)};
  }
  void add(const CountBatch& of) { store_->add_counts(of); }
  PromiseRow row(const std::string& queue) {
    for (const PromiseRow& one : database().promises()) {
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
  const auto rows = database().promises();
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
  const EpochMs now = db_now();
  EXPECT_EQ(store_->forget(now, 1), 2) << "one of each length";
  EXPECT_EQ(store_->forget(now, 1), 1);
  EXPECT_EQ(store_->forget(now, 100), 0);
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

INSTANTIATE_TEST_SUITE_P(Stores, PromiseContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
