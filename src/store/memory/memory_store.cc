#include "src/store/memory/memory_store.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "src/store/attempts.h"

namespace rung {

MemoryDb::MemoryDb() {
  for (int i = 0; i < kShards; ++i) shards_.push_back({i, 0, 0, {}, {}});
}

EpochMs MemoryDb::now_locked() const {
  if (now_) return *now_;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<Ms>(since).count()};
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
void MemoryDb::fail_next(int calls) {
  const std::lock_guard lock(mutex_);
  fail_ = calls;
}
void MemoryDb::lose_next_answers(int calls) {
  const std::lock_guard lock(mutex_);
  lose_ = calls;
}
void MemoryDb::set_max_body(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  max_body_ = bytes;
}

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryDb> db) : shared_(std::move(db)), db_(*shared_) {}

  Result<std::vector<std::string>> migrate() override {
    return call([&]() -> std::vector<std::string> {
      if (std::exchange(db_.migrated_, true)) return {};
      return {"memory"};
    });
  }
  Result<void> check_schema() override {
    auto migrated = call([&] { return db_.migrated_; });
    if (!migrated) return tl::unexpected(migrated.error());
    if (!*migrated) return permanent("the schema is missing: run `rung migrate`");
    return {};
  }
  Result<EpochMs> now() override {
    return call([&] { return db_.now_locked(); });
  }

  Result<int> register_node(const NodeIdentity& identity, Ms ttl) override;
  Result<Beat> heartbeat(int node, std::uint64_t incarnation, Ms ttl) override;
  Result<void> leave(int node, std::uint64_t incarnation) override;
  Result<std::vector<NodeRow>> live_nodes() override;
  Result<std::vector<ShardRow>> shards() override {
    return call([&] { return db_.shards_; });
  }
  Result<std::vector<Lease>> acquire(int node, std::span<const int> shards, Ms ttl) override;
  Result<Renewal> renew(int node, std::span<const Lease> leases, Ms ttl) override;
  Result<void> release(int node, std::span<const Lease> leases) override;

  Result<std::vector<Inserted>> insert(std::span<const NewTask> tasks, const Fence& fence) override;
  Result<std::vector<Decision>> apply(std::span<const Event> events, const Fence& fence,
                                      const Decider& decide) override;
  Result<std::vector<std::pair<TaskId, MessagePtr>>> messages(std::span<const TaskId> ids) override;
  Result<std::vector<DueEntry>> due(State state, std::span<const int> shards, std::optional<EpochMs> after,
                                    EpochMs until, int per_shard) override;
  Result<std::vector<DueEntry>> stranded(std::span<const Lease> leases, int limit) override;
  Result<std::int64_t> count(State state, std::span<const int> shards, std::int64_t most) override;

  Result<std::vector<TaskRow>> list(const Filter& filter) override;
  Result<std::optional<TaskRow>> find(TaskId id) override;
  Result<std::vector<AttemptRow>> history(TaskId id) override;
  Result<std::string> origin(TaskId id) override;
  Result<std::vector<QueueStat>> by_queue() override;

 private:
  using Row = MemoryDb::Row;

  // `body` under the lock, with the faults that were asked for.
  template <typename F>
  auto call(F body) -> Result<decltype(body())> {
    const std::lock_guard lock(db_.mutex_);
    if (db_.fail_ > 0) {
      --db_.fail_;
      return transient("the memory store was told to fail");
    }
    auto out = body();
    if (db_.lose_ > 0) {
      --db_.lose_;
      return transient("the memory store was told to lose its answer");
    }
    return out;
  }

  std::vector<Lease> held(int node, std::span<const Lease> leases) const {
    std::vector<Lease> out;
    for (const ShardRow& s : db_.shards_) {
      if (node == 0 || s.owner != node || !s.expires_at || *s.expires_at <= db_.now_locked()) continue;
      const Lease lease{s.shard, s.epoch};
      if (std::find(leases.begin(), leases.end(), lease) != leases.end()) out.push_back(lease);
    }
    return out;
  }
  ShardRow& shard(int id) { return db_.shards_[static_cast<std::size_t>(id)]; }
  std::string node_name(int id) const {
    return id >= 1 && id <= static_cast<int>(db_.nodes_.size())
               ? db_.nodes_[static_cast<std::size_t>(id - 1)].row.name
               : std::string();
  }
  Inserted insert_one(const NewTask& n, const std::vector<Lease>& leases);
  Decision apply_one(const Event& event, int node, const std::vector<Lease>& leases, const Decider& decide,
                     AttemptChanges& attempts);

  const std::shared_ptr<MemoryDb> shared_;
  MemoryDb& db_;
};

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
    it->row.started_at = it->row.seen_at = now;
    it->row.expires_at = now + ttl;
    it->row.version = identity.version;
    it->row.address = identity.address;
    return it->row.id;
  });
}

