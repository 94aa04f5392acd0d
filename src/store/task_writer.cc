// insert() and apply(): every change of a task. apply() is one transaction: lock the leases, lock the tasks
// in order of ids, call decide(), write the results. If every event is a confirm of our own publish, no task
// is read: decide() gets the task as we claimed it and the time of the confirm, and each UPDATE applies only
// to rows that still match. What it costs MySQL:
//
//   read:      leases, tasks by id -> decide() each -> tasks, attempts, audit, commit      two round trips
//   confirms:  decide() each -> guard of the leases -> tasks, attempts, commit             one; if a lease or
//              a row is not as expected, all is undone and read
//
// A claim reads the messages between its writes and its commit.
#include "src/store/task_writer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/core/machine/by_hand.h"

namespace rung {

// --- insert()

namespace {

// One call of insert(): which of its tasks get a row, and what the others are told. run() is called inside a
// transaction, which may be repeated: lapsed leases and rows that exist already are rare, so the first try
// does not look for them. Errors: thrown, as tables.h says.
class IntakeWriter {
 public:
  IntakeWriter(Tables& tables, const CauseBook& book, std::span<const NewTask> tasks)
      : tables_(tables), causes_(book) {
    rows_.reserve(tasks.size());
    for (const NewTask& n : tasks) {
      if (const auto failure = CauseChanges::failure_of(n)) causes_.text_of(failure->error);
      rows_.emplace_back(n, rows_.size());
    }
    std::ranges::sort(rows_, {}, [](const NewRow& row) { return row.task->task.id; });
  }

  // True if guard_leases() is enough: each task is of one of the leases, and no row must be looked for.
  bool guard_suffices(const Fence& fence) const {
    const auto fenced = [&](const NewRow& row) {
      return std::ranges::find(fence.leases, row.task->task.shard, &Lease::shard) != fence.leases.end();
    };
    return !fence.by_hand && fence.node != 0 && std::ranges::all_of(rows_, fenced) && !too_large_with_key();
  }

  // `look`: look for existing rows first; else a duplicate key repeats the transaction.
  std::vector<Inserted> run(const std::vector<Lease>& held, const Fence& fence, bool look) {
    by_hand_ = fence.by_hand;
    causes_.begin();
    results_.assign(rows_.size(), {});
    for (const NewRow& row : rows_) results_[row.place].id = row.task->task.id;
    here_.clear();
    taken_.clear();
    by_key_.clear();
    // A task whose lease is not held is not written, so no duplicate key shows that an earlier try wrote it.
    const auto all_held = [&] {
      return std::ranges::all_of(rows_, [&](const NewRow& row) { return is_held(row, held); });
    };
    if (look || too_large_with_key() || !all_held()) {
      find_ids();
      for (const Existing& row : tables_.find_keys(rows_)) by_key_[row.key] = row;
    }
    std::vector<NewRow*> fresh;
    std::vector<TaskId> to_free;
    std::unordered_map<std::string, TaskId> in_batch;
    for (NewRow& row : rows_) {
      if (sort_out(row, held, in_batch, to_free)) fresh.push_back(&row);
    }
    free_keys(std::move(to_free));
    write(fresh, fence.node);
    return results_;
  }

  const CauseChanges& causes() const { return causes_; }

 private:
  using Existing = Tables::SameKey;

  static bool over(const Existing& row) { return is_over(row.state, row.kind, row.attempt); }

  bool is_held(const NewRow& row, const std::vector<Lease>& held) const {
    return by_hand_ || planted(Bug::no_fence_on_insert) ||
           std::ranges::find(held, row.task->task.shard, &Lease::shard) != held.end();
  }
  bool is_too_large(const NewRow& row) const { return row.bytes() > tables_.largest_row(); }

  // A task too large to write causes no duplicate key error, which would show that it is already stored, as a
  // row without the body.
  bool too_large_with_key() const {
    return std::ranges::any_of(rows_,
                               [&](const NewRow& row) { return !row.key.empty() && is_too_large(row); });
  }

