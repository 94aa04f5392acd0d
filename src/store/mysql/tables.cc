// The columns of rung_tasks and rung_attempts, and what TaskWriter asks of a database (Tables).
#include <algorithm>
#include <nlohmann/json.hpp>
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

constexpr std::size_t kNameBytes = 255;  // VARCHAR(255) holds at least these

// Callers clean what they write. This catches omissions, so that a column never rejects a whole batch.
Sql clean(std::string_view text, std::size_t most) {
  if (text.size() <= most && is_utf8(text)) return Sql::of(text);
  return Sql::of(clean_utf8(text, most));
}

std::string_view means(const Silence& silence) {
  return silence.means == Silence::Means::success ? kSilenceSuccess : kSilenceFailure;
}

Sql rule_headers_sql(const RuleHeaders& headers) {
  if (headers.empty()) return Sql::null();
  const nlohmann::json json(headers);
  return Sql::of(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

bool is_correlated(const Message& message) {
  const auto& id = message.properties.correlation_id;
  return id && !id->empty();
}

Sql correlation_id_sql(const Message& message) {
  return is_correlated(message) ? name_sql(*message.properties.correlation_id) : Sql::null();
}

// Rows of insert_headers: the values that the message has of the headers `names`, which searches use.
void add_indexed_headers(Rows& rows, TaskId id, const Message& message,
                         const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string value = indexed_value(message, name);
    if (!value.empty()) rows.row() << id << name << value;
  }
}

// --- the columns of rung_tasks

using T = const Task&;

// `counts`: it follows from the row before, by the expression `counted`; a row in which it does not is
// written alone.
struct TaskColumn {
  std::string_view name;
  bool (*same)(T, T);
  Sql (*value)(T);
  void (*read)(Fields&, Task&);  // nullptr: read_rare() does
  bool (*counts)(T before, T after) = nullptr;
  std::string_view counted = "same_change.counts";
};

template <auto Member>
bool equal(T a, T b) {
  return a.*Member == b.*Member;
}
template <auto Member>
Sql value_of(T task) {
  if constexpr (std::convertible_to<decltype(task.*Member), std::string_view>) return name_sql(task.*Member);
  return Sql::of(task.*Member);
}
template <auto Member>
void read_into(Fields& row, Task& task) {
  row >> task.*Member;
}

template <auto Member>
constexpr TaskColumn column(std::string_view name, Sql (*value)(T) = value_of<Member>,
                            void (*read)(Fields&, Task&) = read_into<Member>) {
  return {name, equal<Member>, value, read};
}
template <auto Member>
constexpr TaskColumn rare(std::string_view name, Sql (*value)(T) = value_of<Member>) {
  return column<Member>(name, value, nullptr);
}
// One more with each change.
template <auto Member>
constexpr TaskColumn counter(std::string_view name) {
  TaskColumn counter = column<Member>(name);
  counter.counts = [](T before, T after) { return after.*Member == before.*Member + 1; };
  return counter;
}

constexpr TaskColumn copy_number() {
  TaskColumn number = column<&Task::copy_number>("copy_number");
  number.counts = [](T before, T after) { return after.copy_number == before.version + 1; };
  number.counted = "same_change.next_version";
  return number;
}

// Each confirm writes it: confirms of first and of later attempts are the same change.
bool same_said(T before, T after) {
  return before.said == after.said && (before.state == after.state || after.state != State::awaiting);
}

Sql cause_sql(const std::string& cause) { return cause.empty() ? Sql::null() : Sql::of(cause); }
Sql finished_by_value(T t) {
  return t.finished_by == FinishedBy::nobody ? Sql::null() : Sql::of(t.finished_by);
}
void read_kind(Fields& row, Task& t) {
  const auto kind = from_word<Kind>(row.next<std::string>());
  if (!kind) t.state = State::unknown;
  t.kind = kind.value_or(Kind::retry);
}

constexpr TaskColumn kTasks[] = {
    // Those that change: write_tasks writes them.
    column<&Task::shard>("shard"),
    column<&Task::state>("state"),
    column<&Task::next_at>("next_at"),
    counter<&Task::attempt>("attempt"),
    column<&Task::level>("level"),
    column<&Task::levels>("levels"),
    column<&Task::max_attempts>("max_attempts"),
    column<&Task::ladder>("ladder"),
    column<&Task::ladder_pinned>("ladder_pinned"),
    column<&Task::epoch>("epoch"),
    column<&Task::node>("node"),
    column<&Task::finished_at>("finished_at"),
    column<&Task::finished_by>("finished_by", finished_by_value),
    column<&Task::last_error>("last_error", [](T t) { return clean(t.last_error, kErrorBytes); }),
    column<&Task::error_type>("error_type"),
    column<&Task::queue>("queue"),
    column<&Task::exchange>("exchange"),
    column<&Task::routing_key>("routing_key"),
    column<&Task::first_failed_at>("first_failed_at"),
    copy_number(),  // before `version`: an assignment sees what those on its left have changed
    counter<&Task::version>("version"),
    column<&Task::by_exchange>("by_exchange"),
    rare<&Task::rule>("rule"),
    rare<&Task::uncounted_attempts>("uncounted_attempts"),
    rare<&Task::uncounted_time>("uncounted_ms"),
    rare<&Task::moved_from>("moved_from"),
    rare<&Task::probe>("probe"),
    rare<&Task::replaced_by>("replaced_by"),
    rare<&Task::came_back>("came_back"),
    {"said_means", same_said, [](T t) { return Sql::of(t.said ? means(*t.said) : ""); },
     read_into<&Task::said>},
    {"said_ms", same_said, [](T t) { return Sql::of(t.said ? t.said->after : Ms{0}); },
     [](Fields&, Task&) {}},
    column<&Task::cause>("cause_id", [](T t) { return cause_sql(t.cause); }),
    // Those of a new task alone.
    column<&Task::kind>("kind", value_of<&Task::kind>, read_kind),
    column<&Task::tag>("tag"),
    column<&Task::message_id>("message_id"),
    column<&Task::created_at>("created_at"),
    column<&Task::body_bytes>("body_bytes"),
    column<&Task::silence>("silence_means",
                           [](T t) { return t.silence ? Sql::of(means(*t.silence)) : Sql::null(); }),
    column<&Task::silence>(
        "silence_ms", [](T t) { return t.silence ? Sql::of(t.silence->after) : Sql::null(); },
        [](Fields&, Task&) {}),
    rare<&Task::error_queue>("error_queue"),
    rare<&Task::rule_headers>("rule_headers", [](T t) { return rule_headers_sql(t.rule_headers); }),
    column<&Task::digest>("digest", [](T t) { return Sql::bytes(t.digest); }),
    column<&Task::parent>("parent_id"),
};
constexpr std::size_t kCause = 31;  // of a new task: NewRow::cause
static_assert(kTasks[kCause].name == "cause_id");
constexpr auto kTaskChanges = std::span(kTasks).first<kCause + 1>();

// The column with which the rare ones come: an array, or "" if none of them is used.
void read_rare(Task& task, const std::string& text) {
  if (text.empty()) return;
  const auto json = nlohmann::json::parse(text);
  task.rule = json.at(0).get<std::string>();
  task.uncounted_attempts = json.at(1).get<int>();
  task.uncounted_time = Ms{json.at(2).get<std::int64_t>()};
  task.moved_from = json.at(3).get<std::string>();
  task.probe = json.at(4).get<int>();
  if (json.at(5).is_string()) task.rule_headers = rule_headers_from(json.at(5).get<std::string>());
  task.error_queue = json.at(6).get<std::string>();
  task.replaced_by = {json.at(7).get<std::int64_t>()};
  task.came_back = json.at(8).get<std::uint32_t>();
}

// Identical changes of many rows share one UPDATE: parsing each row's text is most of a write's cost for the
// server. A set of columns: one bit for each of kTaskChanges, and kAlone if the row needs its own statement.
using Columns = std::uint64_t;
constexpr Columns kAlone = Columns{1} << 63U;

// Calls `f` for each of these columns.
template <typename F>
void for_each(Columns columns, F f) {
  for (std::size_t i = 0; i < std::size(kTaskChanges); ++i) {
    if ((columns >> i & 1U) != 0) f(kTaskChanges[i]);
  }
}

Sql assignment(std::string_view column, const Sql& value) {
  return render("same_change.column", {{"column", Sql::identifier(column)}, {"value", value}});
}

// The columns in which `after` differs from `before`.
Columns changed(const Task& before, const Task& after) {
  Columns columns = 0;
  for (std::size_t i = 0; i < std::size(kTaskChanges); ++i) {
    const TaskColumn& column = kTaskChanges[i];
    if (column.same(before, after)) continue;
    columns |= Columns{1} << i;
    if (column.counts != nullptr && !column.counts(before, after)) columns |= kAlone;
  }
  return columns;
}

// Whether `other` changes these columns in the same way.
bool same_change(Columns columns, const Task& after, const Task& other) {
  bool same = true;
  for_each(columns, [&](const TaskColumn& column) {
    same = same && (column.counts != nullptr || column.same(after, other));
  });
  return same;
}

// The change, as SQL for SET.
Sql change(Columns columns, const Task& after) {
  std::vector<Sql> set;
  for_each(columns, [&](const TaskColumn& column) {
    set.push_back(column.counts != nullptr
                      ? render(column.counted, {{"column", Sql::identifier(column.name)}})
                      : assignment(column.name, column.value(after)));
  });
  return Sql::of(set);
}

// write_tasks with these rows.
Sql write_tasks(Sql rows) {
  static const auto lists = [] {
    std::vector<Sql> names, updates;
    for (const TaskColumn& column : kTaskChanges) {
      names.push_back(Sql::identifier(column.name));
      updates.push_back(render("write_tasks.update", {{"column", names.back()}}));
    }
    return std::pair(Sql::of(names), Sql::of(updates));
  }();
  return render("write_tasks",
                {{"columns", lists.first}, {"rows", std::move(rows)}, {"updates", lists.second}});
}

// --- attempts

Sql error_of(const Attempt& a) { return clean(a.error, kErrorBytes); }

bool says_same(const Attempt& a, const Attempt& b) {
  return a.published_at == b.published_at && a.outcome == b.outcome && a.outcome_at == b.outcome_at &&
         a.error == b.error && a.executor == b.executor && a.rule == b.rule;
}

// It says nothing but what its first row has.
bool only_begins(const Attempt& a) {
  static const Attempt kNothing;
  return says_same(a, kNothing);
}

bool same_word(const Attempt& a, const Attempt& b) { return a.attempt == b.attempt && says_same(a, b); }

Sql word(const Attempt& a) {
  std::vector<Sql> set;
  if (a.published_at) set.push_back(assignment("published_at", Sql::of(a.published_at)));
  if (a.outcome != Outcome::pending) set.push_back(assignment("outcome", Sql::of(a.outcome)));
  if (a.outcome_at) set.push_back(assignment("outcome_at", Sql::of(a.outcome_at)));
  if (!a.error.empty()) set.push_back(assignment("error", error_of(a)));
  if (!a.executor.empty()) set.push_back(assignment("executor", name_sql(a.executor)));
  if (!a.rule.empty()) set.push_back(assignment("rule", name_sql(a.rule)));
  return Sql::of(set);
}

// --- rows with the same change

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
  if (!rows.empty()) session.later(statement(rows.done()));
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

constexpr std::size_t kChunkRows = 500;
// Packet space of a body's row besides its texts: the statement, lengths, and the server's own overhead.
constexpr std::int64_t kPacketMargin = 16 * 1024;
// Its short columns, at most: seven names of 255 bytes and some numbers.
constexpr std::size_t kMostOfNames = 2048;
// A chunk's bodies up to this size (and a quarter of a packet) go into the statement as digits, twice their
// size: cheaper than preparing a statement.
constexpr std::size_t kAsText = 512 * 1024;

using NewRows = std::span<const NewRow* const>;

// Only the columns in which one of these rows differs from the table's default.
void insert_tasks(Session& session, NewRows chunk) {
  static const Task kDefaults = [] {
    Task task;
    task.shard = -1;  // these two are always written
    task.created_at = EpochMs{-1};
    return task;
  }();
  const auto any = [&](auto is) { return std::ranges::any_of(chunk, is); };
  std::vector<Sql> names{Sql::identifier("id")};
  std::vector<std::size_t> columns;
  for (std::size_t column = 0; column < std::size(kTasks); ++column) {
    const bool differs = any([&](const NewRow* row) {
      return column == kCause ? !row->cause.empty() : !kTasks[column].same(row->task->task, kDefaults);
    });
    if (!differs) continue;
    columns.push_back(column);
    names.push_back(Sql::identifier(kTasks[column].name));
  }
  const bool keys = any([](const NewRow* row) { return !row->key.empty(); });
  const bool correlated = any([](const NewRow* row) { return is_correlated(*row->task->message); });
  if (keys) names.push_back(Sql::identifier("intake_key"));
  if (correlated) names.push_back(Sql::identifier("correlation_id"));
  Rows rows;
  for (const NewRow* row : chunk) {
    const Task& task = row->task->task;
    rows.row() << task.id;
    for (const std::size_t column : columns)
      rows << (column == kCause ? cause_sql(row->cause) : kTasks[column].value(task));
    if (keys) rows << (row->key.empty() ? Sql::null() : Sql::bytes(row->key));
    if (correlated) rows << correlation_id_sql(*row->task->message);
  }
  session.later(render("insert_tasks", {{"columns", names}, {"rows", rows.done()}}));
}

void insert_headers(Session& session, NewRows chunk) {
  const auto& names = session.options().index_headers;
  if (names.empty()) return;
  Rows rows;
  for (const NewRow* row : chunk) add_indexed_headers(rows, row->task->task.id, *row->task->message, names);
  if (!rows.empty()) session.later(render("insert_headers", {{"rows", rows.done()}}));
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

Sql name_sql(std::string_view text) { return clean(text, kNameBytes); }

// What is not text was changed by hand: left out.
RuleHeaders rule_headers_from(const std::string& text) {
  RuleHeaders out;
  if (text.empty()) return out;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return out;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) out.emplace(name, value.get<std::string>());
  }
  return out;
}

