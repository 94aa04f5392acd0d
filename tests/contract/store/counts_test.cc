// Tasks by queue and state: the open ones at once, the ended ones in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/api/base/task_counter.h"
#include "src/store/store.h"
#include "tests/contract/store/world.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

using testing::IsEmpty;
using Counts = std::map<std::pair<std::string, State>, std::int64_t>;

class CountContract : public StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    fence = join(*store_, "a");
  }
  void insert(int tasks, const std::string& queue, State state) {
    std::vector<NewTask> rows;
    for (int i = 0; i < tasks; ++i) {
      rows.push_back(task(queue));
      rows.back().task.state = state;
    }
    must(store_->insert(rows, fence));
  }
  // With pieces of this size; each counts at most twice as many.
  Counts ended(int piece_size) {
    Counts counts;
    std::optional<EndedPlace> place = EndedPlace{};
    while (place) {
      const EndedPiece piece = must(database().count_ended(*place, piece_size));
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

  Fence fence;
};

TEST_P(CountContract, OpenTasksAreCountedByStateAndWhatIsOverdue) {
  const EpochMs now = must(store_->now());
  std::vector<NewTask> tasks;
  for (int i = 0; i < 6; ++i) tasks.push_back(task(i < 3 ? "orders" : "orders "));
  tasks[0].task.next_at = now - Ms{5000};
  tasks[1].task.next_at = now + Ms{600'000};
  tasks[2].task.state = State::awaiting;
  must(store_->insert(tasks, fence));
  const auto stats = must(database().open_by_queue());
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
  const auto open = must(database().open_by_queue());
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].state, State::parked);
}

TEST_P(CountContract, PiecesNeitherRepeatNorSkip) {
  insert(7, "orders", State::succeeded);
  insert(1, "letters", State::succeeded);
  insert(3, "", State::succeeded);  // of a delay to an exchange
  insert(2, "orders", State::discarded);
  insert(5, "orders", State::parked);
  const Counts all{{{"orders", State::succeeded}, 7},
                   {{"letters", State::succeeded}, 1},
                   {{"", State::succeeded}, 3},
                   {{"orders", State::discarded}, 2}};
  for (const int piece : {1, 2, 3, 4, 11, 100}) EXPECT_EQ(ended(piece), all) << piece;
}

// One place in the index, two queues.
TEST_P(CountContract, NamesThatDifferInBlanks) {
  for (int i = 0; i < 4; ++i) {
    insert(1, "orders", State::succeeded);
    insert(1, "orders ", State::succeeded);
  }
  insert(1, "orders!", State::succeeded);
  insert(1, "\torders", State::succeeded);  // less than "", which is padded with blanks
  const Counts all{{{"orders", State::succeeded}, 4},
                   {{"orders ", State::succeeded}, 4},
                   {{"orders!", State::succeeded}, 1},
                   {{"\torders", State::succeeded}, 1}};
  for (const int piece : {1, 2, 3, 8, 100}) EXPECT_EQ(ended(piece), all) << piece;
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
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back(
        [&, store = std::shared_ptr(must(open_mysql_store(mysql_->options(), test_clock())))] {
          const auto count = counter.count(*store, EpochMs{1}, Ms{60'000});
          EXPECT_EQ(counts_of(count), (Counts{{{"orders", State::succeeded}, 20}}));
        });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_P(CountContract, NothingIsNothing) {
  EXPECT_THAT(ended(1), IsEmpty());
  EXPECT_THAT(must(database().open_by_queue()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Stores, CountContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
