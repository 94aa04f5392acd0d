#include "src/store/mysql/columns.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/base/utf8.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kNameBytes = 255;  // VARCHAR(255) holds at least these

// Callers clean what they write. This catches omissions, so that a column never rejects a whole batch.
Literal clean(std::string_view text, std::size_t most) {
  if (text.size() <= most && is_utf8(text)) return Literal::text(text);
  return Literal::text(clean_utf8(text, most));
}
Literal name(std::string_view text) { return clean(text, kNameBytes); }

Literal means(const std::optional<Silence>& silence) {
  if (!silence) return Literal::null();
  return Literal::text(silence->means == Silence::Means::success ? kSilenceSuccess : kSilenceFailure);
}
Literal silence_ms(const std::optional<Silence>& silence) {
  return silence ? Literal::number(silence->after.count()) : Literal::null();
}

Literal finished_by(FinishedBy by) {
  return by == FinishedBy::nobody ? Literal::null() : Literal::text(to_word(by));
}

}  // namespace

Literal rule_headers_literal(const RuleHeaders& headers) {
  if (headers.empty()) return Literal::null();
  const nlohmann::json json(headers);
  return Literal::text(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void add_indexed_headers(Rows& rows, TaskId id, const Message& message,
                         const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string value = indexed_value(message, name);
    if (!value.empty())
      rows.row() << Literal::number(id.value) << Literal::text(name) << Literal::text(value);
  }
}

namespace {

// A column of rung_tasks. `counts`: it follows from the row before, by the expression `counted`; a row in
// which it does not is written alone.
struct TaskColumn {
  std::string_view name;
  bool (*same)(const Task&, const Task&);
  Literal (*value)(const Task&);
  bool (*counts)(const Task& before, const Task& after) = nullptr;
  std::string_view counted = "same_change.counts";
};

template <auto Member>
bool equal(const Task& a, const Task& b) {
  return a.*Member == b.*Member;
}

template <auto Member>
bool one_more(const Task& before, const Task& after) {
  return after.*Member == before.*Member + 1;
}

bool is_next_version(const Task& before, const Task& after) {
  return after.copy_number == before.version + 1;
}

// Each confirm writes it: confirms of first and of later attempts are the same change.
bool same_said(const Task& before, const Task& after) {
  return before.said == after.said && (before.state == after.state || after.state != State::awaiting);
}

using T = const Task&;
constexpr TaskColumn kTasks[] = {
    // Those of write_tasks, in its order.
    {"shard", equal<&Task::shard>, [](T t) { return Literal::number(t.shard); }},
    {"state", equal<&Task::state>, [](T t) { return Literal::text(to_word(t.state)); }},
    {"next_at", equal<&Task::next_at>, [](T t) { return Literal::time(t.next_at); }},
    {"attempt", equal<&Task::attempt>, [](T t) { return Literal::number(t.attempt); },
     one_more<&Task::attempt>},
    {"level", equal<&Task::level>, [](T t) { return Literal::number(t.level); }},
    {"levels", equal<&Task::levels>, [](T t) { return Literal::number(t.levels); }},
    {"max_attempts", equal<&Task::max_attempts>, [](T t) { return Literal::number(t.max_attempts); }},
    {"ladder", equal<&Task::ladder>, [](T t) { return name(t.ladder); }},
    {"ladder_pinned", equal<&Task::ladder_pinned>,
     [](T t) { return Literal::number(t.ladder_pinned ? 1 : 0); }},
    {"epoch", equal<&Task::epoch>, [](T t) { return Literal::number(t.epoch); }},
    {"node", equal<&Task::node>, [](T t) { return Literal::number(t.node); }},
    {"finished_at", equal<&Task::finished_at>, [](T t) { return Literal::time(t.finished_at); }},
    {"finished_by", equal<&Task::finished_by>, [](T t) { return finished_by(t.finished_by); }},
    {"last_error", equal<&Task::last_error>, [](T t) { return clean(t.last_error, kErrorBytes); }},
    {"error_type", equal<&Task::error_type>, [](T t) { return name(t.error_type); }},
    {"queue", equal<&Task::queue>, [](T t) { return name(t.queue); }},
    {"exchange", equal<&Task::exchange>, [](T t) { return name(t.exchange); }},
    {"routing_key", equal<&Task::routing_key>, [](T t) { return name(t.routing_key); }},
    {"first_failed_at", equal<&Task::first_failed_at>, [](T t) { return Literal::time(t.first_failed_at); }},
    // Before `version`: an assignment sees what those on its left have changed.
    {"copy_number", equal<&Task::copy_number>, [](T t) { return Literal::number(t.copy_number); },
     is_next_version, "same_change.next_version"},
    {"version", equal<&Task::version>, [](T t) { return Literal::number(t.version); },
     one_more<&Task::version>},
    {"by_exchange", equal<&Task::by_exchange>, [](T t) { return Literal::number(t.by_exchange ? 1 : 0); }},
    {"rule", equal<&Task::rule>, [](T t) { return name(t.rule); }},
    {"uncounted_attempts", equal<&Task::uncounted_attempts>,
     [](T t) { return Literal::number(t.uncounted_attempts); }},
    {"uncounted_ms", equal<&Task::uncounted_time>,
     [](T t) { return Literal::number(t.uncounted_time.count()); }},
    {"moved_from", equal<&Task::moved_from>, [](T t) { return name(t.moved_from); }},
    {"probe", equal<&Task::probe>, [](T t) { return Literal::number(t.probe); }},
    {"replaced_by", equal<&Task::replaced_by>, [](T t) { return Literal::number(t.replaced_by.value); }},
    {"came_back", equal<&Task::came_back>, [](T t) { return Literal::number(t.came_back); }},
    {"said_means", same_said, [](T t) { return t.said ? means(t.said) : Literal::text(""); }},
    {"said_ms", same_said, [](T t) { return Literal::number(t.said ? t.said->after.count() : 0); }},
    {"cause_id", equal<&Task::cause>,
     [](T t) { return t.cause.empty() ? Literal::null() : Literal::text(t.cause); }},
    // Those of insert_tasks alone.
    {"kind", equal<&Task::kind>, [](T t) { return Literal::text(to_word(t.kind)); }},
    {"tag", equal<&Task::tag>, [](T t) { return name(t.tag); }},
    {"message_id", equal<&Task::message_id>, [](T t) { return name(t.message_id); }},
    {"created_at", equal<&Task::created_at>, [](T t) { return Literal::time(t.created_at); }},
    {"body_bytes", equal<&Task::body_bytes>, [](T t) { return Literal::number(t.body_bytes); }},
    {"silence_means", equal<&Task::silence>, [](T t) { return means(t.silence); }},
    {"silence_ms", equal<&Task::silence>, [](T t) { return silence_ms(t.silence); }},
    {"error_queue", equal<&Task::error_queue>, [](T t) { return name(t.error_queue); }},
    {"rule_headers", equal<&Task::rule_headers>, [](T t) { return rule_headers_literal(t.rule_headers); }},
    {"digest", equal<&Task::digest>, [](T t) { return Literal::bytes(t.digest); }},
    {"parent_id", equal<&Task::parent>, [](T t) { return Literal::number(t.parent.value); }},
};
constexpr std::size_t kCause = 31;  // inserted apart: IntakeRows::insert() is told
static_assert(kTasks[kCause].name == "cause_id");
constexpr auto kTaskChanges = std::span(kTasks).first<kCause + 1>();

bool is_correlated(const Message& message) {
  const auto& id = message.properties.correlation_id;
  return id && !id->empty();
}

// A column of an attempt that may change after the attempt has begun.
struct AttemptColumn {
  std::string_view name;
  bool (*is_said)(const Attempt&);
  bool (*same)(const Attempt&, const Attempt&);
  Literal (*value)(const Attempt&);
};

using A = const Attempt&;
template <auto Member>
constexpr AttemptColumn column_of(std::string_view name, Literal (*value)(A)) {
  return {name, [](A a) { return a.*Member != Attempt{}.*Member; },
          [](A a, A b) { return a.*Member == b.*Member; }, value};
}
constexpr AttemptColumn kAttemptChanges[] = {
    column_of<&Attempt::published_at>("published_at", [](A a) { return Literal::time(a.published_at); }),
    column_of<&Attempt::outcome>("outcome", [](A a) { return Literal::text(to_word(a.outcome)); }),
    column_of<&Attempt::outcome_at>("outcome_at", [](A a) { return Literal::time(a.outcome_at); }),
    column_of<&Attempt::error>("error", [](A a) { return clean(a.error, kErrorBytes); }),
    column_of<&Attempt::executor>("executor", [](A a) { return name(a.executor); }),
    column_of<&Attempt::rule>("rule", [](A a) { return name(a.rule); }),
};

// Calls `f` for each column of the table that is among `columns`.
template <typename Table, typename F>
void for_each(const Table& table, Columns columns, F f) {
  for (std::size_t i = 0; i < std::size(table); ++i) {
    if ((columns >> i & 1U) != 0) f(table[i]);
  }
}

}  // namespace

Literal name_literal(std::string_view text) { return name(text); }

Literal correlation_id_literal(const Message& message) {
  return is_correlated(message) ? name(*message.properties.correlation_id) : Literal::null();
}

void add_task(Rows& rows, const Task& t) {
  rows.row() << Literal::number(t.id.value);
  for (const TaskColumn& column : kTaskChanges) rows << column.value(t);
}

NewTaskColumns::NewTaskColumns(std::span<const NewTask> tasks, std::span<const std::size_t> some) {
  static const Task kDefaults = [] {
    Task task;
    task.shard = -1;  // these two are always written
    task.created_at = EpochMs{-1};
    return task;
  }();
  const auto any = [&](auto is) { return std::ranges::any_of(some, [&](auto i) { return is(tasks[i]); }); };
  names_ = "id";
  for (std::size_t column = 0; column < std::size(kTasks); ++column) {
    if (column == kCause || !any([&](const NewTask& n) { return !kTasks[column].same(n.task, kDefaults); }))
      continue;
    columns_.push_back(column);
    names_.append(",").append(kTasks[column].name);
  }
  keys_ = any([](const NewTask& n) { return !n.intake_key.empty(); });
  correlated_ = any([](const NewTask& n) { return is_correlated(*n.message); });
  if (keys_) names_ += ",intake_key";
  if (correlated_) names_ += ",correlation_id";
}

void NewTaskColumns::add(Rows& rows, const NewTask& n) const {
  rows.row() << Literal::number(n.task.id.value);
  for (const std::size_t column : columns_) rows << kTasks[column].value(n.task);
  if (keys_) rows << (n.intake_key.empty() ? Literal::null() : Literal::bytes(n.intake_key));
  if (correlated_) rows << correlation_id_literal(*n.message);
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
  for_each(kTaskChanges, columns, [&](const TaskColumn& column) {
    same = same && (column.counts != nullptr || column.same(after, other));
  });
  return same;
}

Literal change(Columns columns, const Task& after) {
  std::vector<Literal> set;
  for_each(kTaskChanges, columns, [&](const TaskColumn& column) {
    const Literal name = Literal::identifier(column.name);
    set.push_back(Literal::rendered(
        column.counts != nullptr
            ? render(column.counted, {{"column", name}})
            : render("same_change.column", {{"column", name}, {"value", column.value(after)}})));
  });
  return Literal::list(set);
}

void add_attempt(Rows& rows, const Attempt& a) {
  rows.row() << Literal::number(a.task.value) << Literal::number(a.attempt) << Literal::number(a.level)
             << Literal::time(a.due_at) << Literal::time(a.published_at.value_or(EpochMs{}))
             << Literal::text(to_word(a.outcome)) << Literal::time(a.outcome_at)
             << clean(a.error, kErrorBytes) << Literal::number(a.node) << name(a.executor) << name(a.rule)
             << Literal::number(a.epoch);
}

Columns said(const Attempt& attempt) {
  Columns columns = 0;
  for (std::size_t i = 0; i < std::size(kAttemptChanges); ++i) {
    if (kAttemptChanges[i].is_said(attempt)) columns |= Columns{1} << i;
  }
  return columns;
}

bool same_word(Columns columns, const Attempt& a, const Attempt& b) {
  bool same = a.attempt == b.attempt;
  for_each(kAttemptChanges, columns, [&](const AttemptColumn& column) { same = same && column.same(a, b); });
  return same;
}

Literal word(Columns columns, const Attempt& attempt) {
  std::vector<Literal> set;
  for_each(kAttemptChanges, columns, [&](const AttemptColumn& column) {
    set.push_back(
        Literal::rendered(render("same_change.column", {{"column", Literal::identifier(column.name)},
                                                        {"value", column.value(attempt)}})));
  });
  return Literal::list(set);
}

}  // namespace rung::mysql
