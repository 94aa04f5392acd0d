// A connection to the simulated database: each call takes time in both directions, and may fail. Anything may
// happen between two calls of one job; a lease may expire, for example. Called within a fiber.
// Thread: one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/store/store.h"
#include "tests/simulator/fiber.h"
#include "tests/simulator/watcher.h"
#include "tests/simulator/world.h"

namespace rung::sim {

// The current faults of the database, as one node sees them.
struct DbTrouble {
  int away = 0;  // number of outages at the same time
  double fail = 0, lose = 0, stall = 0;
};

// One attempt at a job, as its calls see it.
struct Attempt {
  std::unique_ptr<Fiber> fiber;
  std::function<void()> ended;  // called when it has ended, unless it was abandoned
  bool in_server = false;       // the request was sent: it takes effect in any case
  bool abandoned = false;       // its process has died, or no longer waits
  std::uint64_t calls = 0;

  void go() {
    fiber->resume();
    if (fiber->done() && !abandoned) ended();
  }
};

class FaultyStore final : public Store {
 public:
  struct Deps {
    World& world;
    ProcessPtr process;
    const DbTrouble& trouble;
    Watcher& watcher;
    Rng& dice;
    std::shared_ptr<Store> connection;  // of the thread whose call this is
    std::weak_ptr<Attempt> attempt;
    std::function<void(const std::shared_ptr<Attempt>&)> timed_out;
    std::function<void()> step;  // called when a call took effect: a point at which a node may be killed
  };
  explicit FaultyStore(Deps deps);

