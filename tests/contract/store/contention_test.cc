// Several handles at once: nothing happens twice, nothing is lost, nothing stalls.
#include <atomic>
#include <mutex>
#include <random>
#include <regex>
#include <set>

#include "src/store/mysql/mysql_store.h"
#include "tests/contract/store/world.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

TEST_P(StoreContract, ATaskIsClaimedOnceHoweverManyTry) {
  constexpr int kTasks = 40;
  std::vector<TaskId> ids;
  for (int i = 0; i < kTasks; ++i) ids.push_back(due_task());
  // Each has its own epoch and tries to claim the row: the second finds it claimed.
  std::mutex mutex;
  std::multiset<TaskId> claimed;
  const Decider once = [](const Task& task, const Happening& what, const Circumstances& at) {
    if (task.state != State::scheduled) return Decision{Verdict::stale, "taken", task, {}, false};
    return decide(task, what, *rules(), at);
  };
  in_threads(4, [&](int t) {
    const auto store = open();
    std::mt19937 dice(static_cast<unsigned>(t));
    std::vector<TaskId> mine = ids;
    std::shuffle(mine.begin(), mine.end(), dice);
    for (std::size_t from = 0; from < mine.size(); from += 10) {
      std::vector<Event> events;
      for (std::size_t i = from; i < from + 10; ++i) events.push_back({mine[i], event::Claim{}});
      const auto decisions = store->apply(events, fence(), once);
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (decisions[i].verdict == Verdict::applied) claimed.insert(events[i].id);
      }
    }
  });
  EXPECT_EQ(claimed.size(), ids.size());
  for (const TaskId id : ids) EXPECT_EQ(claimed.count(id), 1U);
}

// The fence: while a write that relies on a lease is open, nobody gets that shard, and other shards do not
// wait. The memory store's single lock excludes it by construction.
class OpenClaim : public StoreContract {
 protected:
  // A claim in shard 3, held open while `meanwhile` runs on a thread of its own, until `reached`.
  void hold_open(const std::function<void()>& meanwhile, const std::function<bool()>& reached) {
    a = join("a", {3});
    NewTask n = task();
    n.task.shard = 3;
    ASSERT_EQ(store_->insert(std::span(&n, 1), a).at(0).how, Inserted::How::inserted);
    const Event event{n.task.id, event::Claim{}};
    std::thread other;
    const Decider slow = [&](const Task& task, const Happening& what, const Circumstances& at) {
      other = std::thread(meanwhile);
      wait_until(reached);
      done_meanwhile = done;
      return decide(task, what, *rules(), at);
    };
    const auto decisions = store_->apply(std::span(&event, 1), a, slow);
    other.join();
    EXPECT_EQ(decisions[0].verdict, Verdict::applied);
  }
  // Somebody waits for a lock of this test's schema. In innodb_trx it would not be seen: that table stays as
  // it is while it is read more often than every 100 ms.
  bool waits() {
    const std::string status = mysql_->query("SHOW ENGINE INNODB STATUS").at(0).at(2);
    const std::regex wait("TRX HAS BEEN WAITING.*\\n.* of table `" + mysql_->name() + "`");
    return std::regex_search(status, wait);
  }
  // `call` waits until the claim has ended.
  void expect_to_wait(const std::function<void(Store&)>& call) {
    hold_open(
        [&] {
          StoreOptions patient = mysql_->options();
          patient.timeout = std::chrono::minutes(2);  // of which a lock wait may take a part
          call(*open_mysql_store(patient, test_clock()));
          done = true;
        },
        [this] { return waits(); });
    EXPECT_FALSE(done_meanwhile) << "under an open claim";
    EXPECT_TRUE(done);
  }

  Fence a;
  std::atomic<bool> done{false};
  bool done_meanwhile = false;
};

TEST_P(OpenClaim, ATakeoverPassesItOverAndTakesTheRest) {
  // The same node, started again, takes its shard back.
  std::vector<Lease> first;
  std::atomic<bool> answered{false};
  hold_open(
      [&] {
        const auto other = open();
        const std::vector<int> shards{3, 4}, shard{3};
        first = other->acquire(a.node, kIncarnation, shards, kTtl);
        answered = true;
        wait_until([&] { return other->acquire(a.node, kIncarnation, shard, kTtl).size() == 1; });
        done = true;
      },
      [&] { return answered.load(); });
  EXPECT_THAT(first, testing::ElementsAre(Lease{4, 1}));
  EXPECT_FALSE(done_meanwhile) << "the shard was taken under an open claim";
  EXPECT_TRUE(done);
}

TEST_P(OpenClaim, AReleaseWaitsForIt) {
  expect_to_wait([&](Store& other) { other.release(a.node, a.leases); });
  EXPECT_EQ(store_->shards()[3].owner, 0);
}

TEST_P(OpenClaim, LeavingWaitsForIt) {
  expect_to_wait([&](Store& other) { other.leave(a.node, kIncarnation); });
  EXPECT_EQ(store_->shards()[3].owner, 0);
}