  // Finds the rows that an earlier call wrote before its answer was lost.
  void find_ids() {
    for (const Tables::SameId& found : tables_.find_ids(rows_)) {
      const NewTask& n = *std::ranges::lower_bound(rows_, found.id, {}, [](const NewRow& row) {
                            return row.task->task.id;
                          })->task;
      // The queue may have changed since, by a failure or by a person.
      const bool ours = found.created_at == n.task.created_at && found.message_id == n.task.message_id &&
                        found.body == n.message->body;
      (ours ? here_ : taken_).insert(found.id);
    }
  }

  // True if the row is to be written.
  bool sort_out(const NewRow& row, const std::vector<Lease>& held,
                std::unordered_map<std::string, TaskId>& in_batch, std::vector<TaskId>& to_free) {
    const NewTask& n = *row.task;
    Inserted& result = results_[row.place];
    if (here_.contains(n.task.id)) return false;  // inserted, by an earlier try
    if (taken_.contains(n.task.id)) {
      result.how = Inserted::How::id_taken;
      return false;
    }
    const auto old = row.key.empty() ? by_key_.end() : by_key_.find(row.key);
    const bool frees = old != by_key_.end() &&
                       gives_up_key(over(old->second), old->second.attempt, old->second.created_at, n);
    if (old != by_key_.end() && !frees) {
      result = {Inserted::How::duplicate, old->second.id};
      return false;
    }
    if (const auto twin = in_batch.find(row.key); !row.key.empty() && twin != in_batch.end()) {
      result = {Inserted::How::duplicate, twin->second};
      return false;
    }
    if (is_too_large(row)) {
      result.how = Inserted::How::too_large;
      return false;
    }
    if (!is_held(row, held)) {
      result.how = Inserted::How::not_held;
      return false;
    }
    if (!row.key.empty()) in_batch[row.key] = n.task.id;
    if (frees) to_free.push_back(old->second.id);
    return true;
  }

  void free_keys(std::vector<TaskId> to_free) {
    if (to_free.empty()) return;
    std::sort(to_free.begin(), to_free.end());
    std::vector<TaskId> open;
    for (const auto& [key, old] : by_key_) {
      if (!over(old) && std::ranges::binary_search(to_free, old.id)) open.push_back(old.id);
    }
    std::sort(open.begin(), open.end());
    if (tables_.free_keys(to_free, open) != static_cast<std::int64_t>(to_free.size()))
      throw Again{"a finished task was reopened"};
  }

  void write(const std::vector<NewRow*>& fresh, int node) {
    EpochMs newest;
    for (NewRow* row : fresh) {
      row->cause = causes_.inserted(*row->task);
      newest = std::max(newest, row->task->task.created_at);
    }
    tables_.insert_rows(fresh);
    tables_.write_causes(causes_, node, newest);
  }

  Tables& tables_;
  CauseChanges causes_;
  std::vector<NewRow> rows_;  // by id
  bool by_hand_ = false;
  std::vector<Inserted> results_;
  std::unordered_set<TaskId> here_, taken_;  // ids in the table: from our earlier try; from others
  std::unordered_map<std::string, Existing> by_key_;
};

// Inside a transaction: insert() of one task, whatever the leases.
Inserted insert_child(Tables& tables, const CauseBook& book, const NewTask& child) {
  return IntakeWriter(tables, book, {&child, 1}).run({}, Fence{0, {}, true}, true).front();
}

// --- apply()

constexpr int kUnreadBackoff = 16;  // batches
// Duplicates often come in series: after a repeated call, this many calls look for existing rows first.
constexpr int kDoubts = 8;

Decision refused(const Task& task, std::string_view reason) {
  Decision d;
  d.verdict = Decision::Verdict::refused;
  d.reason = reason;
  d.task = task;
  return d;
}

// One try of a transaction of apply().
class Application {
 public:
  struct Mode {
    bool repeated = false;      // an earlier try of the transaction was undone
    bool may_be_short = false;  // claims of many tasks
  };
  Application(Tables& tables, CauseChanges& causes, std::span<const Event> events, int node, Mode mode)
      : tables_(tables), events_(events), node_(node), mode_(mode), causes_(causes) {
    causes_.begin();
  }

