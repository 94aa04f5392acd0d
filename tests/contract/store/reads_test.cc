#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

std::vector<TaskId> ids_of(const std::vector<TaskRow>& rows) {
  std::vector<TaskId> ids;
  for (const TaskRow& r : rows) ids.push_back(r.task.id);
  return ids;
}

TEST_P(StoreContract, DueIsEarliestFirstWithinAShardAndBounded) {
  const EpochMs base = db_now();
  std::vector<NewTask> tasks;
  for (int i = 0; i < 60; ++i) {
    NewTask n = task();
    n.task.shard = i % 3;
    n.task.next_at = base + Ms{(i * 37) % 60};
    if (i >= 54) n.task.state = State::awaiting;
    if (i < 9) n.task.state = State::publishing;  // claimed: due, and not to be claimed again
    tasks.push_back(std::move(n));
  }
  store_->insert(tasks, fence());
  const auto expect = [&](std::vector<int> shards, std::optional<EpochMs> after, EpochMs until, int per_shard,
                          State state = State::scheduled) {
    std::vector<DueEntry> wanted;
    for (const int shard : shards) {
      std::vector<DueEntry> of_shard;
      for (const NewTask& n : tasks) {
        const Task& t = n.task;
        if (t.shard != shard || t.state != state || *t.next_at > until || (after && *t.next_at <= *after))
          continue;
        of_shard.push_back({t.id, t.shard, *t.next_at, t.queue});
      }
      std::sort(of_shard.begin(), of_shard.end(), [](auto& a, auto& b) { return a.at < b.at; });
      if (static_cast<int>(of_shard.size()) > per_shard) of_shard.resize(static_cast<std::size_t>(per_shard));
      wanted.insert(wanted.end(), of_shard.begin(), of_shard.end());
    }
    const auto got = store_->due(state, shards, after, until, per_shard);
    EXPECT_THAT(got, testing::UnorderedElementsAreArray(wanted));
    EXPECT_FALSE(wanted.empty());
    for (const int shard : shards) {
      EpochMs last{0};
      for (const DueEntry& e : got) {
        if (e.shard != shard) continue;
        EXPECT_LE(last, e.at);
        last = e.at;
      }
    }
  };
  expect({0, 1, 2}, {}, base + Ms{30}, 100);
  expect({0, 1, 2}, {}, base + Ms{59}, 5);
  expect({1}, base + Ms{10}, base + Ms{20}, 100);
  expect({2, 0}, base + Ms{10}, base + Ms{59}, 3);
  expect({0, 1, 2}, {}, base + Ms{59}, 1);
  expect({0, 1, 2}, {}, base + Ms{59}, 100, State::publishing);
  expect({0, 2}, base + Ms{5}, base + Ms{59}, 2, State::publishing);
  EXPECT_EQ(store_->due(State::awaiting, all_shards(), {}, base + Ms{60}, 100).size(), 6U);
  EXPECT_TRUE(store_->due(State::scheduled, {}, {}, base, 100).empty());
}

TEST_P(StoreContract, WhichKindsOfWorkWaitIsOneAnswer) {
  const EpochMs now = db_now();
  const auto add = [&](State state, int shard, EpochMs at) {
    NewTask n = task();
    n.task.shard = shard;
    n.task.state = state;
    n.task.next_at = at;
    insert(n);
  };
  const std::vector<int> ours{3, 5};
  const auto waiting = [&](Ms ahead = Ms{0}) {
    WorkWaiting found = store_->work_waiting(ours, now, now + ahead);
    found.cause_changes = false;
    return found;
  };
  EXPECT_EQ(waiting(), WorkWaiting{});
  for (const State state : {State::scheduled, State::awaiting, State::parked}) add(state, 4, now);
  add(State::scheduled, 3, now + Ms{1});
  EXPECT_EQ(waiting(Ms{1000}), WorkWaiting{}) << "another's, and one that is not due";
  add(State::scheduled, 5, now);
  EXPECT_EQ(waiting(), (WorkWaiting{.scheduled = true}));
  add(State::awaiting, 3, now + Ms{10});
  EXPECT_EQ(waiting(), (WorkWaiting{.scheduled = true}));
  EXPECT_EQ(waiting(Ms{10}), (WorkWaiting{.scheduled = true, .awaiting = true}));
  add(State::parked, 5, now);
  EXPECT_EQ(waiting(), (WorkWaiting{.scheduled = true, .parked = true}));
  EXPECT_EQ(store_->work_waiting({}, now, now), WorkWaiting{});

  NewBulk cancel;
  cancel.action = BulkAction::cancel;
  cancel.filter.queue = "orders";
  cancel.filter_text = "queue=orders";
  cancel.who = "ann";
  const Bulk bulk = store_->create_bulk(cancel);
  EXPECT_TRUE(waiting().bulks);
  store_->set_bulk({bulk.id, BulkState::paused});
  EXPECT_FALSE(waiting().bulks);
}

