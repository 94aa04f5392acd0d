#include "src/store/memory/memory_store.h"

#include <algorithm>
#include <random>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/core/base/require.h"
#include "src/core/machine/audit.h"
#include "src/core/message/message_json.h"
#include "src/core/task/origin.h"
#include "src/store/memory/memory_store_impl.h"

namespace rung {

std::optional<Error> MemoryFaults::before_call() {
  if (fail_ <= 0) return std::nullopt;
  --fail_;
  return Error{fail_kind_, "the memory store was told to fail"};
}

std::optional<Error> MemoryFaults::after_call() {
  if (lose_ <= 0) return std::nullopt;
  --lose_;
  return Error{Error::Kind::transient, "the memory store was told to lose its answer"};
}

void MemoryFaults::fail_next(int calls, Error::Kind kind) {
  fail_ = calls;
  fail_kind_ = kind;
}

bool MemoryFaults::are_readable(std::span<const TaskId> ids) const {
  return std::ranges::none_of(ids, [&](TaskId id) { return unreadable_.contains(id); });
}

MemoryDb::MemoryDb(std::shared_ptr<const Clock> clock, std::uint64_t seed)
    : now_([clock = std::move(clock)] { return clock->wall(); }), dice_(seed) {}

EpochMs MemoryDb::now() const {
  const std::lock_guard lock(mutex_);
  return now_();
}
void MemoryDb::set_now(EpochMs now) {
  const std::lock_guard lock(mutex_);
  now_ = [now] { return now; };
}
void MemoryDb::advance(Ms by) {
  const std::lock_guard lock(mutex_);
  now_ = [now = now_() + by] { return now; };
}
void MemoryDb::fail_next(int calls, Error::Kind kind) {
  const std::lock_guard lock(mutex_);
  faults_.fail_next(calls, kind);
}
void MemoryDb::lose_next_answers(int calls) {
  const std::lock_guard lock(mutex_);
  faults_.lose_next_answers(calls);
}
void MemoryDb::make_unreadable(TaskId id) {
  const std::lock_guard lock(mutex_);
  faults_.make_unreadable(id);
}
void MemoryDb::set_short_claims(std::size_t from) {
  const std::lock_guard lock(mutex_);
  short_claims_ = from;
}
void MemoryDb::set_max_body(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  faults_.set_max_body(bytes);
}
void MemoryDb::publish_events(OutgoingKinds kinds) {
  const std::lock_guard lock(mutex_);
  records_.want(kinds);
}
std::function<void()> MemoryDb::back_up() {
  const std::lock_guard lock(mutex_);
  return [this, leases = leases_, tasks = tasks_, pauses = gates_.pauses(), causes = causes_.rows()] {
    const std::lock_guard restoring(mutex_);
    leases_ = leases;
    tasks_ = tasks;
    gates_.restore(pauses);
    causes_.restore(causes);
  };
}
void MemoryDb::damage_gates(const std::string& queue) {
  const std::lock_guard lock(mutex_);
  GateState& state = gates_.change_state(queue, now_());
  Breaker& breaker = state.breaker;
  breaker = {breaker.state, breaker.since, breaker.until, 0, breaker.since, "", 0, 0, {}, breaker.reason};
  state.damaged = true;
}

std::pair<EpochMs, TaskId> MemoryTasks::place_of(const Task& task) {
  return {task.next_at.value_or(task.finished_at.value_or(EpochMs{})), task.id};
}

MemoryTask* MemoryTasks::find(TaskId id) {
  const auto row = rows_.find(id);
  return row == rows_.end() ? nullptr : &row->second;
}

MemoryTask* MemoryTasks::find_by_key(const std::string& intake_key) {
  const auto key = keys_.find(intake_key);
  return key == keys_.end() ? nullptr : find(key->second);
}

void MemoryTasks::insert(MemoryTask row) {
  const TaskId id = row.task.id;
  RUNG_REQUIRE(!rows_.contains(id));
  if (!row.intake_key.empty()) {
    if (MemoryTask* before = find_by_key(row.intake_key); before != nullptr) before->intake_key.clear();
    keys_[row.intake_key] = id;
  }
  place(row.task).insert(place_of(row.task));
  rows_[id] = std::move(row);
}

void MemoryTasks::change(Task& task, Task to) {
  place(task).erase(place_of(task));
  task = std::move(to);
  place(task).insert(place_of(task));
}

void MemoryTasks::write(const AttemptChanges& changes) {
  for (const auto& [task, attempt] : changes.dropped()) rows_.at(task).attempts.erase(attempt);
  for (const Attempt& a : changes.kept()) {
    auto [kept, fresh] = rows_.at(a.task).attempts.try_emplace(a.attempt, a);
    if (!fresh) merge_attempt(kept->second, a);
  }
}

Inserted MemoryStore::insert_one(const NewTask& n, const std::vector<Lease>& leases, bool by_hand,
                                 CauseChanges& causes) {
  if (const MemoryTask* here = db_.tasks_.find(n.task.id); here != nullptr) {
    const bool ours = here->task.created_at == n.task.created_at &&
                      here->task.message_id == n.task.message_id && here->message->body == n.message->body;
    return {ours ? Inserted::How::inserted : Inserted::How::id_taken, n.task.id};
  }
  const MemoryTask* old = db_.tasks_.find_by_key(n.intake_key);
  const auto gives_up = [&](const Task& t) {
    return gives_up_key(is_over(t.state, t.kind, t.attempt), t.attempt, t.created_at, n);
  };
  if (old != nullptr && !gives_up(old->current())) return {Inserted::How::duplicate, old->task.id};
  if (db_.faults_.is_too_large(*n.message)) return {Inserted::How::too_large, n.task.id};
  const bool ours =
      by_hand || planted(Bug::no_fence_on_insert) ||
      std::any_of(leases.begin(), leases.end(), [&](const Lease& l) { return l.shard == n.task.shard; });
  if (!ours) return {Inserted::How::not_held, n.task.id};
  Task task = n.task;
  task.cause = causes.of(n);
  causes.inserted(n, task.cause);
  if (is_parked_by(nullptr, task)) write_outgoing(parked_event(task));
  db_.tasks_.insert({std::move(task), n.message, n.origin_json, n.intake_key, {}});
  return {Inserted::How::inserted, n.task.id};
}

Result<std::vector<Inserted>> MemoryStore::insert(std::span<const NewTask> tasks, const Fence& fence) {
  return call([&] {
    const std::vector<Lease> leases = db_.leases_.held(fence.node, fence.leases, db_.now_());
    std::vector<std::size_t> order(tasks.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return tasks[a].task.id < tasks[b].task.id; });
    std::vector<Inserted> out(tasks.size());
    CauseChanges causes = db_.causes_.changes();
    for (const std::size_t i : order) out[i] = insert_one(tasks[i], leases, fence.by_hand, causes);
    write_causes(causes, fence.node);
    return out;
  });
}

