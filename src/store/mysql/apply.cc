// apply(): every change of a task. One transaction: lock the leases, lock the tasks in order of ids, call
// decide(), write the results (row_writer.h). If every event is a confirm of our own publish, no task is
// read: decide() gets the task as we claimed it and the time of the confirm, and each UPDATE applies only to
// rows that still match.
//
//   read:      leases, tasks by id -> decide() each -> tasks, attempts, audit, commit      two round trips
//   confirms:  decide() each -> guard of the leases -> tasks, attempts, commit             one; if a lease or
//              a row is not as expected, all is undone and read
//
// A claim reads the messages between its writes and its commit.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "src/core/base/failpoint.h"
#include "src/core/machine/audit.h"
#include "src/store/attempts.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/replace_message.h"
#include "src/store/mysql/row_writer.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

double dice() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.0, 1.0)(engine);
}

constexpr int kUnreadBackoff = 16;  // batches

// In test builds RUNG_TEST_SHORT_CLAIMS in the environment makes every claim short: tests have few tasks.
std::size_t short_claims_from() {
  if constexpr (kFailpoints) {
    static const bool all = std::getenv("RUNG_TEST_SHORT_CLAIMS") != nullptr;
    if (all) return 1;
  }
  return kShortClaims;
}

struct Locked {
  Task task;
  std::optional<Task> before = {};  // if it has changed
  bool short_claim = false;    // `task` is claimed, but not its row: whatever is written, the claim is, too
  bool claimed_short = false;  // now: the row stays as it is
};

class Application {
 public:
  // `repeated`: an earlier try of the transaction was undone. `may_be_short`: claims of many tasks.
  Application(Session& session, const CauseBook& book, std::span<const Event> events, int node,
              std::vector<Lease> held, bool repeated, bool may_be_short)
      : session_(session),
        book_(book),
        events_(events),
        node_(node),
        held_(std::move(held)),
        repeated_(repeated),
        may_be_short_(may_be_short),
        causes_(book) {}

  // `locked`: the rows of lock_statement(), if it has run.
  std::vector<Decision> run(const Decider& decide, ResultPtr locked) {
    read(locked ? std::move(locked) : session_.query(lock_statement(events_)));
    std::vector<Decision> decisions = ask_all(decide);
    RowWriter writer(session_, repeated_);
    writer.write(changed_tasks());
    writer.write(attempts_);
    writer.write(audit_);
    write_causes(session_, causes_, node_, now_);
    write_outgoing(session_, outgoing());
    for (const auto& [task, message] : replacements_) replace_message(session_, task, *message);
    return decisions;
  }
  // The same without reading the tasks. `guard` queues the guard of the leases. Returns nullopt, and queues
  // nothing, if that is not worthwhile.
  std::optional<std::vector<Decision>> run_unread(const Decider& decide, EpochMs now,
                                                  const std::function<void()>& guard) {
    now_ = now;
    for (const Event& e : events_) {
      if (!tasks_.emplace(e.id.value, Locked{*e.expected}).second) return std::nullopt;
    }
    std::vector<Decision> decisions = ask_all(decide);
    const std::vector<ChangedTask> changed = changed_tasks();
    RowWriter writer(session_, false);
    if (changed.size() != events_.size() || !writer.write_unread(changed, guard)) return std::nullopt;
    writer.write(attempts_);
    write_causes(session_, causes_, node_, now_);
    write_outgoing(session_, outgoing());
    return decisions;
  }
  // In order of ids, as each transaction locks them.
  static std::string lock_statement(std::span<const Event> events) {
    std::vector<TaskId> ids;
    ids.reserve(events.size());
    for (const Event& e : events) ids.push_back(e.id);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return render("lock_tasks", {{"ids", Literal::ids(ids)}, {"short_claim", short_claim()}});
  }
  const CauseChanges& causes() const { return causes_; }
  // The same transaction writes the bulk's progress: a process that takes it over continues from there.
  void move_on(const BulkStep& step, const std::vector<Decision>& decisions) {
    using Verdict = Decision::Verdict;
    const auto how_many = [&](Verdict v) {
      return Literal::number(std::ranges::count(decisions, v, &Decision::verdict));
    };
    const TaskId last = std::ranges::max(events_, {}, &Event::id).id;
    const auto moved = session_.exec(render("bulk_step", {{"bulk", Literal::number(step.bulk)},
                                                          {"runner", Literal::text(step.runner)},
                                                          {"from", Literal::number(step.from.value)},
                                                          {"rate", Literal::decimal(step.rate)},
                                                          {"last", Literal::number(last.value)},
                                                          {"done", Literal::number(events_.size())},
                                                          {"applied", how_many(Verdict::applied)},
                                                          {"refused", how_many(Verdict::refused)}}));
    if (moved != 1)
      throw Abort{{Error::Kind::permanent, "the bulk is paused, has ended, or is run by another process"}};
    if (!step.keeps_sent) return;
    std::vector<TaskId> changed;
    for (const Decision& decision : decisions) {
      if (decision.verdict == Verdict::applied) changed.push_back(decision.task.id);
    }
    if (changed.empty()) return;
    session_.later(render(
        "bulk_items_changed",
        {{"at", Literal::time(now_)}, {"bulk", Literal::number(step.bulk)}, {"ids", Literal::ids(changed)}}));
  }

