// An instance of the flow for tests: its components, connected as Bridge connects them, but accessible, with
// a broker, a database, a loop and jobs that the test controls. Time passes only in World::loop.
//
//   World world;
//   Flow flow(world);
//   flow.take_shards();
//   const TaskId id = world.insert("orders", world.now());
//   flow.hand_over(id);               // as when its due time comes
//   world.loop.run_for(Ms{10});
//   flow.attempts_in("orders");       // {1}
//
// Thread: one test's.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/bridge.h"
#include "src/bridge/changes/inserts.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/due.h"
#include "src/bridge/flight/gates.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/intake/intake.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/bridge/upkeep/janitor.h"
#include "src/bridge/watch/attachments.h"
#include "src/bridge/watch/store_watch.h"
#include "src/core/message/identity.h"
#include "tests/support/memory/memory_broker.h"
#include "tests/support/memory/memory_store.h"
#include "tests/support/virtual_time.h"

namespace rung::bridge {

inline constexpr Ms kAMinute{60'000};

// `delays`: of the ladder `default`.
inline RuleBookPtr book_of(std::vector<Ms> delays, RuleBook::Queues queues, const QueueRules& defaults = {},
                           RuleBook::Patterns patterns = {}) {
  return std::make_shared<RuleBook>(
      RuleBook::Ladders{{"default", levels::Ladder::from_list(std::move(delays)).value()}}, std::move(queues),
      RuleBook::Tags{}, defaults, TargetRules{}, RuleBook::RuleLists{}, std::make_shared<const ErrorQueues>(),
      std::move(patterns));
}

// orders, invoices: silence for 10 minutes is a success. billed: parked tasks are copied to rung.parked.
inline RuleBookPtr story_rules(int catch_up = 1000) {
  const QueueRules defaults{.ladder = "default", .silence = {}, .catch_up = catch_up};
  QueueRules billed = defaults;
  billed.publish_parked = true;
  return book_of({Ms{1000}, Ms{2000}, Ms{5000}}, {{"billed", billed}}, defaults);
}

// Shared by all instances.
struct World {
  World() {
    loop.after_each([this] {
      for (bool more = true; more;) {
        more = false;
        for (MemoryBroker* broker : brokers) more = broker->pump() || more;
      }
    });
  }

  EpochMs now() const { return clock->wall(); }
  void run_until(EpochMs time) { loop.run_for(time - now()); }
  // As an instance does with each renewal of its leases. `behind`: the database's clock, by so much.
  void read_clock(DbClock& of_instance, Ms behind = Ms{0}) const {
    const BootUs at = clock->boot_us();
    of_instance.measured({(now() - behind).ms * 1000}, at, at);
  }

  using Edit = std::function<void(Task&)>;
  // Inserts a row, as another process would: scheduled, unless `edit` changes that.
  TaskId insert(
      const std::string& queue, EpochMs at, int shard = 5, const Edit& edit = [](Task&) {}) {
    NewTask fresh;
    auto message = std::make_shared<Message>(Message{{}, {}, "body"});
    fresh.task.id = ids.next(now());
    fresh.task.queue = queue;
    fresh.task.shard = shard;
    fresh.task.next_at = at;
    fresh.task.created_at = now();
    fresh.task.ladder = "default";
    fresh.task.levels = 3;
    edit(fresh.task);
    if (!fresh.task.message_id.empty()) message->properties.message_id = fresh.task.message_id;
    if (fresh.task.digest.empty()) fresh.task.digest = message_digest(*message);
    fresh.message = std::move(message);
    EXPECT_EQ(eyes->insert({&fresh, 1}, Fence{0, {}, true}).at(0).how, Inserted::How::inserted);
    return fresh.task.id;
  }
  TaskId insert_awaiting(const std::string& queue, int attempt = 1, const std::string& message_id = {}) {
    return insert(queue, now() + Ms{600'000}, 5, [&](Task& task) {
      task.state = State::awaiting;
      task.attempt = attempt;
      task.message_id = message_id;
    });
  }
  Task row(TaskId id) { return eyes->find(id).value().task; }
  // By another process.
  void pause(const std::string& queue, std::optional<EpochMs> until = {}) {
    eyes->pause({queue, until, "ann", ""});
  }
  void resume(const std::string& queue) { ASSERT_TRUE(eyes->resume(queue, "ann", "").any()); }
  std::vector<TaskRow> rows() { return eyes->list({}); }
  // As the view retry_queues shows it.
  QueueGate gate(const std::string& queue) {
    const auto states = eyes->gate_states();
    const auto state = std::ranges::find(states, queue, &GateState::queue);
    return shown_gate(nullptr, state == states.end() ? nullptr : &*state, now()).value_or(QueueGate{});
  }

  // Another instance, visible only through its rows: it acquires the free shards.
  Fence peer(const std::string& name, Ms lease) {
    std::vector<int> shards;
    for (int s = 0; s < kShards; ++s) shards.push_back(s);
    const int node = eyes->register_node({name, "0", "there", 7}, lease);
    return {node, eyes->acquire(node, 7, shards, lease, 0)};
  }
  Decision apply(const Fence& who, Event event) {
    return eyes->apply({&event, 1}, who, decider(rules)).at(0);
  }

  const std::shared_ptr<test::VirtualClock> clock = std::make_shared<test::VirtualClock>();
  test::VirtualLoop loop{*clock};
  const std::shared_ptr<MemoryDb> db = std::make_shared<MemoryDb>(clock, 1);
  const std::unique_ptr<MemoryStore> eyes = open_memory_store(db);
  RuleBookPtr rules = story_rules();
  IdSource ids{1000};
  std::set<MemoryBroker*> brokers;
};

class Flow final : public BrokerSink {
 public:
  static constexpr std::uint64_t kIncarnation = 42;
  struct Options {
    std::string name = "a";
    Ms lease{10'000};
    Ms connection_death{5000};
    Ms window{600'000};
    std::size_t max_loaded = 1'000'000;
    int max_unconfirmed = 2000;
  };

  explicit Flow(World& its_world) : Flow(its_world, Options{}) {}
  Flow(World& its_world, Options options)
      : world(its_world),
        settings{.identity = {options.name, "0", "here", kIncarnation},
                 .lease = options.lease,
                 .window = options.window,
                 .max_loaded = options.max_loaded,
                 .max_unconfirmed = options.max_unconfirmed},
        sidecar{settings, world.loop, broker,      jobs,        table,   world.rules, clock,   names,
                health,   record,     attachments, store_watch, proof,   gates,       counts,  outbox,
                acks,     shards,     left,        transitions, inserts, dispatch,    horizon, intake},
        shards(world.loop, jobs, clock, {settings.identity, options.lease, options.connection_death},
               listener()) {
    proof.set(std::string(64, 'a'));
    for (const char* queue : {"orders", "invoices", "billed"}) broker.declare(queue);
    world.brokers.insert(&broker);
    EXPECT_TRUE(broker.start(*this));
    table.start();
  }
  ~Flow() override {
    alive_.reset();
    world.brokers.erase(&broker);
    broker.stop(Ms{0});
  }

  void take_shards(int count = kShards) {
    shards.start();
    EXPECT_TRUE(world.loop.run_until([&] { return shards.count() == count; }));
    world.loop.run_for(Ms{5});  // the queries after gaining shards are answered
  }
  io::DueItem item(TaskId id) {
    const Task task = world.row(id);
    return names.item(task, task.next_at.value());
  }
  // As the heap or the sweep does when the tasks are due: as one batch.
  void hand_over(const std::vector<TaskId>& ids) {
    std::vector<io::DueItem> items;
    for (const TaskId id : ids) items.push_back(item(id));
    dispatch.due(items);
  }
  void hand_over(TaskId id) { hand_over(std::vector{id}); }
  void schedule(TaskId id) { horizon.schedule(item(id)); }
  // Applies a change by hand or a consumer's result; waits for the answer.
  std::optional<Decision> say(Event event) {
    auto answer = std::make_shared<std::optional<Decision>>();
    transitions.add(std::move(event), [answer](const Result<Decision>& decision) {
      if (decision) *answer = *decision;
    });
    transitions.flush();
    EXPECT_TRUE(world.loop.run_until([&] { return answer->has_value(); }));
    return *answer;
  }
  // retry-attempt of the messages in the queue.
  std::vector<int> attempts_in(std::string_view queue) const {
    std::vector<int> attempts;
    for (const Message& message : broker.contents(queue)) {
      const Value* attempt = find(message.headers, header::kAttempt);
      attempts.push_back(attempt == nullptr ? 0 : static_cast<int>(attempt->as_int().value_or(0)));
    }
    return attempts;
  }
  // A message that its consumer published to rung.failed.
  bool put_failed(const std::string& queue, const std::string& body = "body", Table headers = {}) {
    return put_failed(queue, Message{{}, std::move(headers), body});
  }
  bool put_failed(const std::string& queue, Message message, const std::string& routing_key = {}) {
    if (!message.headers) message.headers.emplace();
    message.headers->emplace_back(std::string(header::kQueue), queue);
    return broker.put("rung.failed", routing_key, std::move(message));
  }

  void on_deliveries(std::vector<Delivery> batch) override {
    post([this, batch = std::move(batch)] { intake.arrived(batch); });
  }
  void on_published(std::vector<PublishResult> results) override {
    post([this, results = std::move(results)] {
      outbox.arrived(results);
      transitions.flush();
      dispatch.pump();
    });
  }
  void on_status(const BrokerStatus& status) override {
    post([this, status] { dispatch.open(status.publishing && !status.blocked); });
  }
  void on_topology(const TopologyReport&) override {}

  World& world;
  const BridgeSettings settings;
  const Sidecar sidecar;
  DbClock clock{*world.clock};
  QueueNames names;
  Health health{*world.clock, [] {}};
  MemoryBroker broker{{}, MemoryBroker::Pace::by_hand, world.clock};
  test::VirtualJobs jobs{world.loop, [this] { return open_memory_store(world.db); }};
  Jobs table{world.loop, jobs, shards};
  Gates gates{sidecar, [this](const std::vector<std::string>& queues) { dispatch.gates_changed(queues); }};
  DeliveryProof proof{sidecar};
  Outbox outbox{broker, *world.clock};
  FlowCounts counts{world.rules};
  Acks acks{broker, *world.clock};
  Shards shards;
  LeftUnacked left{world.loop, health};
  Transitions transitions{sidecar};
  Inserts inserts{sidecar};
  StoreWatch store_watch{sidecar};
  std::vector<SystemEvent> events;  // recorded
  const RecordEvent record = [this](const char* kind, const std::string& subject, const std::string& detail) {
    events.push_back({kind, subject, detail});
  };
  Attachments attachments{sidecar};
  Dispatch dispatch{sidecar};
  Horizon horizon{sidecar};
  Intake intake{sidecar};
  Janitor janitor{sidecar};

 private:
  void post(std::function<void()> task) {
    world.loop.post([task = std::move(task), alive = std::weak_ptr<bool>(alive_)] {
      if (!alive.expired()) task();
    });
  }
  Shards::Listener listener() {
    return {[this](const std::vector<Gained>& gained) {
              std::vector<int> taken;
              for (const Gained& one : gained) taken.push_back(one.lease.shard);
              horizon.gained(taken);
              janitor.gained(gained);
              inserts.flush();
              dispatch.shards_gained();
            },
            [](const std::vector<int>&) {},
            [this](BootMs deadline) {
              gates.clock_measured();
              intake.go_on();
              broker.allow_publish_until(deadline);
            },
            [] {}, [](const Shards::Notice&) {}};
  }
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// A whole instance, as a process is one: a Bridge with the broker that its config names.
struct Whole {
  struct Options {
    std::string name = "a";
    Ms lease{10'000};
    std::shared_ptr<MemoryDb> db = {};  // instead of the world's
  };
  Whole(World& its_world, MemoryBroker& its_broker, const RuleBookPtr& rules, const Options& options)
      : world(its_world), broker(its_broker), db(options.db ? options.db : world.db) {
    BridgeSettings settings;
    settings.identity = {options.name, "0", "here", Flow::kIncarnation};
    settings.lease = options.lease;
    settings.heartbeat = Ms{500};
    world.brokers.insert(&broker);
    bridge = std::make_unique<Bridge>(
        world.loop, broker,
        [this](StoreJobs::OnStatus on_status) {
          auto made = std::make_unique<test::VirtualJobs>(
              world.loop, [this] { return open_memory_store(db); }, std::move(on_status));
          jobs = made.get();
          return made;
        },
        settings, rules, [] {});
  }
  ~Whole() {
    db->fail_next(0);
    bridge->stop(Ms{5000});
    world.brokers.erase(&broker);
  }

  std::optional<HealthProblem> problem(std::string_view name) const {
    for (const HealthProblem& one : bridge->vitals().problems)
      if (one.name == name) return one;
    return std::nullopt;
  }

  World& world;
  MemoryBroker& broker;
  const std::shared_ptr<MemoryDb> db;
  test::VirtualJobs* jobs = nullptr;  // the bridge's
  std::unique_ptr<Bridge> bridge;
};

}  // namespace rung::bridge