Decision MemoryStore::apply_one(const Event& event, int node, const std::vector<Lease>& leases,
                                const Decider& decide, Changes& changes) {
  MemoryTask* const row = db_.tasks_.find(event.id);
  if (row == nullptr) {
    Decision none;
    none.verdict = Decision::Verdict::refused;
    none.reason = kNoSuchTask;
    none.task.id = event.id;
    return none;
  }
  const Task task = row->current();
  Circumstances at{db_.now_(), std::uniform_real_distribution<double>(0.0, 1.0)(db_.dice_), node, 0, -1};
  at.short_claim = row->has_short_claim();
  const auto lease =
      std::find_if(leases.begin(), leases.end(), [&](const Lease& l) { return l.shard == task.shard; });
  if (lease != leases.end()) {
    at.epoch = lease->epoch;
  } else if (!leases.empty()) {
    at.home_shard = leases[std::hash<TaskId>{}(task.id) % leases.size()].shard;
  }
  if (task.state == State::publishing) {
    const ShardRow& claimed = db_.leases_.shard(task.shard);
    at.claim_stands = claimed.owner != 0 && claimed.epoch == task.epoch && claimed.expires_at > at.now;
  }
  if (auto no = refuse_by_hand(event, task)) return *std::move(no);
  Decision d = decide(task, event.what, at);
  if (d.child != nullptr) {
    const auto how = insert_one(*d.child, leases, true, changes.causes).how;
    if (how != Inserted::How::inserted) return refuse_child(task, how);
  }
  if (d.verdict == Decision::Verdict::applied) {
    changes.causes.decided(task, d);
    if (auto change = audit_of(event, task, d.task, at.now)) db_.records_.write(*std::move(change));
    if (is_parked_by(&task, d.task)) write_outgoing(parked_event(d.task));
    d.short_claim = d.short_claim && changes.may_be_short;
    if (!d.short_claim) db_.tasks_.change(row->task, d.task);
    if (d.replacement != nullptr) {
      const Message& before = *row->message;
      row->origin =
          add_earlier(row->origin, {task.attempt, properties_to_json(before.properties),
                                    before.headers ? headers_to_json(*before.headers) : std::string()});
      row->message = d.replacement->message;
    }
    if (d.overtaken) changes.attempts.add(*d.overtaken, false);
    if (d.attempt) changes.attempts.add(*d.attempt, d.drop_attempt);
  }
  return d;
}

std::vector<Decision> MemoryStore::apply_all(std::span<const Event> events, const Fence& fence,
                                             const Decider& decide, bool may_be_short) {
  const std::vector<Lease> leases = db_.leases_.held(fence.node, fence.leases, db_.now_());
  Changes changes{{}, db_.causes_.changes(), may_be_short};
  std::vector<Decision> out;
  out.reserve(events.size());
  for (const Event& e : events) out.push_back(apply_one(e, fence.node, leases, decide, changes));
  db_.tasks_.write(changes.attempts);
  write_causes(changes.causes, fence.node);
  return out;
}

Result<std::vector<Decision>> MemoryStore::apply(std::span<const Event> events, const Fence& fence,
                                                 const Decider& decide, const BulkStep* step) {
  bool theirs = false;
  auto decisions = call([&] {
    const auto row = step == nullptr ? nullptr : db_.bulks_.find_running(*step);
    theirs = step != nullptr && row == nullptr;
    if (theirs) return std::vector<Decision>{};
    std::vector<Decision> out = apply_all(events, fence, decide);
    if (row != nullptr) row->move_on(events, out, step->rate, db_.now_());
    return out;
  });
  if (theirs) return permanent("the bulk is paused, has ended, or is run by another process");
  return decisions;
}

Result<void> MemoryStore::write_claims(std::span<const TaskId> ids) {
  return call([&] {
    for (const TaskId id : ids) {
      MemoryTask* const row = db_.tasks_.find(id);
      if (row != nullptr && row->has_short_claim()) db_.tasks_.change(row->task, row->current());
    }
  });
}

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDb> db) {
  return std::make_unique<MemoryStore>(std::move(db));
}

}  // namespace rung
