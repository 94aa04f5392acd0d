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
  return must(open_mysql_store(mysql_->options(), test_clock()));
}

Fence StoreContract::join(Store& store, const std::string& name, std::vector<int> shards, Ms ttl) {
  Fence fence;
  fence.node = must(store.register_node({name, "0.1.0", "host:1", kIncarnation}, kTtl));
  if (shards.empty()) shards = all_shards();
  fence.leases = must(store.acquire(fence.node, kIncarnation, shards, ttl));
  return fence;
}

NewTask StoreContract::task(const std::string& queue, const std::string& body) {
  NewTask n;
  const EpochMs now = must(store_->now());
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

TaskId StoreContract::due_task(Store& store, const Fence& fence, const std::string& queue) {
  const NewTask n = task(queue);
  const auto inserted = must(store.insert(std::span(&n, 1), fence));
  EXPECT_EQ(inserted.at(0).how, Inserted::How::inserted);
  return n.task.id;
}

Decision StoreContract::apply_one(Store& store, const Fence& fence, TaskId id, Happening what) {
  const Event event{id, std::move(what)};
  return must(store.apply(std::span(&event, 1), fence, decider())).at(0);
}

Task StoreContract::get(Store& store, TaskId id) {
  auto row = must(store.find(id));
  if (!row) throw std::runtime_error("no task " + id.str());
  return row->task;
}

std::vector<SystemEvent> StoreContract::events(int limit) {
  if (memory_) return must(static_cast<MemoryStore&>(*store_).events(limit));
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
