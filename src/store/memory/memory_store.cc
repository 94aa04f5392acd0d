#include "src/store/memory/memory_store.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/core/machine/audit.h"
#include "src/core/message/message_json.h"
#include "src/core/task/origin.h"
#include "src/store/memory/memory_store_impl.h"

namespace rung {

MemoryDb::MemoryDb(std::shared_ptr<const Clock> clock, std::uint64_t seed)
    : clock_(std::move(clock)), dice_(seed) {
  for (int i = 0; i < kShards; ++i) shards_.push_back({i, 0, 0, {}, {}});
}

EpochMs MemoryDb::now_locked() const {
  if (now_) return *now_;
  return clock_->wall();
}
EpochMs MemoryDb::now() const {
  const std::lock_guard lock(mutex_);
  return now_locked();
}
void MemoryDb::set_now(EpochMs now) {
  const std::lock_guard lock(mutex_);
  now_ = now;
}
void MemoryDb::advance(Ms by) {
  const std::lock_guard lock(mutex_);
  now_ = now_locked() + by;
}
void MemoryDb::fail_next(int calls, Error::Kind kind) {
  const std::lock_guard lock(mutex_);
  fail_ = calls;
  fail_kind_ = kind;
}
void MemoryDb::lose_next_answers(int calls) {
  const std::lock_guard lock(mutex_);
  lose_ = calls;
}
std::function<void()> MemoryDb::back_up() {
  const std::lock_guard lock(mutex_);
  return [this, nodes = nodes_, shards = shards_, tasks = tasks_, keys = keys_, pauses = pauses_,
          causes = causes_] {
    const std::lock_guard restoring(mutex_);
    nodes_ = nodes;
    shards_ = shards;
    tasks_ = tasks;
    keys_ = keys;
    pauses_ = pauses;
    causes_ = causes;
  };
}
void MemoryDb::damage_gates(const std::string& queue) {
  const std::lock_guard lock(mutex_);
  GateState& state = gates_[queue];
  Breaker& breaker = state.breaker;
  breaker = {breaker.state, breaker.since, breaker.until, 0, breaker.since, "", 0, 0, {}, breaker.reason};
  state.queue = queue;
  state.damaged = true;
  gates_changed_[queue] = now_locked();
}

void MemoryDb::make_unreadable(TaskId id) {
  const std::lock_guard lock(mutex_);
  unreadable_.insert(id);
}

void MemoryDb::set_max_body(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  max_body_ = bytes;
}

// --- nodes and leases

Result<int> MemoryStore::register_node(const NodeIdentity& identity, Ms ttl) {
  return call([&] {
    const EpochMs now = db_.now_locked();
    auto it = std::find_if(db_.nodes_.begin(), db_.nodes_.end(),
                           [&](const MemoryDb::Node& n) { return n.row.name == identity.name; });
    if (it == db_.nodes_.end()) {
      it = db_.nodes_.insert(db_.nodes_.end(), MemoryDb::Node{});
      it->row.id = static_cast<int>(db_.nodes_.size());
      it->row.name = identity.name;
    }
    it->incarnation = identity.incarnation;
    ++it->beats;
    it->row.started_at = it->row.seen_at = now;
    it->row.expires_at = now + ttl;
    it->row.version = identity.version;
    it->row.address = identity.address;
    it->row.link = BrokerLink::up;
    return it->row.id;
  });
}

Result<Store::Beat> MemoryStore::heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                                           const std::vector<HealthProblem>& problems, BrokerLink link,
                                           const std::string& config) {
  return call([&] {
    Beat beat{false, db_.now_locked(), {}, 0, {}};
    for (auto& n : db_.nodes_) {
      if (n.row.id != node) continue;
      if (n.incarnation == incarnation) ++n.beats;
      beat.name = n.row.name;
      beat.beats = n.beats;
      if (n.incarnation != incarnation) continue;
      n.row.seen_at = beat.now;
      n.row.expires_at = beat.now + ttl;
      n.row.problems = problems;
      n.row.link = link;
      n.row.config = config;
      beat.still_ours = true;
    }
    for (const auto& n : db_.nodes_) {
      if (n.row.expires_at > beat.now) beat.live.push_back(n.row);
    }
    return beat;
  });
}

