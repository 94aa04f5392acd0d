#include "tests/contract/store/world.h"

#include "tests/support/clock.h"

namespace rung::test {

RuleBookPtr rules() {
  static const RuleBookPtr book = [] {
    std::map<std::string, levels::Ladder, std::less<>> ladders;
    ladders.emplace("default", levels::Ladder::from_list({Ms{1}, Ms{1}, Ms{1}}).value());
    ladders.emplace("long", levels::Ladder::from_list({Ms{3'600'000}, Ms{3'600'000}}).value());
    std::map<std::string, QueueRules, std::less<>> queues;
    QueueRules defaults;
    defaults.silence = {Silence::Means::success, Ms{3'600'000}};
    queues["presumed"].silence = {Silence::Means::success, Ms{1}};
    queues["strict"].silence = {Silence::Means::failure, Ms{1}};
    queues["loud"].publish_parked = true;
    queues["probed"].gate.breaker = BreakerRules{};
    return std::make_shared<const RuleBook>(std::move(ladders), std::move(queues), RuleBook::Tags{},
                                            defaults);
  }();
  return book;
}

Decider decider() {
  return [book = rules()](const Task& task, const Happening& what, const Circumstances& at) {
    return decide(task, what, *book, at);
  };
}

std::vector<int> all_shards() {
  std::vector<int> all;
  for (int i = 0; i < kShards; ++i) all.push_back(i);
  return all;
}

void StoreContract::SetUp() {
  if (GetParam() == "memory") {
    memory_ = std::make_shared<MemoryDb>();
  } else {
    mysql_ = MysqlSchema::shared();
  }
  store_ = open();
}

std::unique_ptr<Store> StoreContract::open() {
  if (memory_) return open_memory_store(memory_);
  return open_mysql_store(mysql_->options(), test_clock());
}

Fence StoreContract::join(const std::string& name, std::vector<int> shards, Ms ttl) {
  Fence joined;
  joined.node = store_->register_node({name, "0.1.0", "host:1", kIncarnation}, kTtl);
  if (shards.empty()) shards = all_shards();
  joined.leases = store_->acquire(joined.node, kIncarnation, shards, ttl);
  return joined;
}

const Fence& StoreContract::fence() {
  if (of_a_.node == 0) of_a_ = join("a");
  return of_a_;
}

NewTask StoreContract::task(const std::string& queue, const std::string& body) {
  NewTask n;
  const EpochMs now = store_->now();
  n.task.id = ids_.next(now);
  n.task.shard = static_cast<int>(n.task.id.value % kShards);
  n.task.queue = queue;
  n.task.ladder = "default";
  n.task.levels = 3;
  n.task.next_at = now - Ms{1000};
  n.task.first_failed_at = n.task.created_at = now - Ms{2000};
  n.task.body_bytes = static_cast<std::int64_t>(body.size());
  Message message;
  message.body = body;
  n.message = std::make_shared<const Message>(std::move(message));
  n.origin_json = "{}";
  return n;
}

TaskId StoreContract::insert(const NewTask& one, const Fence& under) {
  EXPECT_EQ(store_->insert(std::span(&one, 1), under).at(0).how, Inserted::How::inserted);
  return one.task.id;
}

TaskId StoreContract::waiting(const std::string& queue, Ms delay) {
  NewTask n = task(queue);
  n.task.next_at = db_now() + delay;
  return insert(n);
}

TaskId StoreContract::parked(const std::string& queue) {
  NewTask n = task(queue);
  begin_parked(n.task, "poison", *rules(), db_now());
  return insert(n);
}

Decision StoreContract::apply_one(const Fence& who, TaskId id, Happening what) {
  const Event event{id, std::move(what)};
  return store_->apply(std::span(&event, 1), who, decider()).at(0);
}

Decision StoreContract::applied(const Fence& who, TaskId id, Happening what) {
  const Decision d = apply_one(who, id, std::move(what));
  EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
  return d;
}

void StoreContract::wait_until_applied(TaskId id, const Happening& what) {
  wait_until([&] { return apply_one(id, what).verdict == Verdict::applied; });
}

void StoreContract::deliver(TaskId id) {
  wait_until_applied(id, event::Claim{});
  applied(id, event::Confirmed{get(id).attempt, db_now()});
}

Task StoreContract::get(TaskId id) {
  auto row = store_->find(id);
  if (!row) throw std::runtime_error("no task " + id.str());
  return row->task;
}

void in_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < n; ++t) {
    threads.emplace_back([&, t] {
      try {
        body(t);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<SystemEvent> StoreContract::events(int limit) {
  if (memory_) return static_cast<MemoryStore&>(*store_).events(limit);
  std::vector<SystemEvent> out;
  for (const auto& row : mysql_->query("SELECT kind, subject, detail, COALESCE(node, '') FROM retry_events "
                                       "ORDER BY event_id DESC LIMIT " +
                                       std::to_string(limit)))
    out.push_back({row[0], row[1], row[2], 0, {}, row[3]});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Stores, ReadContract, testing::Values("mysql"));
INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });

}  // namespace rung::test
