#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/message/message.h"
#include "src/core/task/task.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kChunkBytes =
    1U << 20U;  // maximum statement size; a quarter of max_allowed_packet if less

// From this many rows on, the same change gets a statement of its own; and so does each of so few changes.
constexpr std::size_t kWorthOne = 8, kFewChanges = 4;
constexpr std::size_t kMostAtOnce = 2000;  // ids per statement

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

using Group = Alike<ChangedTask>;

// What a confirm expects of a row, and writes to it after a short claim.
bool same_claim(const Task& a, const Task& b) {
  return a.version == b.version && a.state == b.state && a.attempt == b.attempt && a.node == b.node &&
         a.copy_number == b.copy_number;
}

// `by_claim`: also by the claim that they had.
std::vector<Group> grouped(std::span<const ChangedTask> tasks, bool by_claim) {
  std::vector<Group> groups;
  for (const ChangedTask& task : tasks) {
    const Columns columns = changed(*task.before, *task.after);
    put(groups, columns, task, [&](const ChangedTask& a, const ChangedTask& b) {
      if (!same_change(columns, *a.after, *b.after) || a.short_claim != b.short_claim) return false;
      if (a.short_claim) return a.before->epoch == b.before->epoch && a.before->node == b.before->node;
      return !by_claim || same_claim(*a.before, *b.before);
    });
  }
  return groups;
}

bool is_alone(const Group& group) { return (group.columns & kAlone) != 0; }

// Runs `name` for all that `add` puts into rows, in statements of a bounded size.
template <typename Range, typename Add>
void write_rows(Session& session, std::string_view name, const Range& range, Add add) {
  const std::size_t most = std::min(kChunkBytes, static_cast<std::size_t>(session.max_packet()) / 4);
  Rows rows;
  for (const auto& item : range) {
    add(rows, item);
    if (rows.size() < most) continue;
    session.later(render(name, {{"rows", rows.done()}}));
    rows = Rows{};
  }
  if (rows.count() > 0) session.later(render(name, {{"rows", rows.done()}}));
}

// Calls `update` for `ids` in pieces of a bounded size.
template <typename Update>
void at_once(const std::vector<TaskId>& ids, Update update) {
  for (std::size_t i = 0; i < ids.size(); i += kMostAtOnce)
    update(std::span(ids).subspan(i, std::min(kMostAtOnce, ids.size() - i)));
}

Literal with_claim(const Group& group) {
  const Task& claimed = *group.items.front()->before;
  std::vector<Literal> set{
      Literal::rendered(render("same_change.short_claim", {{"epoch", Literal::number(claimed.epoch)},
                                                           {"node", Literal::number(claimed.node)}}))};
  if (group.columns != 0) set.push_back(change(group.columns, *group.items.front()->after));
  return Literal::list(set);
}

// `guarded`: the transaction is undone and repeated if a row does not match.
void write_at_once(Session& session, std::string_view name, const Group& group, bool guarded = false) {
  std::vector<TaskId> ids;
  for (const ChangedTask* task : group.items) ids.push_back(task->after->id);
  const ChangedTask& first = *group.items.front();
  const Literal changes = first.short_claim ? with_claim(group) : change(group.columns, *first.after);
  at_once(ids, [&](std::span<const TaskId> some) {
    session.later(render(name, {{"changes", changes},
                                {"ids", Literal::ids(some)},
                                {"version", Literal::number(first.before->version)},
                                {"attempt", Literal::number(first.before->attempt)},
                                {"node", Literal::number(first.before->node)},
                                {"copy", Literal::number(first.before->copy_number)}}));
    if (guarded) session.expect_rows(static_cast<std::int64_t>(some.size()));
  });
}

void drop(Session& session, const AttemptChanges& attempts) {
  const auto dropped = attempts.dropped();
  if (dropped.empty()) return;
  std::string pairs;
  for (const auto& [task, attempt] : dropped) {
    pairs += pairs.empty() ? "" : " OR ";
    pairs += render("drop_attempts.pair",
                    {{"id", Literal::number(task.value)}, {"attempt", Literal::number(attempt)}});
  }
  session.later(render("drop_attempts", {{"pairs", Literal::rendered(std::move(pairs))}}));
}

void replace_body(Session& session, const Task& task, const Message& message) {
  auto rows = session.query(render("lock_body", {{"id", Literal::number(task.id.value)}}));
  if (!rows->next()) return;  // purged by hand: the task has no message any more
  const EarlierContent earlier{task.attempt, text_at(*rows, 1), text_at(*rows, 2)};
  const std::string origin = add_earlier(text_at(*rows, 3), earlier);
  rows.reset();
  session.exec(render(
      "replace_message",
      {{"id", Literal::number(task.id.value)},
       {"properties", Literal::text(properties_to_json(message.properties))},
       {"headers", message.headers ? Literal::text(headers_to_json(*message.headers)) : Literal::null()},
       {"origin", Literal::text(origin)}}));
}

}  // namespace

