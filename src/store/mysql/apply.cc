// apply(): every change of a task. One transaction: lock the leases, lock the tasks in order of ids, call
// decide(), write the results: one UPDATE for all rows with the same change, one statement for the rest. If
// every event has `expected`, no task is read: the UPDATE applies only to rows that still match.
//
//   read:      leases, tasks by id -> decide() each -> equal changes together
//              -> tasks, attempts, audit, commit
//   expected:  leases -> decide() each, on what the caller saw -> one UPDATE, attempts, commit
//              guarded by version and state; if a row has changed, all is undone and read
//
// Two round trips each: what comes before decide(), and what comes after it.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "src/core/base/failpoint.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/audit.h"
#include "src/store/attempts.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/replace_message.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kChunkBytes =
    1U << 20U;  // maximum statement size; a quarter of max_allowed_packet if less

double dice() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.0, 1.0)(engine);
}

constexpr int kOptimisticBackoff = 16;  // batches

// From this many rows on, the same change gets a statement of its own.
constexpr std::size_t kWorthOne = 8;
constexpr std::size_t kMostAtOnce = 2000;  // ids per statement

struct Locked {
  Task task;
  std::optional<Task> before = {};  // if it has changed
};

// Items with the same change: the values of `columns` are the same for all.
template <typename Item>
struct Alike {
  Columns columns = 0;
  std::vector<const Item*> items;
};
template <typename Item, typename Same>
void put(std::vector<Alike<Item>>& groups, Columns columns, const Item& item, Same same) {
  const auto group = std::ranges::find_if(groups, [&](const Alike<Item>& g) {
    return g.columns == columns && (columns & kAlone) == 0 && same(*g.items.front(), item);
  });
  if (group != groups.end()) {
    group->items.push_back(&item);
  } else {
    groups.push_back({columns, {&item}});
  }
}

class Application {
 public:
  // `repeated`: an earlier try of the transaction was undone.
  Application(Session& session, const CauseBook& book, std::span<const Event> events, int node,
              std::vector<Lease> held, bool repeated)
      : session_(session),
        book_(book),
        events_(events),
        node_(node),
        held_(std::move(held)),
        repeated_(repeated),
        causes_(book) {}

