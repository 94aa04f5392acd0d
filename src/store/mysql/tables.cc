#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/message/message.h"
#include "src/core/task/task.h"
#include "src/store/mysql/session.h"

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

// Runs what `statement` makes of all the rows that `add` makes, in statements of a bounded size.
template <typename Statement, typename Range, typename Add>
void write_rows(Session& session, Statement statement, const Range& range, Add add) {
  const std::size_t most = std::min(kChunkBytes, static_cast<std::size_t>(session.max_packet()) / 4);
  Rows rows;
  for (const auto& item : range) {
    add(rows, item);
    if (rows.size() < most) continue;
    session.later(statement(rows.done()));
    rows = Rows{};
  }
  if (rows.count() > 0) session.later(statement(rows.done()));
}
auto rows_of(std::string_view name) {
  return [name](Sql rows) { return render(name, {{"rows", std::move(rows)}}); };
}

// Calls `update` for `ids` in pieces of a bounded size.
template <typename Update>
void at_once(const std::vector<TaskId>& ids, Update update) {
  for (std::size_t i = 0; i < ids.size(); i += kMostAtOnce)
    update(std::span(ids).subspan(i, std::min(kMostAtOnce, ids.size() - i)));
}

Sql with_claim(const Group& group) {
  const Task& claimed = *group.items.front()->before;
  std::vector<Sql> set{render("same_change.short_claim", {{"epoch", claimed.epoch}, {"node", claimed.node}})};
  if (group.columns != 0) set.push_back(change(group.columns, *group.items.front()->after));
  return Sql::of(set);
}

// `guarded`: the transaction is undone and repeated if a row does not match.
void write_at_once(Session& session, std::string_view name, const Group& group, bool guarded = false) {
  std::vector<TaskId> ids;
  for (const ChangedTask* task : group.items) ids.push_back(task->after->id);
  const ChangedTask& first = *group.items.front();
  const Sql changes = first.short_claim ? with_claim(group) : change(group.columns, *first.after);
  at_once(ids, [&](std::span<const TaskId> some) {
    session.later(render(name, {{"changes", changes},
                                {"ids", some},
                                {"version", first.before->version},
                                {"attempt", first.before->attempt},
                                {"node", first.before->node},
                                {"copy", first.before->copy_number}}));
    if (guarded) session.expect_rows(static_cast<std::int64_t>(some.size()));
  });
}

void drop(Session& session, const AttemptChanges& attempts) {
  if (attempts.dropped.empty()) return;
  std::vector<Sql> pairs;
  for (const auto& [task, attempt] : attempts.dropped)
    pairs.push_back(render("drop_attempts.pair", {{"id", task}, {"attempt", attempt}}));
  session.later(render("drop_attempts", {{"pairs", Sql::joined(pairs, " OR ")}}));
}

void replace_body(Session& session, const Task& task, const Message& message) {
  auto rows = session.query(render("lock_body", {{"id", task.id}}));
  if (!rows->next()) return;  // purged by hand: the task has no message any more
  const EarlierContent earlier{task.attempt, text_at(*rows, 1), text_at(*rows, 2)};
  const std::string origin = add_earlier(text_at(*rows, 3), earlier);
  rows.reset();
  session.exec(render("replace_message", {{"id", task.id},
                                          {"properties", properties_to_json(message.properties)},
                                          {"headers", NewRow::headers_json(message)},
                                          {"origin", origin}}));
}

}  // namespace

void MysqlStore::transaction(const std::function<void()>& body, std::string_view name) {
  session_->transaction(body, name);
}

void MysqlStore::write_tasks(std::span<const ChangedTask> tasks) {
  const std::vector<Group> groups = grouped(tasks, false);
  const bool few = groups.size() <= kFewChanges;
  std::vector<const Task*> apart;
  for (const Group& group : groups) {
    if (!is_alone(group) && (few || group.items.size() >= kWorthOne)) {
      write_at_once(*session_, "same_tasks", group);
    } else {
      for (const ChangedTask* task : group.items) apart.push_back(task->after);
    }
  }
  write_rows(*session_, mysql::write_tasks, apart,
             [](Rows& rows, const Task* task) { add_task(rows, *task); });
}