void MysqlTables::write_tasks(std::span<const ChangedTask> tasks) {
  const std::vector<Group> groups = grouped(tasks, false);
  const bool few = groups.size() <= kFewChanges;
  std::vector<const Task*> apart;
  for (const Group& group : groups) {
    if (!is_alone(group) && (few || group.items.size() >= kWorthOne)) {
      write_at_once(session_, "same_tasks", group);
    } else {
      for (const ChangedTask* task : group.items) apart.push_back(task->after);
    }
  }
  write_rows(session_, "write_tasks", apart, [](Rows& rows, const Task* task) { add_task(rows, *task); });
}

// A statement locks its rows in order of ids, as reading them would. Two could meet another transaction that
// has locked some of the second's rows and waits for one of the first's: only few rows take that risk.
bool MysqlTables::write_unread(std::span<const ChangedTask> tasks, const Fence& fence) {
  const std::vector<Group> groups = grouped(tasks, true);
  const auto was_claimed = [](const ChangedTask& task) { return task.before->state == State::publishing; };
  if (!std::ranges::all_of(tasks, was_claimed)) return false;
  if (std::ranges::any_of(groups, is_alone)) return false;
  if (groups.size() > 1 && tasks.size() >= kWorthOne) return false;
  guard_leases(fence);
  for (const Group& group : groups) write_at_once(session_, "same_tasks_unread", group, true);
  return true;
}

void MysqlTables::write_attempts(const AttemptChanges& attempts, bool repeated) {
  drop(session_, attempts);
  const std::vector<Attempt> kept = attempts.kept();
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
    if (ids.size() < kWorthOne || repeated) {
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
  write_rows(session_, "write_attempts", apart, [](Rows& rows, const Attempt* a) { add_attempt(rows, *a); });
}

void MysqlTables::write_audit(std::span<const AuditRow> rows) {
  write_rows(session_, "write_audit", rows, [](Rows& out, const AuditRow& a) {
    out.row() << Literal::time(a.at) << Literal::text(clean_utf8(a.who, 255)) << Literal::text(a.what)
              << Literal::number(a.task.value) << Literal::text(a.before) << Literal::text(a.after)
              << Literal::text(a.reason) << Literal::number(a.bulk);
  });
}

void MysqlTables::replace_message(const Task& task, const MessagePtr& message) {
  const Literal id = Literal::number(task.id.value);
  replace_body(session_, task, *message);
  session_.exec(render("replace_message.task", {{"id", id},
                                                {"digest", Literal::bytes(task.digest)},
                                                {"tag", name_literal(task.tag)},
                                                {"rule_headers", rule_headers_literal(task.rule_headers)},
                                                {"correlation_id", correlation_id_literal(*message)}}));
  const auto& names = session_.options().index_headers;
  if (names.empty()) return;
  session_.exec(render("replace_message.drop_headers", {{"id", id}}));
  Rows rows;
  add_indexed_headers(rows, task.id, *message, names);
  if (rows.count() > 0) session_.exec(render("insert_headers", {{"rows", rows.done()}}));
}

void MysqlTables::write_causes(const CauseChanges& changes, int node, EpochMs now) {
  mysql::write_causes(session_, changes, node, now);
}
bool MysqlTables::step_bulk(const BulkStep& step, const BulkStepCounts& counts) {
  return session_.exec(render("bulk_step", {{"bulk", Literal::number(step.bulk)},
                                            {"runner", Literal::text(step.runner)},
                                            {"from", Literal::number(step.from.value)},
                                            {"rate", Literal::decimal(step.rate)},
                                            {"last", Literal::number(counts.last.value)},
                                            {"done", Literal::number(counts.done)},
                                            {"applied", Literal::number(counts.applied)},
                                            {"refused", Literal::number(counts.refused)}})) == 1;
}

void MysqlTables::keep_sent(const BulkStep& step, std::span<const TaskId> changed) {
  session_.later(
      render("bulk_items_changed", {{"bulk", Literal::number(step.bulk)}, {"ids", Literal::ids(changed)}}));
}

void MysqlTables::read_messages(std::span<const TaskId> ids) {
  if (ids.empty()) return;
  session_.last(render("messages", {{"ids", Literal::ids(ids)}}),
                [this](::sql::ResultSet& rows) { messages_ = messages_at(rows); });
}

double MysqlTables::random() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.0, 1.0)(engine);
}

}  // namespace rung::mysql