  // `locked`: the rows of lock_statement(), if it has run.
  std::vector<Decision> run(const Decider& decide, ResultPtr locked) {
    read(locked ? std::move(locked) : session_.query(lock_statement(events_)));
    std::vector<Decision> decisions = ask_all(decide);
    write_tasks(grouped(false));
    write_attempts();
    write_audit();
    write_causes(session_, causes_, node_, now_);
    write_outgoing(session_, outgoing());
    for (const auto& [task, message] : replacements_) replace_message(session_, task, *message);
    return decisions;
  }
  // The same without reading the tasks. Returns nullopt, and writes nothing, if that is not worthwhile.
  // If a task has changed since, the transaction is undone and repeated.
  std::optional<std::vector<Decision>> apply_optimistically(const Decider& decide, EpochMs now) {
    now_ = now;
    for (const Event& e : events_) {
      if (!tasks_.emplace(e.id.value, Locked{*e.expected}).second) return std::nullopt;
    }
    std::vector<Decision> decisions = ask_all(decide);
    // One statement, which locks the rows in order of ids, as reading them would. Between two statements,
    // another transaction could lock some of them.
    const std::vector<Alike<Locked>> groups = grouped(true);
    if (groups.size() != 1 || !worth_one(groups[0]) || groups[0].items.size() != events_.size())
      return std::nullopt;
    write_at_once("same_tasks_optimistic", groups[0], true);
    write_attempts();
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
    return render("lock_tasks", {{"ids", Literal::ids(ids)}});
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
      tasks_.emplace_hint(tasks_.end(), id, Locked{std::move(task)});
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

  Circumstances circumstances(const Task& task) {
    Circumstances at{now_, dice(), node_, 0, -1};
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
    Decision d = decide(locked.task, event.what, circumstances(locked.task));
    if (d.verdict != Decision::Verdict::applied) return d;
    if (d.child != nullptr) {
      const Inserted::How how = insert_child(session_, book_, *d.child).how;
      if (how != Inserted::How::inserted) return refuse_child(locked.task, how);
    }
    causes_.decided(locked.task, d);
    if (auto row = audit_of(event, locked.task, d.task, now_)) audit_.push_back(*std::move(row));
    if (!(d.task == locked.task)) {
      if (!locked.before) locked.before = std::move(locked.task);
      locked.task = d.task;
    }
    if (d.replacement != nullptr) replacements_.emplace_back(d.task, d.replacement->message);
    if (d.overtaken) attempts_.add(*d.overtaken, false);
    if (d.attempt) attempts_.add(*d.attempt, d.drop_attempt);
    return d;
  }

  // Runs `name` for all that `add` puts into rows, in statements of a bounded size.
  template <typename Range, typename Add>
  void write(std::string_view name, const Range& range, Add add) {
    const std::size_t most = std::min(kChunkBytes, static_cast<std::size_t>(session_.max_packet()) / 4);
    Rows rows;
    for (const auto& item : range) {
      add(rows, item);
      if (rows.size() < most) continue;
      session_.later(render(name, {{"rows", rows.done()}}));
      rows = Rows{};
    }
    if (rows.count() > 0) session_.later(render(name, {{"rows", rows.done()}}));
  }

  // Calls `update` for `ids` in pieces of a bounded size.
  template <typename Update>
  static void at_once(const std::vector<TaskId>& ids, Update update) {
    for (std::size_t i = 0; i < ids.size(); i += kMostAtOnce)
      update(std::span(ids).subspan(i, std::min(kMostAtOnce, ids.size() - i)));
  }

  // The changed tasks, grouped by change; `by_before`: also by their previous version and state.
  std::vector<Alike<Locked>> grouped(bool by_before) const {
    std::vector<Alike<Locked>> groups;
    for (const auto& [id, locked] : tasks_) {
      if (!locked.before) continue;
      const Columns columns = changed(*locked.before, locked.task);
      put(groups, columns, locked, [&](const Locked& a, const Locked& b) {
        return same_change(columns, a.task, b.task) &&
               (!by_before || (a.before->version == b.before->version && a.before->state == b.before->state));
      });
    }
    return groups;
  }
  std::vector<OutgoingEvent> outgoing() const {
    std::vector<OutgoingEvent> events;
    for (const auto& [id, locked] : tasks_) {
      if (locked.before && is_parked_by(&*locked.before, locked.task))
        events.push_back(parked_event(locked.task));
    }
    return events;
  }
  static bool worth_one(const Alike<Locked>& group) {
    return group.items.size() >= kWorthOne && (group.columns & kAlone) == 0;
  }
  // `guarded`: the transaction is undone and repeated if a row does not match.
  void write_at_once(std::string_view name, const Alike<Locked>& group, bool guarded = false) {
    std::vector<TaskId> ids;
    for (const Locked* locked : group.items) ids.push_back(locked->task.id);
    const Locked& first = *group.items.front();
    at_once(ids, [&](std::span<const TaskId> some) {
      session_.later(render(name, {{"changes", change(group.columns, first.task)},
                                   {"ids", Literal::ids(some)},
                                   {"version", Literal::number(first.before->version)},
                                   {"state", Literal::text(to_word(first.before->state))}}));
      if (guarded) session_.expect_rows(static_cast<std::int64_t>(some.size()));
    });
  }

  void write_tasks(const std::vector<Alike<Locked>>& groups) {
    std::vector<const Task*> apart;
    for (const Alike<Locked>& group : groups) {
      if (worth_one(group)) {
        write_at_once("same_tasks", group);
      } else {
        for (const Locked* locked : group.items) apart.push_back(&locked->task);
      }
    }
    write("write_tasks", apart, [](Rows& rows, const Task* task) { add_task(rows, *task); });
  }

  void write_attempts() {
    drop_attempts();
    const std::vector<Attempt> kept = attempts_.kept();
    std::vector<Alike<Attempt>> groups;
    std::vector<const Attempt*> apart;
    for (const Attempt& a : kept) {
      const Columns columns = said(a);
      if (columns == 0) {
        apart.push_back(&a);  // the attempt begins
      } else {
        put(groups, columns, a, [&](const Attempt& x, const Attempt& y) { return same_word(columns, x, y); });
      }
    }
    for (const Alike<Attempt>& group : groups) {
      std::vector<TaskId> ids;
      for (const Attempt* a : group.items) ids.push_back(a->task);
      // If a row is missing (deleted by hand), the guard fails, and the repeated transaction inserts it.
      if (ids.size() < kWorthOne || repeated_) {
        apart.insert(apart.end(), group.items.begin(), group.items.end());
        continue;
      }
      at_once(ids, [&](std::span<const TaskId> some) {
        session_.later(render("same_attempts", {{"changes", word(group.columns, *group.items.front())},
                                                {"attempt", Literal::number(group.items.front()->attempt)},
                                                {"ids", Literal::ids(some)}}));
        session_.expect_rows(static_cast<std::int64_t>(some.size()));
      });
    }
    write("write_attempts", apart, [](Rows& rows, const Attempt* a) { add_attempt(rows, *a); });
  }

  void drop_attempts() {
    const auto dropped = attempts_.dropped();
    if (dropped.empty()) return;
    std::string pairs;
    for (const auto& [task, attempt] : dropped) {
      pairs += pairs.empty() ? "" : " OR ";
      pairs += render("drop_attempts.pair",
                      {{"id", Literal::number(task.value)}, {"attempt", Literal::number(attempt)}});
    }
    session_.later(render("drop_attempts", {{"pairs", Literal::rendered(std::move(pairs))}}));
  }

  void write_audit() {
    write("write_audit", audit_, [](Rows& rows, const AuditRow& a) {
      rows.row() << Literal::time(a.at) << Literal::text(clean_utf8(a.who, 255)) << Literal::text(a.what)
                 << Literal::number(a.task.value) << Literal::text(a.before) << Literal::text(a.after)
                 << Literal::text(a.reason) << Literal::number(a.bulk);
    });
  }

  Session& session_;
  const CauseBook& book_;
  const std::span<const Event> events_;
  const int node_;
  const std::vector<Lease> held_;
  const bool repeated_;
  std::optional<std::vector<Lease>> standing_;  // of all instances; read on demand
  EpochMs now_;
  std::map<std::int64_t, Locked> tasks_;  // by id: the order in which they are locked and written
  AttemptChanges attempts_;
  CauseChanges causes_;
  std::vector<AuditRow> audit_;
  std::vector<std::pair<Task, MessagePtr>> replacements_;
};

// The leases of `fence` that events with `expected` need: each costs the database a row lock.
Fence needed(const Fence& fence, std::span<const Event> events) {
  Fence out{fence.node, {}, fence.by_hand};
  std::ranges::copy_if(fence.leases, std::back_inserter(out.leases), [&](const Lease& lease) {
    return std::ranges::any_of(events, [&](const Event& e) { return e.expected->shard == lease.shard; });
  });
  return out;
}

void failpoints(std::span<const Event> events, std::string_view when) {
  if constexpr (kFailpoints) {
    for (const Event& event : events) failpoint(name_of(event.what), when);
  }
}

}  // namespace