 private:
  void read(ResultPtr rows) {
    while (rows->next()) {
      if (tasks_.empty()) now_ = time_at(*rows, kTaskColumns + 1).value_or(EpochMs{});
      Task task = task_at(*rows);
      const std::int64_t id = task.id.value;
      Locked locked{std::move(task)};
      locked.short_claim = !rows->isNull(kTaskColumns + 2);
      if (locked.short_claim) {
        locked.task = with_short_claim(std::move(locked.task), rows->getUInt64(kTaskColumns + 2),
                                       rows->getInt(kTaskColumns + 3));
      }
      tasks_.emplace_hint(tasks_.end(), id, std::move(locked));
    }
    if (repeated_) return;  // all leases are locked
    for (const Event& e : events_) {
      const auto found = tasks_.find(e.id.value);
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

  Circumstances circumstances(const Locked& locked) {
    const Task& task = locked.task;
    Circumstances at{now_, dice(), node_, 0, -1};
    at.short_claim = locked.short_claim;
    const auto lease =
        std::find_if(held_.begin(), held_.end(), [&](const Lease& l) { return l.shard == task.shard; });
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
    if (!standing_) {
      standing_.emplace();
      auto rows = session_.query(render("leases_standing"));
      while (rows->next()) standing_->push_back({rows->getInt(1), rows->getUInt64(2)});
    }
    return std::ranges::find(*standing_, lease) != standing_->end();
  }

  Decision ask(const Event& event, const Decider& decide) {
    const auto it = tasks_.find(event.id.value);
    if (it == tasks_.end()) {
      Decision none;
      none.verdict = Decision::Verdict::refused;
      none.reason = kNoSuchTask;
      none.task.id = event.id;
      return none;
    }
    Locked& locked = it->second;
    if (auto no = refuse_by_hand(event, locked.task)) return *std::move(no);
    Decision d = decide(locked.task, event.what, circumstances(locked));
    if (d.verdict != Decision::Verdict::applied) return d;
    if (d.child != nullptr) {
      const Inserted::How how = insert_child(session_, book_, *d.child).how;
      if (how != Inserted::How::inserted) return refuse_child(locked.task, how);
    }
    causes_.decided(locked.task, d);
    if (auto row = audit_of(event, locked.task, d.task, now_)) audit_.push_back(*std::move(row));
    d.short_claim = d.short_claim && may_be_short_;
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
  std::vector<OutgoingEvent> outgoing() const {
    std::vector<OutgoingEvent> events;
    for (const auto& [id, locked] : tasks_) {
      if (locked.before && is_parked_by(&*locked.before, locked.task))
        events.push_back(parked_event(locked.task));
    }
    return events;
  }

  Session& session_;
  const CauseBook& book_;
  const std::span<const Event> events_;
  const int node_;
  const std::vector<Lease> held_;
  const bool repeated_, may_be_short_;
  std::optional<std::vector<Lease>> standing_;  // of all instances; read on demand
  EpochMs now_;
  std::map<std::int64_t, Locked> tasks_;  // by id: the order in which they are locked and written
  AttemptChanges attempts_;
  CauseChanges causes_;
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

Result<std::vector<Decision>> MysqlStore::apply(std::span<const Event> events, const Fence& fence,
                                                const Decider& decide, const BulkStep* step) {
  return apply(events, fence, decide, step, std::nullopt);
}

Result<Claimed> MysqlStore::claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                                  std::size_t most_bytes) {
  auto decisions = apply(claims, fence, decide, nullptr, most_bytes);
  if (!decisions) return tl::unexpected(decisions.error());
  Claimed claimed{*std::move(decisions), {}};
  const auto rows = session_->last_rows();
  if (rows == nullptr) return claimed;
  auto messages = session_->run_for([&] { return messages_at(*rows); });
  if (!messages) return tl::unexpected(messages.error());
  claimed.messages = *std::move(messages);
  return claimed;
}

Result<std::vector<Decision>> MysqlStore::apply(std::span<const Event> events, const Fence& fence,
                                                const Decider& decide, const BulkStep* step,
                                                std::optional<std::size_t> messages_of) {
  if (events.empty()) return std::vector<Decision>{};
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
  std::vector<CauseRow> fresh;
  int tries = 0;
  auto decisions = session_->transaction_for([&] {
    const bool repeated = ++tries > 1;
    std::optional<std::vector<Decision>> decided;
    if (unread_at && !repeated) {
      Application application(*session_, *causes_, events, fence.node, needed.leases, false, false);
      decided = application.run_unread(decide, *unread_at, [&] { guard_leases(needed); });
      fresh = application.causes().fresh();
    }
    if (!decided) {
      LockedLeases leases = share_leases(repeated ? fence : needed, Application::lock_statement(events));
      Application application(*session_, *causes_, events, fence.node, leases.held, repeated,
                              messages_of && events.size() >= short_claims_from());
      decided = application.run(decide, std::move(leases.also));
      fresh = application.causes().fresh();
      if (step != nullptr) application.move_on(*step, *decided);
    }
    if (messages_of) read_messages_last(first_claimed(*decided, *messages_of));
    failpoints(events, ".before_commit");
    return *std::move(decided);
  });
  if (unread_at && tries > 1) unread_backoff_ = kUnreadBackoff;
  if (decisions) {
    causes_->stored(fresh);
    failpoints(events, ".after_commit");
  }
  return decisions;
}

Result<void> MysqlStore::write_claims(std::span<const TaskId> ids) {
  std::vector<Event> events;
  events.reserve(ids.size());
  for (const TaskId id : ids) events.push_back({id, event::Claim{}});
  auto written = apply(events, Fence{}, keep_short_claim, nullptr);
  if (!written) return tl::unexpected(written.error());
  return {};
}

void MysqlStore::read_messages_last(std::span<const TaskId> ids) {
  if (!ids.empty()) session_->last(render("messages", {{"ids", Literal::ids(ids)}}));
}

}  // namespace rung::mysql