TEST_P(OpenClaim, ARenewalWaitsForIt) {
  expect_to_wait([&](Store& other) { EXPECT_EQ(other.renew(a.node, a.leases, kTtl), a.leases); });
}

TEST_P(OpenClaim, ATakeoverPassesOverAnOpenInsertAndGetsTheShardAfterIt) {
  a = join("a", {3});
  NewTask n = task();
  n.task.shard = 3;
  n.intake_key = "key-of-16-bytes!";
  // The insert has its lease locked and waits for this row, which another has not committed yet.
  mysql_->exec("BEGIN");
  mysql_->exec("INSERT INTO rung_tasks (id, intake_key) VALUES (1, 'key-of-16-bytes!')");
  std::vector<Inserted> inserted;
  std::thread insert([&] { inserted = open()->insert(std::span(&n, 1), a); });
  wait_until([&] {
    return mysql_->value("SELECT COUNT(*) FROM " + mysql_->processlist() + " WHERE db = '" + mysql_->name() +
                         "' AND info LIKE 'INSERT INTO rung_tasks%'") == "1";
  });
  const std::vector<int> shards{3, 4};
  EXPECT_THAT(store_->acquire(a.node, kIncarnation, shards, kTtl), testing::ElementsAre(Lease{4, 1}));
  mysql_->exec("ROLLBACK");
  insert.join();
  EXPECT_EQ(inserted.at(0).how, Inserted::How::inserted);
  EXPECT_THAT(store_->acquire(a.node, kIncarnation, shards, kTtl),
              testing::ElementsAre(Lease{3, 2}, Lease{4, 2}));
}

INSTANTIATE_TEST_SUITE_P(Stores, OpenClaim, testing::Values("mysql"), [](const auto& p) { return p.param; });

TEST_P(StoreContract, AStormOfOverlappingBatchesEndsWithAllDone) {
  constexpr int kTasks = 120;
  constexpr int kRounds = 15;
  std::vector<TaskId> ids;
  for (int i = 0; i < kTasks; ++i) ids.push_back(due_task());
  const Decider count = [](const Task& task, const Happening&, const Circumstances&) {
    Decision d{Verdict::applied, "", task, Attempt{}, false};
    ++d.task.max_attempts;
    d.attempt->task = task.id;
    d.attempt->attempt = 1 + d.task.max_attempts % 3;
    return d;
  };
  std::map<TaskId, std::atomic<int>> asked;
  for (const TaskId id : ids) asked[id] = 0;
  in_threads(4, [&](int t) {
    const auto store = open();
    std::mt19937 dice(static_cast<unsigned>(t) + 1);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<TaskId> mine = ids;
      std::shuffle(mine.begin(), mine.end(), dice);
      std::vector<Event> events;
      for (std::size_t i = 0; i < kTasks / 2; ++i) events.push_back({mine[i], event::Claim{}});
      store->apply(events, fence(), count);
      for (const Event& e : events) ++asked.at(e.id);
      store->renew(fence().node, fence().leases, kTtl);
    }
  });
  for (const TaskId id : ids) EXPECT_EQ(get(id).max_attempts, asked.at(id).load());
}

TEST_P(StoreContract, TheSameIntakeTakenInByManyAtOnceIsOneRow) {
  fence();  // before the threads
  constexpr int kKeys = 60;
  constexpr int kThreads = 4;
  std::vector<std::vector<NewTask>> batches(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    std::mt19937 dice(static_cast<unsigned>(t));
    std::vector<int> keys;
    for (int k = 0; k < kKeys; ++k) keys.push_back(k);
    std::shuffle(keys.begin(), keys.end(), dice);
    for (const int k : keys) {
      NewTask n = task();
      n.intake_key = "key-of-16-bytes" + std::string(1, static_cast<char>('0' + k));
      batches[static_cast<std::size_t>(t)].push_back(std::move(n));
    }
  }
  std::atomic<int> inserted{0};
  std::mutex mutex;
  std::map<std::string, std::set<TaskId>> rows;
  in_threads(kThreads, [&](int t) {
    const auto store = open();
    const auto& batch = batches[static_cast<std::size_t>(t)];
    for (std::size_t from = 0; from < batch.size(); from += 20) {
      const auto part = std::span(batch).subspan(from, 20);
      std::vector<Inserted> results;
      // A deadlock storm may outlast the store's timeout: transient, and the caller repeats.
      wait_until([&] {
        try {
          results = store->insert(part, fence());
        } catch (const StoreError& e) {
          EXPECT_TRUE(e.error.is_transient()) << e.what();
        }
        return !results.empty();
      });
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (results[i].how == Inserted::How::inserted) ++inserted;
        rows[part[i].intake_key].insert(results[i].id);
      }
    }
  });
  EXPECT_EQ(inserted, kKeys);
  for (const auto& [key, ids] : rows) EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(store_->list(Filter{.states = {State::scheduled}, .limit = 1000}).size(), std::size_t{kKeys});
}

}  // namespace
}  // namespace rung::test