  Result<std::vector<std::string>> migrate() override {
    return call([&] { return db_->migrate(); });
  }
  Result<void> check_schema() override {
    return call([&] { return db_->check_schema(); });
  }
  Result<EpochMs> now() override {
    return call([&] { return db_->now(); });
  }
  Result<EpochUs> clock() override {
    return call([&]() -> Result<EpochUs> { return EpochUs{deps_.world.wall->us()}; });
  }
  Result<int> register_node(const NodeIdentity& identity, Ms ttl) override {
    return call([&] { return db_->register_node(identity, ttl); });
  }
  Result<Beat> heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                         const std::vector<HealthProblem>& problems, BrokerLink link,
                         const std::string& config) override {
    return call([&] { return db_->heartbeat(node, incarnation, ttl, problems, link, config); });
  }
  Result<void> leave(int node, std::uint64_t incarnation) override {
    return call([&] { return db_->leave(node, incarnation); });
  }
  Result<std::vector<NodeRow>> live_nodes() override {
    return call([&] { return db_->live_nodes(); });
  }
  Result<std::vector<ShardRow>> shards() override {
    return call([&] { return db_->shards(); });
  }
  Result<std::vector<Lease>> acquire(int node, std::uint64_t incarnation, std::span<const int> shards, Ms ttl,
                                     std::uint64_t above) override {
    return call([&] { return db_->acquire(node, incarnation, shards, ttl, above); });
  }
  Result<std::vector<Lease>> renew(int node, std::span<const Lease> leases, Ms ttl) override {
    return call([&] { return db_->renew(node, leases, ttl); });
  }
  Result<void> release(int node, std::span<const Lease> leases) override {
    return call([&] { return db_->release(node, leases); });
  }
  Result<std::vector<Inserted>> insert(std::span<const NewTask> tasks, const Fence& fence) override;
  Result<std::vector<Decision>> apply(std::span<const Event> events, const Fence& fence,
                                      const Decider& decide, const BulkStep* step) override;
  Result<Claimed> claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                        std::size_t most_bytes) override;
  Result<std::vector<StoredMessage>> messages(std::span<const TaskId> ids) override {
    return call([&] { return db_->messages(ids); });
  }
  Result<std::vector<DueEntry>> due(State state, std::span<const int> shards, std::optional<EpochMs> after,
                                    EpochMs until, int per_shard,
                                    std::span<const std::string> without) override {
    return call([&] { return db_->due(state, shards, after, until, per_shard, without); });
  }
  Result<WorkWaiting> work_waiting(std::span<const int> shards, EpochMs scheduled_until,
                                   EpochMs until) override {
    return call([&] { return db_->work_waiting(shards, scheduled_until, until); });
  }
  Result<void> write_claims(std::span<const TaskId> ids) override {
    return call([&] { return db_->write_claims(ids); });
  }
  Result<std::vector<TaskId>> short_claims(std::span<const Lease> leases) override {
    return call([&] { return db_->short_claims(leases); });
  }
  Result<std::vector<DueEntry>> stranded(std::span<const Lease> leases, int limit) override {
    return call([&] { return db_->stranded(leases, limit); });
  }
  Result<Bulk> create_bulk(const NewBulk& bulk) override {
    return call([&] { return db_->create_bulk(bulk); });
  }
  Result<std::optional<Bulk>> bulk(std::int64_t id) override {
    return call([&] { return db_->bulk(id); });
  }
  Result<std::vector<Bulk>> bulks(int limit, std::optional<std::int64_t> below) override {
    return call([&] { return db_->bulks(limit, below); });
  }
  Result<std::optional<Bulk>> set_bulk(const BulkControl& control) override {
    return call([&] { return db_->set_bulk(control); });
  }
  Result<std::optional<Bulk>> take_bulk(const std::string& runner, Ms ttl,
                                        std::optional<std::int64_t> only) override {
    return call([&] { return db_->take_bulk(runner, ttl, only); });
  }
  Result<std::vector<TaskId>> bulk_next(const BulkStep& step, int limit) override {
    return call([&] { return db_->bulk_next(step, limit); });
  }
  Result<std::vector<SentTask>> sent_by_bulk(std::int64_t id, int limit) override {
    return call([&] { return db_->sent_by_bulk(id, limit); });
  }
  Result<void> judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) override {
    return call([&] { return db_->judge_bulk(step, verdict, pause); });
  }
  Result<Pause> pause(const NewPause& wish) override {
    return call([&] { return db_->pause(wish); });
  }
  Result<Resumed> resume(const std::string& queue, const std::string& who,
                         const std::string& reason) override {
    return call([&] { return db_->resume(queue, who, reason); });
  }
  Result<std::vector<Pause>> pauses(EpochMs changed_since) override {
    return call([&] { return db_->pauses(changed_since); });
  }
  Result<std::vector<QueueGate>> queue_gates() override {
    return call([&] { return db_->queue_gates(); });
  }
  Result<std::vector<GateState>> gate_states(EpochMs changed_since) override {
    return call([&] { return db_->gate_states(changed_since); });
  }
  Result<std::vector<GateState>> change_gates(const GateBatch& batch) override {
    return call([&] { return db_->change_gates(batch); });
  }
  Result<std::vector<SendTimes>> take_send_times(std::span<const SendRequest> requests) override {
    return call([&] {
      auto times = db_->take_send_times(requests);
      if (times) deps_.watcher.given(requests, *times);
      return times;
    });
  }
  Result<int> forget_send_times(EpochMs before, int most) override {
    return call([&] { return db_->forget_send_times(before, most); });
  }
  Result<std::map<TaskId, std::string>> header_values(std::span<const TaskId> ids,
                                                      const std::string& header) override {
    return call([&] { return db_->header_values(ids, header); });
  }
  Result<void> forget_gates(EpochMs before) override {
    return call([&] { return db_->forget_gates(before); });
  }
  Result<std::vector<AttachmentRecord>> attachments(std::span<const std::string> queues) override {
    return call([&] { return db_->attachments(queues); });
  }
  Result<std::vector<AttachmentRecord>> see_attachments(std::span<const AttachmentSighting> seen) override {
    return call([&] { return db_->see_attachments(seen); });
  }
  Result<std::map<TaskId, Awaiting>> awaiting(std::span<const TaskId> ids) override {
    return call([&] { return db_->awaiting(ids); });
  }
  Result<std::vector<std::string>> awaiting_queues(std::size_t most) override {
    return call([&] { return db_->awaiting_queues(most); });
  }
  Result<std::map<std::string, std::int64_t>> held_silences() override {
    return call([&] { return db_->held_silences(); });
  }
  Result<std::vector<RemovedQueue>> name_queues(std::span<const NamedQueue> named) override {
    return call([&] { return db_->name_queues(named); });
  }
  Result<std::vector<CauseRow>> causes(const CauseFilter& filter) override {
    return call([&] { return db_->causes(filter); });
  }
  Result<std::optional<CauseRow>> triage(const std::string& cause, const CauseTriage& triage,
                                         const std::string& who) override {
    return call([&] { return db_->triage(cause, triage, who); });
  }
  Result<Totals> cause_totals() override {
    return call([&] { return db_->cause_totals(); });
  }
  Result<CausesFolded> fold_causes(int limit) override {
    return call([&] { return db_->fold_causes(limit); });
  }
  Result<void> read_causes() override {
    return call([&] { return db_->read_causes(); });
  }
  Result<int> forget_causes(EpochMs before, int limit) override {
    return call([&] { return db_->forget_causes(before, limit); });
  }
  Result<PurgeResult> purge_finished(EpochMs before, const PurgeCursor& from, int limit) override {
    return call([&] { return db_->purge_finished(before, from, limit); });
  }
  Result<std::vector<Partition>> partitions() override {
    return call([&] { return db_->partitions(); });
  }
  Result<PartitionsAdded> add_partitions(std::span<const Partition> partitions) override {
    return call([&] { return db_->add_partitions(partitions); });
  }
  Result<PartitionDrop> drop_partition(const Partition& partition) override {
    return call([&] { return db_->drop_partition(partition); });
  }
  Result<Swept> sweep(TaskId from, TaskId to, int limit) override {
    return call([&] { return db_->sweep(from, to, limit); });
  }
  Result<PurgedRecords> purge_records(EpochMs before, int limit) override {
    return call([&] { return db_->purge_records(before, limit); });
  }
  Result<ServerVariables> server_variables() override {
    return call([&] { return db_->server_variables(); });
  }
  Result<void> record_event(int node, const SystemEvent& event) override {
    return call([&] { return db_->record_event(node, event); });
  }
  Result<std::vector<SystemEvent>> events(int limit) override {
    return call([&] { return db_->events(limit); });
  }
  Result<std::string> setting(std::string_view name, std::string_view if_absent) override {
    return call([&] { return db_->setting(name, if_absent); });
  }
  Result<void> set_setting(std::string_view name, std::string_view value) override {
    return call([&] { return db_->set_setting(name, value); });
  }
  Result<LiveAnswer> live(const LiveQuestion& question) override {
    return call([&] { return db_->live(question); });
  }
  Result<void> add_counts(const CountBatch& batch) override {
    return call([&] { return db_->add_counts(batch); });
  }
  Result<std::vector<PromiseRow>> promises() override {
    return call([&] { return db_->promises(); });
  }
  Result<std::vector<ActivityPoint>> activity(const ActivityRange& range) override {
    return call([&] { return db_->activity(range); });
  }
  Result<int> forget_counts(EpochMs now, int limit) override {
    return call([&] { return db_->forget_counts(now, limit); });
  }
  Result<std::int64_t> count(const Filter& filter, std::int64_t most) override {
    return call([&] { return db_->count(filter, most); });
  }
  Result<TaskCounts> count_by(const Filter& filter, const CountBy& by, std::int64_t most) override {
    return call([&] { return db_->count_by(filter, by, most); });
  }
  Result<AuditPage> audit_log(const AuditFilter& filter) override {
    return call([&] { return db_->audit_log(filter); });
  }
  Result<std::vector<AuditRow>> audit(TaskId id) override {
    return call([&] { return db_->audit(id); });
  }
  Result<std::vector<TaskRow>> list(const Filter& filter) override {
    return call([&] { return db_->list(filter); });
  }
  Result<std::optional<TaskRow>> find(TaskId id) override {
    return call([&] { return db_->find(id); });
  }
  Result<std::vector<KnownTask>> known(std::span<const TaskId> ids) override {
    return call([&] { return db_->known(ids); });
  }
  Result<std::vector<TaskId>> children(const Task& task) override {
    return call([&] { return db_->children(task); });
  }
  Result<std::vector<AttemptRow>> histories(std::span<const TaskId> ids) override {
    return call([&] { return db_->histories(ids); });
  }
  Result<std::string> origin(TaskId id) override {
    return call([&] { return db_->origin(id); });
  }
  Result<std::vector<QueueStat>> open_by_queue() override {
    return call([&] { return db_->open_by_queue(); });
  }
  Result<EndedPiece> count_ended(const EndedPlace& from, int most) override {
    return call([&] { return db_->count_ended(from, most); });
  }
  Result<std::vector<NodeRow>> nodes() override {
    return call([&] { return db_->nodes(); });
  }
  Result<std::vector<ShardOverdue>> overdue() override {
    return call([&] { return db_->overdue(); });
  }

 private:
  struct Plan {  // of one call
    Us there = 0, back = 0;
    bool away = false, fails = false, refused = false, answer_lost = false;
  };
  Plan draw();
  // Waits. `server`: also if the process is gone or paused meanwhile.
  void travel(Us time, bool server);
  std::optional<Error> arrive(const Plan& plan);

  template <typename F>
  auto call(F body) -> decltype(body()) {
    const Plan plan = draw();
    travel(plan.there, true);
    if (auto error = arrive(plan)) {
      travel(plan.back, false);
      return tl::unexpected<Error>(*std::move(error));
    }
    auto out = body();
    if (deps_.step) deps_.step();
    travel(plan.back, false);
    if (plan.answer_lost) return transient("the database's answer was lost");
    return out;
  }

  const Deps deps_;
  const std::shared_ptr<Store> db_;
};

}  // namespace rung::sim