const Sql& task_columns() {
  static const Sql columns = [] {
    std::string names = "t.id";
    for (const TaskColumn& column : kTasks) {
      if (column.read != nullptr) names.append(",t.").append(column.name);
    }
    return render("task_columns", {{"columns", Sql::rendered(std::move(names))}});
  }();
  return columns;
}

Task task_from(Fields& row) {
  Task task;
  row >> task.id;
  for (const TaskColumn& column : kTasks) {
    if (column.read != nullptr) column.read(row, task);
  }
  read_rare(task, row.next<std::string>());
  return task;
}

StoredMessage message_at(const ::sql::ResultSet& row) {
  const TaskId id = id_at(row);
  auto message = std::make_shared<Message>();
  auto properties = properties_from_json(text_at(row, 2));
  if (!properties) return {id, nullptr, "properties: " + properties.error().message};
  message->properties = std::move(*properties);
  if (!row.isNull(3)) {
    auto headers = headers_from_json(text_at(row, 3));
    if (!headers) return {id, nullptr, "headers: " + headers.error().message};
    message->headers = std::move(*headers);
  }
  message->body = text_at(row, 4);
  return {id, std::move(message)};
}

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
  write_rows(*session_, mysql::write_tasks, apart, [](Rows& rows, const Task* task) {
    rows.row() << task->id;
    for (const TaskColumn& column : kTaskChanges) rows << column.value(*task);
  });
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
  write_rows(*session_, rows_of("write_attempts"), apart, [](Rows& rows, const Attempt* a) {
    rows.row() << a->task << a->attempt << a->level << a->due_at << a->published_at.value_or(EpochMs{})
               << a->outcome << a->outcome_at << error_of(*a) << a->node << name_sql(a->executor)
               << name_sql(a->rule) << a->epoch;
  });
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
  if (!rows.empty()) session_->exec(render("insert_headers", {{"rows", rows.done()}}));
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
  return session_->all(render("intake_keys", {{"keys", keys}}),
                       row_of(&SameKey::key, &SameKey::id, &SameKey::state, &SameKey::kind, &SameKey::attempt,
                              &SameKey::created_at));
}

std::int64_t MysqlStore::free_keys(std::span<const TaskId> ids, std::span<const TaskId> open) {
  const TaskId none[] = {{0}};  // a list must not be empty
  return session_->exec(render("intake_free_keys", {{"ids", ids}, {"open", open.empty() ? none : open}}));
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