// A statement locks its rows in order of ids, as reading them would. Two could meet another transaction that
// has locked some of the second's rows and waits for one of the first's: only few rows take that risk.
bool MysqlStore::write_unread(std::span<const ChangedTask> tasks, const Fence& fence) {
  const std::vector<Group> groups = grouped(tasks, true);
  const auto was_claimed = [](const ChangedTask& task) { return task.before->state == State::publishing; };
  if (!std::ranges::all_of(tasks, was_claimed)) return false;
  if (std::ranges::any_of(groups, is_alone)) return false;
  if (groups.size() > 1 && tasks.size() >= kWorthOne) return false;
  guard_leases(fence);
  for (const Group& group : groups) write_at_once(*session_, "same_tasks_unread", group, true);
  return true;
}

void MysqlStore::write_attempts(const AttemptChanges& attempts, bool repeated) {
  drop(*session_, attempts);
  std::vector<const Attempt*> kept;
  for (const Attempt& a : attempts.kept) kept.push_back(&a);
  const auto place = [](const Attempt* a) { return std::pair(a->task, a->attempt); };
  std::ranges::stable_sort(kept, {}, place);
  std::vector<Alike<Attempt>> groups;
  std::vector<const Attempt*> apart;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const Attempt& a = *kept[i];
    // What several events say of one attempt is written in their order.
    const bool several = (i > 0 && place(kept[i - 1]) == place(&a)) ||
                         (i + 1 < kept.size() && place(kept[i + 1]) == place(&a));
    if (several || only_begins(a)) {
      apart.push_back(&a);
    } else {
      put(groups, 0, a, same_word);
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
      session_->later(render("same_attempts", {{"changes", word(*group.items.front())},
                                               {"attempt", group.items.front()->attempt},
                                               {"ids", some}}));
      session_->expect_rows(static_cast<std::int64_t>(some.size()));
    });
  }
  write_rows(*session_, rows_of("write_attempts"), apart,
             [](Rows& rows, const Attempt* a) { add_attempt(rows, *a); });
}

void MysqlStore::write_audit(std::span<const AuditRow> rows) {
  write_rows(*session_, rows_of("write_audit"), rows, [](Rows& out, const AuditRow& a) {
    out.row() << a.at << clean_utf8(a.who, 255) << a.what << a.task << a.before << a.after << a.reason
              << a.bulk;
  });
}

void MysqlStore::replace_message(const Task& task, const MessagePtr& message) {
  const Sql id = Sql::of(task.id);
  replace_body(*session_, task, *message);
  session_->exec(render("replace_message.task", {{"id", id},
                                                 {"digest", Sql::bytes(task.digest)},
                                                 {"tag", name_sql(task.tag)},
                                                 {"rule_headers", rule_headers_sql(task.rule_headers)},
                                                 {"correlation_id", correlation_id_sql(*message)}}));
  const auto& names = session_->options().index_headers;
  if (names.empty()) return;
  session_->exec(delete_by("rung_task_headers", "task_id", id));
  Rows rows;
  add_indexed_headers(rows, task.id, *message, names);
  if (rows.count() > 0) session_->exec(render("insert_headers", {{"rows", rows.done()}}));
}

bool MysqlStore::step_bulk(const BulkStep& step, const BulkStepCounts& counts) {
  return session_->exec(render("bulk_step", {{"rate", step.rate},
                                             {"last", counts.last},
                                             {"done", counts.done},
                                             {"applied", counts.applied},
                                             {"refused", counts.refused}}) +
                        if_ours(step)) == 1;
}

void MysqlStore::keep_sent(const BulkStep& step, std::span<const TaskId> changed) {
  session_->later(render("bulk_items_changed", {{"bulk", step.bulk}, {"ids", changed}}));
}

void MysqlStore::read_messages(std::span<const TaskId> ids, std::vector<StoredMessage>& into) {
  if (ids.empty()) return;
  session_->last(render("messages", {{"ids", ids}}),
                 [&into](const ::sql::ResultSet& row) { into.push_back(message_at(row)); });
}

double MysqlStore::random() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.0, 1.0)(engine);
}

// --- the rows of one insert(): tasks, indexed headers and bodies, in chunks