TEST_P(ReadContract, EachOrderHasPages) {
  for (int i = 0; i < 7; ++i) {
    const TaskId id = due_task();
    if (i % 3 == 0) apply_one(id, event::Cancel{});
  }
  Filter whole;
  for (const auto order : {Filter::Order::newest, Filter::Order::oldest, Filter::Order::due}) {
    whole.order = order;
    const auto all = ids_of(store_->list(whole));
    EXPECT_EQ(all.size(), 7U);
    std::vector<TaskId> seen;
    Filter filter = whole;
    filter.limit = 2;
    for (auto page = store_->list(filter); !page.empty(); page = store_->list(filter)) {
      for (const TaskRow& row : page) seen.push_back(row.task.id);
      filter.after = page.back().task.id;
      filter.after_due = due_of(page.back().task);
    }
    EXPECT_EQ(seen, all);
  }
}

TEST_P(StoreContract, TheHistoriesOfSeveralTasks) {
  const TaskId first = due_task(), second = due_task("loud");
  const TaskId none = due_task();
  const TaskId other = due_task();
  apply_one(second, event::Claim{});
  apply_one(second, event::Confirmed{1, db_now()});
  apply_one(second, event::Failed{1, "again", "Oops", {}});
  wait_until([&] { return *get(second).next_at <= db_now(); });
  apply_one(second, event::Claim{});
  apply_one(first, event::Claim{});
  apply_one(other, event::Claim{});
  const TaskId ids[] = {second, none, first};
  std::vector<std::pair<TaskId, int>> seen;
  for (const AttemptRow& row : store_->histories(ids)) {
    seen.emplace_back(row.attempt.task, row.attempt.attempt);
    EXPECT_EQ(row.queue, row.attempt.task == second ? "loud" : "orders");
  }
  EXPECT_THAT(seen, testing::ElementsAre(std::pair(first, 1), std::pair(second, 1), std::pair(second, 2)));
  EXPECT_TRUE(store_->histories({}).empty());
}