Result<void> MemoryStore::leave(int node, std::uint64_t incarnation) {
  auto done = call([&] {
    if (!is_incarnation(node, incarnation)) return true;
    for (auto& n : db_.nodes_) {
      if (n.row.id == node) n.row.seen_at = n.row.expires_at = db_.now_locked();
    }
    for (ShardRow& s : db_.shards_) {
      if (s.owner != node) continue;
      s.owner = 0;
      s.expires_at.reset();
    }
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<std::vector<NodeRow>> MemoryStore::live_nodes() {
  return call([&] {
    std::vector<NodeRow> out;
    for (const auto& n : db_.nodes_) {
      if (n.row.expires_at > db_.now_locked()) out.push_back(n.row);
    }
    return out;
  });
}

Result<std::vector<ShardRow>> MemoryStore::shards() {
  return call([&] {
    std::vector<ShardRow> out = db_.shards_;
    for (ShardRow& shard : out) {
      for (const auto& n : db_.nodes_) {
        if (n.row.id == shard.owner) shard.owner_name = n.row.name;
      }
    }
    return out;
  });
}

Result<std::vector<NodeRow>> MemoryStore::nodes() {
  return call([&] {
    std::vector<NodeRow> out;
    for (const auto& n : db_.nodes_) out.push_back(n.row);
    return out;
  });
}

Result<std::vector<ShardOverdue>> MemoryStore::overdue() {
  return call([&] {
    std::map<int, ShardOverdue> by_shard;
    for (const auto& [id, row] : db_.tasks_) {
      const Task& t = row.task;
      if (t.state != State::scheduled || !t.next_at || *t.next_at > db_.now_locked()) continue;
      ShardOverdue& late = by_shard.try_emplace(t.shard, ShardOverdue{t.shard, 0, *t.next_at}).first->second;
      ++late.tasks;
      late.oldest = std::min(late.oldest, *t.next_at);
    }
    std::vector<ShardOverdue> out;
    for (const auto& [shard, late] : by_shard) out.push_back(late);
    return out;
  });
}

Result<std::vector<Lease>> MemoryStore::acquire(int node, std::uint64_t incarnation,
                                                std::span<const int> shards, Ms ttl, std::uint64_t above) {
  return call([&] {
    std::vector<Lease> taken;
    if (!is_incarnation(node, incarnation)) return taken;
    const EpochMs now = db_.now_locked();
    for (ShardRow& s : db_.shards_) {
      if (std::find(shards.begin(), shards.end(), s.shard) == shards.end()) continue;
      if (s.owner != 0 && s.owner != node && s.expires_at && *s.expires_at > now) continue;
      s.owner = node;
      s.epoch = std::max(s.epoch, above) + 1;
      s.acquired_at = now;
      s.expires_at = now + ttl;
      taken.push_back({s.shard, s.epoch});
    }
    return taken;
  });
}

Result<std::vector<Lease>> MemoryStore::renew(int node, std::span<const Lease> leases, Ms ttl) {
  return call([&] {
    auto out = held(node, leases);
    for (const Lease& l : out) shard(l.shard).expires_at = db_.now_locked() + ttl;
    return out;
  });
}

Result<void> MemoryStore::release(int node, std::span<const Lease> leases) {
  auto done = call([&] {
    for (const Lease& l : held(node, leases)) {
      shard(l.shard).owner = 0;
      shard(l.shard).expires_at.reset();
    }
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

// --- tasks

Inserted MemoryStore::insert_one(const NewTask& n, const std::vector<Lease>& leases, bool by_hand,
                                 CauseChanges& causes) {
  if (const auto here = db_.tasks_.find(n.task.id); here != db_.tasks_.end()) {
    const bool ours = here->second.task.created_at == n.task.created_at &&
                      here->second.task.message_id == n.task.message_id &&
                      here->second.message->body == n.message->body;
    return {ours ? Inserted::How::inserted : Inserted::How::id_taken, n.task.id};
  }
  const auto old = n.intake_key.empty() ? db_.keys_.end() : db_.keys_.find(n.intake_key);
  const auto gives_up = [&](const Task& t) {
    return gives_up_key(is_over(t.state, t.kind, t.attempt), t.attempt, t.created_at, n);
  };
  const bool frees = old != db_.keys_.end() && gives_up(db_.tasks_.at(old->second).task);
  if (old != db_.keys_.end() && !frees) return {Inserted::How::duplicate, old->second};
  if (n.message->body.size() > db_.max_body_) return {Inserted::How::too_large, n.task.id};
  const bool ours =
      by_hand || planted(Bug::no_fence_on_insert) ||
      std::any_of(leases.begin(), leases.end(), [&](const Lease& l) { return l.shard == n.task.shard; });
  if (!ours) return {Inserted::How::not_held, n.task.id};
  if (frees) db_.tasks_.at(old->second).intake_key.clear();
  if (!n.intake_key.empty()) db_.keys_[n.intake_key] = n.task.id;
  Task task = n.task;
  task.cause = causes.of(n);
  causes.inserted(n, task.cause);
  if (is_parked_by(nullptr, task)) write_outgoing(parked_event(task));
  db_.tasks_[n.task.id] = {std::move(task), n.message, n.origin_json, n.intake_key, {}};
  return {Inserted::How::inserted, n.task.id};
}

Result<std::vector<Inserted>> MemoryStore::insert(std::span<const NewTask> tasks, const Fence& fence) {
  return call([&] {
    const std::vector<Lease> leases = held(fence.node, fence.leases);
    std::vector<std::size_t> order(tasks.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return tasks[a].task.id < tasks[b].task.id; });
    std::vector<Inserted> out(tasks.size());
    CauseChanges causes(db_.cause_book_);
    for (const std::size_t i : order) out[i] = insert_one(tasks[i], leases, fence.by_hand, causes);
    write_causes(causes, fence.node);
    return out;
  });
}

Decision MemoryStore::apply_one(const Event& event, int node, const std::vector<Lease>& leases,
                                const Decider& decide, Changes& changes) {
  const auto it = db_.tasks_.find(event.id);
  if (it == db_.tasks_.end()) {
    Decision none;
    none.verdict = Decision::Verdict::refused;
    none.reason = kNoSuchTask;
    none.task.id = event.id;
    return none;
  }
  Task& task = it->second.task;
  Circumstances at{db_.now_locked(), std::uniform_real_distribution<double>(0.0, 1.0)(db_.dice_), node, 0,
                   -1};
  const auto lease =
      std::find_if(leases.begin(), leases.end(), [&](const Lease& l) { return l.shard == task.shard; });
  if (lease != leases.end()) {
    at.epoch = lease->epoch;
  } else if (!leases.empty()) {
    at.home_shard = leases[std::hash<TaskId>{}(task.id) % leases.size()].shard;
  }
  if (task.state == State::publishing) {
    const ShardRow& claimed = shard(task.shard);
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
    if (auto row = audit_of(event, task, d.task, at.now)) {
      db_.audit_.push_back(*std::move(row));
      db_.audit_.back().id = ++db_.audited_;
    }
    if (is_parked_by(&task, d.task)) write_outgoing(parked_event(d.task));
    task = d.task;
    if (d.replacement != nullptr) {
      MemoryDb::Row& row = it->second;
      const Message& before = *row.message;
      row.origin =
          add_earlier(row.origin, {task.attempt, properties_to_json(before.properties),
                                   before.headers ? headers_to_json(*before.headers) : std::string()});
      row.message = d.replacement->message;
    }
    if (d.overtaken) changes.attempts.add(*d.overtaken, false);
    if (d.attempt) changes.attempts.add(*d.attempt, d.drop_attempt);
  }
  return d;
}

std::vector<Decision> MemoryStore::apply_all(std::span<const Event> events, const Fence& fence,
                                             const Decider& decide) {
  const std::vector<Lease> leases = held(fence.node, fence.leases);
  Changes changes{{}, CauseChanges(db_.cause_book_)};
  std::vector<Decision> out;
  out.reserve(events.size());
  for (const Event& e : events) out.push_back(apply_one(e, fence.node, leases, decide, changes));
  for (const auto& [task, attempt] : changes.attempts.dropped()) db_.tasks_.at(task).attempts.erase(attempt);
  for (const Attempt& a : changes.attempts.kept()) {
    auto [kept, fresh] = db_.tasks_.at(a.task).attempts.try_emplace(a.attempt, a);
    if (!fresh) merge_attempt(kept->second, a);
  }
  write_causes(changes.causes, fence.node);
  return out;
}

Result<std::vector<Decision>> MemoryStore::apply(std::span<const Event> events, const Fence& fence,
                                                 const Decider& decide, const BulkStep* step) {
  bool theirs = false;
  auto decisions = call([&] {
    const auto row = step == nullptr ? nullptr : running_bulk(*step);
    theirs = step != nullptr && row == nullptr;
    if (theirs) return std::vector<Decision>{};
    std::vector<Decision> out = apply_all(events, fence, decide);
    if (row != nullptr) move_on(*row, events, out, step->rate, db_.now_locked());
    return out;
  });
  if (theirs) return permanent("the bulk is paused, has ended, or is run by another process");
  return decisions;
}

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDb> db) {
  return std::make_unique<MemoryStore>(std::move(db));
}

}  // namespace rung