  std::vector<Decision> run(const Decider& decide, const Fence& fence, const BulkStep* step) {
    read(tables_.lock(fence, ids()));
    std::vector<Decision> decisions = ask_all(decide);
    if (step != nullptr && !tables_.step_bulk(*step, counts(decisions)))
      throw StoreError({Error::Kind::permanent, std::string(kNotItsRunner)});
    tables_.write_tasks(changed_tasks());
    if (step != nullptr && step->keeps_sent) keep_sent(*step, decisions);
    write_records();
    tables_.write_audit(audit_);
    for (const auto& [task, message] : replacements_) tables_.replace_message(task, message);
    return decisions;
  }
  // The same without reading the tasks. It assumes that the node holds all leases of `fence`, which the guard
  // checks. Returns nullopt, and writes nothing, if that is not worthwhile.
  std::optional<std::vector<Decision>> run_unread(const Decider& decide, EpochMs now, const Fence& fence) {
    now_ = now;
    held_ = fence.leases;
    for (const Event& e : events_) {
      if (!tasks_.emplace(e.id, LockedTask{*e.expected}).second) return std::nullopt;
    }
    std::vector<Decision> decisions = ask_all(decide);
    const std::vector<ChangedTask> changed = changed_tasks();
    if (changed.size() != events_.size() || !tables_.write_unread(changed, fence)) return std::nullopt;
    write_records();
    return decisions;
  }

