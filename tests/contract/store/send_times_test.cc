// Send times, which instances take: rates hold over all of them.
#include <numeric>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

class SendTimesContract : public StoreContract {
 protected:
  static SendRequest request(const std::string& queue, double rate, std::size_t count) {
    SendRequest out;
    out.queue = queue;
    out.rate = rate;
    out.values.push_back({"", std::vector<EpochMs>(count)});
    return out;
  }
  static SendRequest by_value(const std::string& queue, const std::map<std::string, std::size_t>& wanted) {
    SendRequest out;
    out.queue = queue;
    out.rate_by = 0.001;
    for (const auto& [value, count] : wanted) out.values.push_back({value, std::vector<EpochMs>(count)});
    return out;
  }
  static SendTimes one(Store& store, const SendRequest& request) {
    return must(store.take_send_times(std::span(&request, 1))).at(0);
  }
  static int count(const SendTimes& times) {
    int sum = 0;
    for (const SendTimes::Of& of : times.values) sum += static_cast<int>(of.given.size());
    return sum;
  }
  int given(const SendRequest& request) { return count(one(*store_, request)); }
};

TEST_P(SendTimesContract, ARateHoldsOverAllHandles) {
  auto other = open();
  const SendTimes mine = one(*store_, request("orders", 5, 3)), others = one(*other, request("orders", 5, 3));
  ASSERT_EQ(count(mine), 3);
  ASSERT_GE(count(others), 2);
  // A burst of one and 200 ms of the rate; then each has 200 ms of its own.
  EXPECT_EQ(mine.values[0].given[0], mine.values[0].given[1]);
  EXPECT_EQ(mine.values[0].given[2] - mine.values[0].given[1], Ms{200});
  EXPECT_EQ(others.values[0].given[0] - mine.values[0].given[2], Ms{200});
  EXPECT_EQ(given(request("orders ", 5, 2)), 2) << "a blank makes it another queue";
}