namespace {

constexpr std::size_t kChunkRows = 500;
// Packet space of a body's row besides its texts: the statement, lengths, and the server's own overhead.
constexpr std::int64_t kPacketMargin = 16 * 1024;
// Its short columns, at most: seven names of 255 bytes and some numbers.
constexpr std::size_t kMostOfNames = 2048;
// A chunk's bodies up to this size (and a quarter of a packet) go into the statement as digits, twice their
// size: cheaper than preparing a statement.
constexpr std::size_t kAsText = 512 * 1024;

using NewRows = std::span<const NewRow* const>;

void insert_tasks(Session& session, NewRows chunk) {
  const NewTaskColumns columns(chunk);
  Rows rows;
  for (const NewRow* row : chunk) columns.add(rows, *row);
  session.later(render("insert_tasks", {{"columns", columns.names()}, {"rows", rows.done()}}));
}

void insert_headers(Session& session, NewRows chunk) {
  const auto& names = session.options().index_headers;
  if (names.empty()) return;
  Rows rows;
  for (const NewRow* row : chunk) add_indexed_headers(rows, row->task->task.id, *row->task->message, names);
  if (rows.count() > 0) session.later(render("insert_headers", {{"rows", rows.done()}}));
}

void insert_bodies_as_text(Session& session, NewRows chunk) {
  Rows rows;
  for (const NewRow* row : chunk)
    rows.row() << row->task->task.id << row->properties << row->headers << row->task->origin_json
               << Sql::bytes(row->task->message->body);
  session.later(render("insert_bodies", {{"rows", rows.done()}}));
}

// Prepared statement: a body is sent as it is, not as digits of twice its size.
void insert_bodies(Session& session, NewRows chunk) {
  Rows rows;
  const Sql place = Sql::rendered("?");
  for (std::size_t i = 0; i < chunk.size(); ++i) rows.row() << place << place << place << place << place;
  auto statement = session.prepare(render("insert_bodies", {{"rows", rows.done()}}));
  unsigned at = 0;
  for (const NewRow* row : chunk) {
    statement->setInt64(++at, row->task->task.id.value);
    statement->setString(++at, row->properties);
    if (row->headers) {
      statement->setString(++at, *row->headers);
    } else {
      statement->setNull(++at, 0);
    }
    statement->setString(++at, row->task->origin_json);
    statement->setString(++at, row->task->message->body.str());
  }
  statement->executeUpdate();
}

}  // namespace

std::size_t MysqlStore::largest_row() const {
  return static_cast<std::size_t>(std::max(session_->max_packet() - kPacketMargin, std::int64_t{0}));
}

std::vector<Tables::SameId> MysqlStore::find_ids(std::span<const NewRow> rows) {
  std::vector<TaskId> ids;
  for (const NewRow& row : rows) ids.push_back(row.task->task.id);
  return session_->all(render("intake_ids", {{"ids", ids}}),
                       row_of(&SameId::id, &SameId::created_at, &SameId::message_id, &SameId::body));
}

std::vector<Tables::SameKey> MysqlStore::find_keys(std::span<const NewRow> rows) {
  std::vector<Sql> keys;
  for (const NewRow& row : rows) {
    if (!row.key.empty()) keys.push_back(Sql::bytes(row.key));
  }
  if (keys.empty()) return {};
  return session_->all(render("intake_keys", {{"keys", keys}, {"short_claim", short_claim()}}),
                       row_of(&SameKey::key, &SameKey::id, &SameKey::state, &SameKey::kind, &SameKey::attempt,
                              &SameKey::created_at));
}

std::int64_t MysqlStore::free_keys(std::span<const TaskId> ids, std::span<const TaskId> open) {
  const TaskId none[] = {{0}};  // a list must not be empty
  return session_->exec(
      render("intake_free_keys",
             {{"ids", ids}, {"open", open.empty() ? none : open}, {"short_claim", short_claim()}}));
}

void MysqlStore::insert_rows(std::span<const NewRow* const> rows) {
  const auto most_bytes = static_cast<std::size_t>(session_->max_packet()) / 4;
  for (std::size_t from = 0; from < rows.size();) {
    std::size_t to = from;
    std::size_t bytes = 0, bodies = 0;
    for (; to < rows.size() && to - from < kChunkRows; ++to) {
      const std::size_t body = rows[to]->bytes();
      const std::size_t more = body + rows[to]->task->task.last_error.size() + kMostOfNames;
      if (to > from && bytes + more > most_bytes) break;
      bytes += more;
      bodies += body;
    }
    const NewRows chunk = rows.subspan(from, to - from);
    insert_tasks(*session_, chunk);
    insert_headers(*session_, chunk);
    if (bodies <= std::min(kAsText, most_bytes)) {
      insert_bodies_as_text(*session_, chunk);
    } else {
      insert_bodies(*session_, chunk);
    }
    from = to;
  }
}

}  // namespace rung::mysql