Result<std::vector<Decision>> MysqlStore::apply(std::span<const Event> events, const Fence& fence,
                                                const Decider& decide, const BulkStep* step) {
  if (events.empty()) return std::vector<Decision>{};
  const bool all_expected =  // of a bulk none is: its events are by hand
      std::ranges::all_of(events, [](const Event& e) { return e.expected != nullptr && !e.by_hand; });
  // Optimistic only once: a retry reads the rows, and so do the next few calls. If consumers are quicker than
  // confirms, each batch contains a task that one has changed.
  const bool worth = all_expected && events.size() >= kWorthOne;
  const bool optimistic = worth && optimistic_backoff_ == 0;
  if (worth && optimistic_backoff_ > 0) --optimistic_backoff_;
  std::vector<CauseRow> fresh;
  int tries = 0;
  auto decisions = session_->transaction_for([&] {
    const bool repeated = ++tries > 1;
    const bool reads = !optimistic || repeated;
    LockedLeases leases = share_leases(all_expected && !repeated ? needed(fence, events) : fence,
                                       reads ? Application::lock_statement(events) : "");
    std::optional<std::vector<Decision>> decided;
    if (!reads && leases.now) {
      Application application(*session_, *causes_, events, fence.node, leases.held, false);
      decided = application.apply_optimistically(decide, *leases.now);
      fresh = application.causes().fresh();
    }
    if (!decided) {
      Application application(*session_, *causes_, events, fence.node, leases.held, repeated);
      decided = application.run(decide, std::move(leases.also));
      fresh = application.causes().fresh();
      if (step != nullptr) application.move_on(*step, *decided);
    }
    failpoints(events, ".before_commit");
    return *std::move(decided);
  });
  if (optimistic && tries > 1) optimistic_backoff_ = kOptimisticBackoff;
  if (decisions) {
    causes_->stored(fresh);
    failpoints(events, ".after_commit");
  }
  return decisions;
}

}  // namespace rung::mysql