TEST_P(SendTimesContract, OneTransactionForManyQueues) {
  const std::vector<SendRequest> all{request("b", 0.001, 2), by_value("a", {{"x", 2}, {"y", 1}}),
                                     request("c", 0, 3)};
  const auto times = must(store_->take_send_times(all));
  ASSERT_EQ(times.size(), 3U);
  EXPECT_EQ(count(times[0]), 1);
  EXPECT_EQ(count(times[1]), 2);
  EXPECT_EQ(count(times[2]), 3);
  EXPECT_GT(times[0].values[0].next.value() - must(store_->now()), Ms{900'000});
  EXPECT_TRUE(must(store_->take_send_times({})).empty());
}

TEST_P(SendTimesContract, EachValueOfAHeaderHasItsRate) {
  const std::string odd = "\u00fc \U0001F600 'quoted' \\ \"\"";
  const std::map<std::string, std::size_t> wanted{{"a", 3}, {"a ", 3}, {"A", 3}, {odd, 3}, {kNoValue, 3}};
  EXPECT_EQ(given(by_value("orders", wanted)), 5);
  auto other = open();
  EXPECT_EQ(count(one(*other, by_value("orders", wanted))), 0);
  EXPECT_EQ(count(one(*other, by_value("orders", {{"b", 2}}))), 1);
  EXPECT_EQ(count(one(*other, by_value("a", wanted))), 5) << "of that queue";
}

TEST_P(SendTimesContract, ValuesOfAsManyBytesAsATaskKeepsHaveTheirRate) {
  const std::string first = std::string(254, 'v') + "1", second = std::string(254, 'v') + "2";
  for (const std::string& value : {first, second}) EXPECT_EQ(given(by_value("orders", {{value, 2}})), 1);
  EXPECT_EQ(given(by_value("orders", {{first, 2}})), 0);
}

TEST_P(SendTimesContract, ConcurrentRequestsGetDifferentSendTimes) {
  std::mutex mutex;
  std::vector<EpochMs> all;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      try {
        const auto handle = open();
        for (int nth = 0; nth < 5; ++nth) {
          const SendTimes times = one(*handle, request("orders", 50, 2));
          const std::lock_guard lock(mutex);
          all.insert(all.end(), times.values[0].given.begin(), times.values[0].given.end());
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  ASSERT_EQ(all.size(), 40U);
  std::ranges::sort(all);
  // However slow the requests are: never more than the burst of eleven and 50 a second.
  for (std::size_t from = 0; from < all.size(); ++from) {
    for (std::size_t to = from; to < all.size(); ++to) {
      const auto lasts = (all[to] - all[from]).count() + 1;  // rounded to ms
      EXPECT_LE(static_cast<std::int64_t>(to - from + 1), 11 + 1 + lasts * 50 / 1000) << from << " to " << to;
    }
  }
}

TEST_P(SendTimesContract, AskingKeepsWhatElseIsKnownOfTheQueue) {
  must(store_->change_gate("orders", [](GateState& state, EpochMs now) {
    state.limited = {now, now + Ms{60'000}, "rate 5/s"};
    state.breaker.outcomes = "..x";
    return std::vector<SystemEvent>{};
  }));
  const auto before = must(store_->gate_states());
  given(request("orders", 5, 1));
  EXPECT_EQ(must(store_->gate_states()), before);
}

TEST_P(SendTimesContract, TheValuesOfAHeaderAreFound) {
  NewTask with = task(), odd = task(), without = task();
  with.task.rule_headers = {{"tenant", "a"}, {"tier", "gold"}};
  odd.task.rule_headers = {{"tenant", " \u00fc \U0001F600 \"'\\ "}};
  for (const NewTask& n : {with, odd, without}) must(store_->insert(std::span(&n, 1), Fence{0, {}, true}));
  const TaskId gone{4711};
  const std::vector<TaskId> ids{with.task.id, odd.task.id, without.task.id, gone};
  const std::map<TaskId, std::string> expected{
      {with.task.id, "a"}, {odd.task.id, " \u00fc \U0001F600 \"'\\ "}, {without.task.id, ""}};
  EXPECT_EQ(must(store_->header_values(ids, "tenant")), expected);
  EXPECT_EQ(must(store_->header_values(ids, "tier")).at(with.task.id), "gold");
  EXPECT_TRUE(must(store_->header_values({}, "tenant")).empty());
}

TEST_P(SendTimesContract, TheValueForTheRateIsFoundBesideTheOneForRules) {
  NewTask with = task();
  with.task.rule_headers = {{"tenant", "the first 255 bytes"}, {"rate_by:tenant", "sha256:00"}};
  must(store_->insert(std::span(&with, 1), Fence{0, {}, true}));
  const std::vector<TaskId> ids{with.task.id};
  EXPECT_EQ(must(store_->header_values(ids, "tenant")).at(with.task.id), "sha256:00");
}

TEST_P(SendTimesContract, SchedulesThatAreFreeAgainAreDeleted) {
  for (int i = 0; i < 5; ++i) given(by_value("orders", {{"v" + std::to_string(i), 1}}));
  const EpochMs now = must(store_->now());
  EXPECT_EQ(must(store_->forget_send_times(now - Ms{60'000}, 100)), 0) << "1,000 s apart: in use";
  given(request("fast", 100, 1));
  EXPECT_EQ(must(store_->forget_send_times(now + Ms{60'000}, 100)), 2) << "and the own one of orders";
  EXPECT_EQ(given(by_value("orders", {{"v0", 1}})), 0);
  EXPECT_EQ(must(store_->forget_send_times(now + Ms{2'000'000}, 4)), 4);
  EXPECT_EQ(must(store_->forget_send_times(now + Ms{2'000'000}, 4)), 2);
}

INSTANTIATE_TEST_SUITE_P(Stores, SendTimesContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace rung::test
