#include "src/store/mysql/columns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/message/message.h"

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

}  // namespace

std::string text_at(const ::sql::ResultSet& row, std::uint32_t column) {
  return row.getString(column).asStdString();
}

std::optional<EpochMs> time_at(const ::sql::ResultSet& row, std::uint32_t column) {
  const auto text = row.getString(column);
  if (text.length() == 0) return std::nullopt;
  return parse_datetime(text.asStdString());
}

Sql rule_headers_sql(const RuleHeaders& headers) {
  if (headers.empty()) return Sql::null();
  const nlohmann::json json(headers);
  return Sql::of(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

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

Sql name_sql(std::string_view text) { return clean(text, kNameBytes); }

void add_indexed_headers(Rows& rows, TaskId id, const Message& message,
                         const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string value = indexed_value(message, name);
    if (!value.empty()) rows.row() << id << name << value;
  }
}

// --- the columns of rung_tasks

namespace {

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

bool is_correlated(const Message& message) {
  const auto& id = message.properties.correlation_id;
  return id && !id->empty();
}

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

}  // namespace

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

Sql correlation_id_sql(const Message& message) {
  return is_correlated(message) ? name_sql(*message.properties.correlation_id) : Sql::null();
}

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

void add_task(Rows& rows, const Task& t) {
  rows.row() << t.id;
  for (const TaskColumn& column : kTaskChanges) rows << column.value(t);
}

NewTaskColumns::NewTaskColumns(std::span<const NewRow* const> rows) {
  static const Task kDefaults = [] {
    Task task;
    task.shard = -1;  // these two are always written
    task.created_at = EpochMs{-1};
    return task;
  }();
  const auto any = [&](auto is) { return std::ranges::any_of(rows, is); };
  const auto name = [&](std::string_view column) { names_.push_back(Sql::identifier(column)); };
  name("id");
  for (std::size_t column = 0; column < std::size(kTasks); ++column) {
    const bool differs = any([&](const NewRow* row) {
      return column == kCause ? !row->cause.empty() : !kTasks[column].same(row->task->task, kDefaults);
    });
    if (!differs) continue;
    columns_.push_back(column);
    name(kTasks[column].name);
  }
  keys_ = any([](const NewRow* row) { return !row->key.empty(); });
  correlated_ = any([](const NewRow* row) { return is_correlated(*row->task->message); });
  if (keys_) name("intake_key");
  if (correlated_) name("correlation_id");
}

void NewTaskColumns::add(Rows& rows, const NewRow& row) const {
  const NewTask& n = *row.task;
  rows.row() << n.task.id;
  for (const std::size_t column : columns_)
    rows << (column == kCause ? cause_sql(row.cause) : kTasks[column].value(n.task));
  if (keys_) rows << (row.key.empty() ? Sql::null() : Sql::bytes(row.key));
  if (correlated_) rows << correlation_id_sql(*n.message);
}

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

bool same_change(Columns columns, const Task& after, const Task& other) {
  bool same = true;
  for_each(columns, [&](const TaskColumn& column) {
    same = same && (column.counts != nullptr || column.same(after, other));
  });
  return same;
}

Sql change(Columns columns, const Task& after) {
  std::vector<Sql> set;
  for_each(columns, [&](const TaskColumn& column) {
    set.push_back(column.counts != nullptr
                      ? render(column.counted, {{"column", Sql::identifier(column.name)}})
                      : assignment(column.name, column.value(after)));
  });
  return Sql::of(set);
}

// --- attempts

namespace {

Sql error_of(const Attempt& a) { return clean(a.error, kErrorBytes); }

bool says_same(const Attempt& a, const Attempt& b) {
  return a.published_at == b.published_at && a.outcome == b.outcome && a.outcome_at == b.outcome_at &&
         a.error == b.error && a.executor == b.executor && a.rule == b.rule;
}

}  // namespace

void add_attempt(Rows& rows, const Attempt& a) {
  rows.row() << a.task << a.attempt << a.level << a.due_at << a.published_at.value_or(EpochMs{}) << a.outcome
             << a.outcome_at << error_of(a) << a.node << name_sql(a.executor) << name_sql(a.rule) << a.epoch;
}

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

// --- messages

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

}  // namespace rung::mysql