 private:
  // In order, as each transaction locks them.
  std::vector<TaskId> ids() const {
    std::vector<TaskId> ids;
    ids.reserve(events_.size());
    for (const Event& e : events_) ids.push_back(e.id);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  void read(Tables::Locked locked) {
    now_ = locked.now;
    held_ = std::move(locked.held);
    for (LockedTask& row : locked.tasks) {
      const TaskId id = row.task.id;
      tasks_.emplace_hint(tasks_.end(), id, std::move(row));
    }
    if (mode_.repeated) return;  // all leases are locked
    for (const Event& e : events_) {
      const auto found = tasks_.find(e.id);
      if (e.expected && found != tasks_.end() && found->second.task.shard != e.expected->shard)
        throw Again{"a task is in another shard since it was claimed"};
    }
  }

  std::vector<Decision> ask_all(const Decider& decide) {
    std::vector<Decision> decisions;
    decisions.reserve(events_.size());
    for (const Event& e : events_) decisions.push_back(ask(e, decide));
    return decisions;
  }

  Circumstances circumstances(const Task& task) {
    Circumstances at{now_, tables_.random(), node_, 0, -1};
    const auto lease = std::ranges::find(held_, task.shard, &Lease::shard);
    if (lease != held_.end()) {
      at.epoch = lease->epoch;
    } else if (!held_.empty()) {
      at.home_shard = held_[std::hash<TaskId>{}(task.id) % held_.size()].shard;
    }
    if (task.state == State::publishing)
      at.claim_stands = at.epoch != 0 ? at.epoch == task.epoch : stands({task.shard, task.epoch});
    return at;
  }

  // Whether another instance holds that lease now. An expired lease is never renewed, so no lock is needed: a
  // lease read as valid only makes the caller retry.
  bool stands(const Lease& lease) {
    if (!standing_) standing_ = tables_.current_leases();
    return std::ranges::find(*standing_, lease) != standing_->end();
  }

  Decision ask(const Event& event, const Decider& decide) {
    const auto it = tasks_.find(event.id);
    if (it == tasks_.end()) {
      Task none;
      none.id = event.id;
      return refused(none, kNoSuchTask);
    }
    LockedTask& locked = it->second;
    if (auto no = refuse_by_hand(event, locked.task)) return *std::move(no);
    Decision d = decide(locked.task, event.what, circumstances(locked.task));
    if (d.verdict != Decision::Verdict::applied) return d;
    if (d.child != nullptr) {
      const Inserted::How how = insert_child(tables_, causes_.book(), *d.child).how;
      if (how != Inserted::How::inserted)
        return refused(locked.task, how == Inserted::How::too_large ? kBodyTooLarge : kIdTaken);
    }
    causes_.decided(locked.task, d);
    if (auto row = audit_of(event, locked.task, d.task, now_)) audit_.push_back(*std::move(row));
    d.short_claim = d.short_claim && mode_.may_be_short;
    if (locked.short_claim && !locked.before) locked.before = locked.task;
    if (!(d.task == locked.task)) {
      locked.claimed_short = d.short_claim && !locked.before;
      if (!locked.before) locked.before = std::move(locked.task);
      locked.task = d.task;
    }
    if (d.replacement != nullptr) replacements_.emplace_back(d.task, d.replacement->message);
    if (d.overtaken) attempts_.add(*d.overtaken, false);
    if (d.attempt) attempts_.add(*d.attempt, d.drop_attempt);
    return d;
  }

  std::vector<ChangedTask> changed_tasks() const {
    std::vector<ChangedTask> tasks;
    for (const auto& [id, locked] : tasks_) {
      if (locked.before && !locked.claimed_short)
        tasks.push_back({&*locked.before, &locked.task, locked.short_claim});
    }
    return tasks;
  }

  void write_records() {
    tables_.write_attempts(attempts_, mode_.repeated);
    tables_.write_causes(causes_, node_, now_);
  }

  // The same transaction writes the bulk's progress: a process that takes it over continues from there.
  BulkStepCounts counts(const std::vector<Decision>& decisions) const {
    using Verdict = Decision::Verdict;
    return {std::ranges::max(events_, {}, &Event::id).id, static_cast<std::int64_t>(events_.size()),
            std::ranges::count(decisions, Verdict::applied, &Decision::verdict),
            std::ranges::count(decisions, Verdict::refused, &Decision::verdict)};
  }
  void keep_sent(const BulkStep& step, const std::vector<Decision>& decisions) {
    std::vector<TaskId> changed;
    for (const Decision& d : decisions) {
      if (d.verdict == Decision::Verdict::applied) changed.push_back(d.task.id);
    }
    if (!changed.empty()) tables_.keep_sent(step, changed);
  }

  Tables& tables_;
  const std::span<const Event> events_;
  const int node_;
  const Mode mode_;
  std::vector<Lease> held_;
  std::optional<std::vector<Lease>> standing_;  // of all instances; read on demand
  EpochMs now_;
  std::map<TaskId, LockedTask> tasks_;  // the order in which they are locked and written
  AttemptChanges attempts_;
  CauseChanges& causes_;
  std::vector<AuditRow> audit_;
  std::vector<std::pair<Task, MessagePtr>> replacements_;
};

// When, by the database's clock as the caller knows it, the latest of these confirms came. None: there are
// other events among them, or the task as it was claimed is not known.
std::optional<EpochMs> confirmed_at(std::span<const Event> events) {
  std::optional<EpochMs> latest;
  for (const Event& e : events) {
    const auto* confirmed = std::get_if<event::Confirmed>(&e.what);
    if (confirmed == nullptr || e.expected == nullptr) return std::nullopt;
    latest = std::max(latest.value_or(confirmed->published_at), confirmed->published_at);
  }
  return latest;
}

void failpoints(std::span<const Event> events, std::string_view when) {
  if constexpr (kFailpoints) {
    for (const Event& event : events) failpoint(name_of(event.what), when);
  }
}

}  // namespace

std::vector<Inserted> TaskWriter::insert(std::span<const NewTask> tasks, const Fence& fence) {
  if (tasks.empty()) return {};
  IntakeWriter intake(*this, *book_, tasks);
  bool repeated = false;
  std::vector<Inserted> inserted;
  const auto body = [&] {
    // What failed: a lease has lapsed, or the same intake, or the same call, was committed before.
    const bool is_first = !std::exchange(repeated, true);
    if (!is_first) doubts_ = kDoubts;
    if (is_first && doubts_ == 0 && intake.guard_suffices(fence)) {
      const Fence needed = narrowed(fence, tasks, [](const NewTask& n) { return n.task.shard; });
      guard_leases(needed);
      inserted = intake.run(needed.leases, needed, false);
    } else {
      const std::vector<Lease> held = share_leases(fence);
      inserted = intake.run(held, fence, doubts_ > 0);
    }
  };
  auto done = result_of([&] { transaction(body, "insert"); });
  if (doubts_ > 0) --doubts_;
  or_throw(std::move(done));
  book_->stored(intake.causes().fresh());
  return inserted;
}

std::vector<Decision> TaskWriter::write(std::span<const Event> events, const Fence& fence,
                                        const Decider& decide, const BulkStep* step, Claims* claims) {
  if (events.empty()) return {};
  const bool all_expected =  // of a bulk none is: its events are by hand
      std::ranges::all_of(events, [](const Event& e) { return e.expected != nullptr && !e.by_hand; });
  const Fence needed =
      all_expected ? narrowed(fence, events, [](const Event& e) { return e.expected->shard; }) : fence;
  // Unread only once: a repeated transaction reads the rows, and so do the next few calls. If consumers are
  // quicker than confirms, each batch contains a task that one has changed.
  std::optional<EpochMs> unread_at = confirmed_at(events);
  if (needed.node == 0 || needed.leases.empty()) unread_at.reset();
  if (unread_at && unread_backoff_ > 0) {
    --unread_backoff_;
    unread_at.reset();
  }
  const bool may_be_short = claims != nullptr && events.size() >= short_claims_from();
  std::optional<std::vector<Decision>> decided;
  int tries = 0;
  CauseChanges causes(*book_);
  for (const Event& e : events) {
    if (const auto* failed = std::get_if<event::Failed>(&e.what)) causes.text_of(failed->error);
  }
  const auto body = [&] {
    const bool repeated = ++tries > 1;
    decided.reset();
    if (unread_at && !repeated)
      decided = Application(*this, causes, events, fence.node, {}).run_unread(decide, *unread_at, needed);
    if (!decided) {
      Application application(*this, causes, events, fence.node, {repeated, may_be_short});
      decided = application.run(decide, repeated ? fence : needed, step);
    }
    if (claims != nullptr) read_messages(first_claimed(*decided, claims->most_bytes), claims->messages);
    failpoints(events, ".before_commit");
  };
  auto done = result_of([&] { transaction(body, {}); });
  if (unread_at && tries > 1) unread_backoff_ = kUnreadBackoff;
  or_throw(std::move(done));
  book_->stored(causes.fresh());
  failpoints(events, ".after_commit");
  return *std::move(decided);
}

Claimed TaskWriter::claim(std::span<const Event> events, const Fence& fence, const Decider& decide,
                          std::size_t most_bytes) {
  Claims claims{most_bytes};
  auto decisions = write(events, fence, decide, nullptr, &claims);
  return {std::move(decisions), std::move(claims.messages)};
}

void TaskWriter::write_claims(std::span<const TaskId> ids) {
  if (ids.empty()) return;
  std::vector<TaskId> ordered(ids.begin(), ids.end());
  std::sort(ordered.begin(), ordered.end());
  const auto body = [&] {
    const Locked locked = lock(Fence{}, ordered);
    std::vector<ChangedTask> claimed;
    for (const LockedTask& row : locked.tasks) {
      if (row.short_claim) claimed.push_back({&row.task, &row.task, true});
    }
    write_tasks(claimed);
  };
  transaction(body, {});
}

}  // namespace rung