Result<Store::Beat> MemoryStore::heartbeat(int node, std::uint64_t incarnation, Ms ttl) {
  return call([&] {
    Beat beat{false, db_.now_locked()};
    for (auto& n : db_.nodes_) {
      if (n.row.id != node || n.incarnation != incarnation) continue;
      n.row.seen_at = beat.now;
      n.row.expires_at = beat.now + ttl;
      beat.still_ours = true;
    }
    return beat;
  });
}

Result<void> MemoryStore::leave(int node, std::uint64_t incarnation) {
  auto done = call([&] {
    for (auto& n : db_.nodes_) {
      if (n.row.id == node && n.incarnation == incarnation) n.row.expires_at = db_.now_locked();
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

Result<std::vector<Lease>> MemoryStore::acquire(int node, std::span<const int> shards, Ms ttl) {
  return call([&] {
    std::vector<Lease> taken;
    const EpochMs now = db_.now_locked();
    for (ShardRow& s : db_.shards_) {
      if (std::find(shards.begin(), shards.end(), s.shard) == shards.end()) continue;
      if (s.owner != 0 && s.owner != node && s.expires_at && *s.expires_at > now) continue;
      s.owner = node;
      ++s.epoch;
      s.acquired_at = now;
      s.expires_at = now + ttl;
      taken.push_back({s.shard, s.epoch});
    }
    return taken;
  });
}

Result<Store::Renewal> MemoryStore::renew(int node, std::span<const Lease> leases, Ms ttl) {
  return call([&] {
    Renewal out{held(node, leases), db_.now_locked()};
    for (const Lease& l : out.held) shard(l.shard).expires_at = out.now + ttl;
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

Inserted MemoryStore::insert_one(const NewTask& n, const std::vector<Lease>& leases) {
  if (db_.tasks_.contains(n.task.id)) return {Inserted::How::inserted, n.task.id};
  const auto old = n.intake_key.empty() ? db_.keys_.end() : db_.keys_.find(n.intake_key);
  const bool frees = old != db_.keys_.end() && is_finished(db_.tasks_.at(old->second).task.state) &&
                     !n.same_even_if_finished;
  if (old != db_.keys_.end() && !frees) return {Inserted::How::duplicate, old->second};
  if (n.message->body.size() > db_.max_body_) return {Inserted::How::too_large, n.task.id};
  const bool ours =
      std::any_of(leases.begin(), leases.end(), [&](const Lease& l) { return l.shard == n.task.shard; });
  if (!ours) return {Inserted::How::not_held, n.task.id};
  if (frees) db_.tasks_.at(old->second).intake_key.clear();
  if (!n.intake_key.empty()) db_.keys_[n.intake_key] = n.task.id;
  db_.tasks_[n.task.id] = {n.task, n.message, n.origin_json, n.intake_key, {}};
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
    for (const std::size_t i : order) out[i] = insert_one(tasks[i], leases);
    return out;
  });
}

Decision MemoryStore::apply_one(const Event& event, int node, const std::vector<Lease>& leases,
                                const Decider& decide, AttemptChanges& attempts) {
  static thread_local std::mt19937_64 dice{std::random_device{}()};
  const auto it = db_.tasks_.find(event.id);
  if (it == db_.tasks_.end()) {
    Decision none;
    none.verdict = Decision::Verdict::refused;
    none.reason = kNoSuchTask;
    none.task.id = event.id;
    return none;
  }
  Task& task = it->second.task;
  Circumstances at{db_.now_locked(), std::uniform_real_distribution<double>(0.0, 1.0)(dice), node, 0, -1};
  const auto lease =
      std::find_if(leases.begin(), leases.end(), [&](const Lease& l) { return l.shard == task.shard; });
  if (lease != leases.end()) {
    at.epoch = lease->epoch;
  } else if (!leases.empty()) {
    at.home_shard = leases[std::hash<TaskId>{}(task.id) % leases.size()].shard;
  }
  Decision d = decide(task, event.what, at);
  if (d.verdict == Decision::Verdict::applied) {
    task = d.task;
    if (d.attempt) attempts.add(*d.attempt, d.drop_attempt);
  }
  return d;
}

Result<std::vector<Decision>> MemoryStore::apply(std::span<const Event> events, const Fence& fence,
                                                 const Decider& decide) {
  return call([&] {
    const std::vector<Lease> leases = held(fence.node, fence.leases);
    AttemptChanges attempts;
    std::vector<Decision> out;
    out.reserve(events.size());
    for (const Event& e : events) out.push_back(apply_one(e, fence.node, leases, decide, attempts));
    for (const auto& [task, attempt] : attempts.dropped()) db_.tasks_.at(task).attempts.erase(attempt);
    for (const Attempt& a : attempts.kept()) {
      auto [row, fresh] = db_.tasks_.at(a.task).attempts.try_emplace(a.attempt, a);
      if (!fresh) merge_attempt(row->second, a);
    }
    return out;
  });
}

Result<std::vector<std::pair<TaskId, MessagePtr>>> MemoryStore::messages(std::span<const TaskId> ids) {
  return call([&] {
    std::vector<std::pair<TaskId, MessagePtr>> out;
    for (const TaskId id : ids) {
      if (const auto it = db_.tasks_.find(id); it != db_.tasks_.end())
        out.emplace_back(id, it->second.message);
    }
    return out;
  });
}

Result<std::vector<DueEntry>> MemoryStore::due(State state, std::span<const int> shards,
                                               std::optional<EpochMs> after, EpochMs until, int per_shard) {
  return call([&] {
    std::map<int, std::vector<DueEntry>> by_shard;
    for (const auto& [id, row] : db_.tasks_) {
      const Task& t = row.task;
      if (t.state != state || !t.next_at || *t.next_at > until || (after && *t.next_at <= *after)) continue;
      if (std::find(shards.begin(), shards.end(), t.shard) == shards.end()) continue;
      by_shard[t.shard].push_back({id, t.shard, *t.next_at});
    }
    const auto earlier = [](const DueEntry& a, const DueEntry& b) {
      return std::pair(a.at, a.id) < std::pair(b.at, b.id);
    };
    std::vector<DueEntry> out;
    for (auto& [shard, entries] : by_shard) {
      std::sort(entries.begin(), entries.end(), earlier);
      if (entries.size() > static_cast<std::size_t>(per_shard))
        entries.resize(static_cast<std::size_t>(per_shard));
      out.insert(out.end(), entries.begin(), entries.end());
    }
    std::sort(out.begin(), out.end(), earlier);
    return out;
  });
}

Result<std::vector<DueEntry>> MemoryStore::stranded(std::span<const Lease> leases, int limit) {
  return call([&] {
    std::vector<DueEntry> out;
    for (const auto& [id, row] : db_.tasks_) {
      const Task& t = row.task;
      const bool left = t.state == State::publishing &&
                        std::any_of(leases.begin(), leases.end(),
                                    [&](const Lease& l) { return l.shard == t.shard && t.epoch < l.epoch; });
      if (left && out.size() < static_cast<std::size_t>(limit)) {
        out.push_back({id, t.shard, t.next_at.value_or(EpochMs{})});
      }
    }
    return out;
  });
}

Result<std::int64_t> MemoryStore::count(State state, std::span<const int> shards, std::int64_t most) {
  return call([&] {
    std::int64_t n = 0;
    for (const auto& [id, row] : db_.tasks_) {
      if (row.task.state == state && std::find(shards.begin(), shards.end(), row.task.shard) != shards.end())
        ++n;
    }
    return std::min(n, most);
  });
}

// --- for people

namespace {

bool shows(const Filter& f, const Task& t) {
  const bool has_due = t.state == State::scheduled || t.state == State::publishing;
  const std::optional<EpochMs> due = has_due ? t.next_at : std::nullopt;
  return (!f.state || t.state == *f.state) && (!f.kind || t.kind == *f.kind) &&
         (f.queue.empty() || t.queue == f.queue) && (f.tag.empty() || t.tag == f.tag) &&
         (f.message_id.empty() || t.message_id == f.message_id) &&
         (f.ladder.empty() || t.ladder == f.ladder) &&
         (f.error_contains.empty() || t.last_error.find(f.error_contains) != std::string::npos) &&
         (!f.due_before || (due && *due < *f.due_before)) && (!f.due_after || (due && *due > *f.due_after)) &&
         (!f.created_before || t.created_at < *f.created_before) &&
         (!f.created_after || t.created_at > *f.created_after) && (!f.below || t.id < *f.below);
}

}  // namespace

Result<std::vector<TaskRow>> MemoryStore::list(const Filter& filter) {
  return call([&] {
    std::vector<TaskRow> out;
    for (auto it = db_.tasks_.rbegin();
         it != db_.tasks_.rend() && static_cast<int>(out.size()) < filter.limit; ++it) {
      if (shows(filter, it->second.task)) out.push_back({it->second.task, node_name(it->second.task.node)});
    }
    return out;
  });
}

Result<std::optional<TaskRow>> MemoryStore::find(TaskId id) {
  return call([&] {
    std::optional<TaskRow> out;
    if (const auto it = db_.tasks_.find(id); it != db_.tasks_.end()) {
      out = TaskRow{it->second.task, node_name(it->second.task.node)};
    }
    return out;
  });
}

Result<std::vector<AttemptRow>> MemoryStore::history(TaskId id) {
  return call([&] {
    std::vector<AttemptRow> out;
    const auto it = db_.tasks_.find(id);
    if (it == db_.tasks_.end()) return out;
    for (const auto& [number, a] : it->second.attempts) {
      out.push_back({a, it->second.task.queue, it->second.task.message_id, node_name(a.node)});
    }
    return out;
  });
}

Result<std::string> MemoryStore::origin(TaskId id) {
  auto found = call([&] {
    const auto it = db_.tasks_.find(id);
    return it == db_.tasks_.end() ? std::optional<std::string>() : it->second.origin;
  });
  if (!found) return tl::unexpected(found.error());
  if (!*found) return not_found("no task " + id.str());
  return **found;
}

Result<std::vector<QueueStat>> MemoryStore::by_queue() {
  return call([&] {
    std::map<std::pair<std::string, State>, QueueStat> groups;
    for (const auto& [id, row] : db_.tasks_) {
      const Task& t = row.task;
      QueueStat& s = groups[{t.queue, t.state}];
      s.queue = t.queue;
      s.state = t.state;
      ++s.tasks;
      if (t.state != State::scheduled || !t.next_at) continue;
      s.oldest_due_at = std::min(s.oldest_due_at.value_or(*t.next_at), *t.next_at);
      if (*t.next_at < db_.now_locked()) ++s.overdue;
    }
    std::vector<QueueStat> out;
    for (auto& [key, s] : groups) out.push_back(std::move(s));
    return out;
  });
}

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDb> db) {
  return std::make_unique<MemoryStore>(std::move(db));
}

}  // namespace rung