TEST_P(ReadContract, ListShowsWhatItsFilterSays) {
  const EpochMs now = db_now();
  std::vector<NewTask> tasks;
  for (int i = 0; i < 4; ++i) tasks.push_back(task());
  Task& odd = tasks[1].task;
  odd.state = State::awaiting;
  odd.kind = Kind::delay;
  odd.queue = "Orders";
  odd.tag = "t'ag";
  odd.message_id = "m-1";
  odd.ladder = "webhook";
  odd.last_error = "Timeout 100% of _all_";
  odd.error_type = "Unavailable";
  odd.created_at = now - Ms{1'000'000};
  odd.first_failed_at = now - Ms{5'000'000};
  tasks[2].task.queue = "orders ";
  tasks[2].task.first_failed_at = {};  // none yet
  tasks[3].task.next_at = now + Ms{1'000'000};
  store_->insert(tasks, fence());
  const auto only = [&](auto set, std::vector<std::size_t> wanted) {
    Filter f;
    set(f);
    std::vector<TaskId> ids;
    for (const std::size_t i : wanted) ids.push_back(tasks[i].task.id);
    EXPECT_EQ(ids_of(store_->list(f)), ids);
  };
  only([](Filter& f) { f.states = {State::awaiting}; }, {1});
  only([](Filter& f) { f.states = {State::awaiting, State::scheduled}; }, {3, 2, 1, 0});
  only([](Filter& f) { f.states = {State::awaiting, State::parked}; }, {1});
  only([](Filter& f) { f.order = Filter::Order::oldest; }, {0, 1, 2, 3});
  only(
      [](Filter& f) {
        f.order = Filter::Order::due;
        f.due_after = EpochMs{1};
        f.queue = "orders";
      },
      {0, 3});
  only([](Filter& f) { f.kind = Kind::delay; }, {1});
  only([](Filter& f) { f.queue = "Orders"; }, {1});
  only([](Filter& f) { f.queue = "orders "; }, {2});
  only([](Filter& f) { f.queue = "orders"; }, {3, 0});
  only([](Filter& f) { f.queue = "orders' OR '1'='1"; }, {});
  only([](Filter& f) { f.tag = "t'ag"; }, {1});
  only([](Filter& f) { f.message_id = "m-1"; }, {1});
  only([](Filter& f) { f.ladder = "webhook"; }, {1});
  only([](Filter& f) { f.error_contains = "100% of _all_"; }, {1});
  only([](Filter& f) { f.error_contains = "100_"; }, {});
  only([](Filter& f) { f.error_type = "Unavailable"; }, {1});
  only([](Filter& f) { f.error_type = "unavailable"; }, {});
  only([&](Filter& f) { f.first_failed_after = now - Ms{4'000'000}; }, {3, 0});
  only([&](Filter& f) { f.first_failed_before = now - Ms{4'000'000}; }, {1});
  only([&](Filter& f) { f.due_after = now; }, {3});
  only([&](Filter& f) { f.due_before = now; }, {2, 0});  // an awaiting one is due no more
  only([&](Filter& f) { f.created_before = now - Ms{500'000}; }, {1});
  only(
      [&](Filter& f) {
        f.created_after = now - Ms{500'000};
        f.limit = 2;
      },
      {3, 2});
  only(
      [](Filter& f) {
        f.queue = "Orders";
        f.states = {State::scheduled};
      },
      {});
}

// Five tasks; three failed with errors of two types.
class FilterContract : public StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    now_ = db_now();
    for (int i = 0; i < 5; ++i) {
      tasks_.push_back(task(i < 4 ? "orders" : "invoices"));
      tasks_.back().task.first_failed_at = {};  // none yet
    }
    fail(0, "HTTP 503 from bank", "Unavailable", Ms{5'000'000});
    fail(1, "http 429\nslow down", "RateLimited", Ms{3'000'000});
    fail(3, "HTTP 500 from bank", "Unavailable", Ms{1'000'000});
    tasks_[3].task.next_at = now_ - Ms{60'000};
    store_->insert(tasks_, fence());
  }
  void fail(std::size_t i, const char* error, const char* type, Ms ago) {
    Task& t = tasks_[i].task;
    t.last_error = error;
    t.error_type = type;
    t.first_failed_at = now_ - ago;
    t.tag = "bank";
  }
  EpochMs now_;
  std::vector<NewTask> tasks_;
};

TEST_P(FilterContract, CountsByAField) {
  const auto counts = [&](const CountBy& by, const Filter& f = {}, std::int64_t most = 100) {
    std::vector<std::pair<std::string, std::int64_t>> out;
    const TaskCounts all = database().count_by(f, by, most);
    std::int64_t sum = all.others;
    for (const auto& group : all.groups) {
      out.emplace_back(group.value, group.tasks);
      sum += group.tasks;
    }
    EXPECT_EQ(sum, all.total);
    return out;
  };
  using Pairs = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(counts({"queue"}), (Pairs{{"orders", 4}, {"invoices", 1}}));
  EXPECT_EQ(counts({"error_type"}), (Pairs{{"", 2}, {"Unavailable", 2}, {"RateLimited", 1}}));
  EXPECT_EQ(counts({"tag"}), (Pairs{{"bank", 3}, {"", 2}}));
  std::map<std::string, std::int64_t> levels;
  for (const auto& one : tasks_) ++levels[std::to_string(one.task.level)];
  const Pairs by_level = counts({"level"});
  EXPECT_EQ((std::map<std::string, std::int64_t>(by_level.begin(), by_level.end())), levels);
  Filter f;
  f.queue = "invoices";
  EXPECT_EQ(counts({"queue"}, f), (Pairs{{"invoices", 1}}));
  EXPECT_EQ(database().count_by({}, {"queue"}, 3).total, 3) << "stops at `most`";
}

TEST_P(FilterContract, ABulkFreezesTheOldestThatMatch) {
  NewBulk bulk;
  bulk.action = BulkAction::cancel;
  bulk.filter.tag = "bank";
  bulk.who = "ann@desk (test)";
  EXPECT_EQ(store_->create_bulk(bulk).total, 3);
  bulk.limit = 2;
  const Bulk two = store_->create_bulk(bulk);
  EXPECT_EQ(two.total, 2);
  EXPECT_EQ(store_->bulk_next({two.id, "us", {}}, 10), (std::vector{tasks_[0].task.id, tasks_[1].task.id}));
  bulk.filter.tag.clear();
  const Bulk any = store_->create_bulk(bulk);
  EXPECT_EQ(store_->bulk_next({any.id, "us", {}}, 10), (std::vector{tasks_[0].task.id, tasks_[1].task.id}));
}

TEST_P(ReadContract, ListFindsACorrelationId) {
  std::vector<NewTask> tasks;
  for (const char* id : {"", "c-1", "c-1 "}) {
    tasks.push_back(task());
    auto message = std::make_shared<Message>(*tasks.back().message);
    if (*id != '\0') message->properties.correlation_id = id;
    tasks.back().message = std::move(message);
  }
  store_->insert(tasks, fence());
  Filter filter;
  filter.correlation_id = "c-1";
  const auto found = store_->list(filter);
  ASSERT_EQ(ids_of(found), std::vector{tasks[1].task.id});
  EXPECT_EQ(found[0].correlation_id, "c-1");
  EXPECT_EQ(database().count(filter, 10), 1);
}

INSTANTIATE_TEST_SUITE_P(Stores, FilterContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
