#include "src/store/mysql/columns.h"

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

std::string_view correlation_id(const NewTask& n) {
  const auto& id = n.message->properties.correlation_id;
  return id ? std::string_view(*id) : std::string_view();
}

}  // namespace

std::span<const NewTaskColumn> new_task_columns() {
  using N = const NewTask&;
  static constexpr NewTaskColumn kColumns[] = {
      {"id", nullptr, [](N n) { return Literal::number(n.task.id.value); }},
      {"shard", nullptr, [](N n) { return Literal::number(n.task.shard); }},
      {"state", [](N n) { return n.task.state != State::scheduled; },
       [](N n) { return Literal::text(to_word(n.task.state)); }},
      {"kind", [](N n) { return n.task.kind != Kind::retry; },
       [](N n) { return Literal::text(to_word(n.task.kind)); }},
      {"next_at", [](N n) { return n.task.next_at.has_value(); },
       [](N n) { return Literal::time(n.task.next_at); }},
      {"attempt", [](N n) { return n.task.attempt != 0; },
       [](N n) { return Literal::number(n.task.attempt); }},
      {"level", [](N n) { return n.task.level != 1; }, [](N n) { return Literal::number(n.task.level); }},
      {"levels", [](N n) { return n.task.levels != 0; }, [](N n) { return Literal::number(n.task.levels); }},
      {"max_attempts", [](N n) { return n.task.max_attempts != 0; },
       [](N n) { return Literal::number(n.task.max_attempts); }},
      {"ladder", [](N n) { return !n.task.ladder.empty(); }, [](N n) { return name(n.task.ladder); }},
      {"ladder_pinned", [](N n) { return n.task.ladder_pinned; },
       [](N n) { return Literal::number(n.task.ladder_pinned ? 1 : 0); }},
      {"epoch", [](N n) { return n.task.epoch != 0; }, [](N n) { return Literal::number(n.task.epoch); }},
      {"node", [](N n) { return n.task.node != 0; }, [](N n) { return Literal::number(n.task.node); }},
      {"queue", [](N n) { return !n.task.queue.empty(); }, [](N n) { return name(n.task.queue); }},
      {"exchange", [](N n) { return !n.task.exchange.empty(); }, [](N n) { return name(n.task.exchange); }},
      {"routing_key", [](N n) { return !n.task.routing_key.empty(); },
       [](N n) { return name(n.task.routing_key); }},
      {"tag", [](N n) { return !n.task.tag.empty(); }, [](N n) { return name(n.task.tag); }},
      {"message_id", [](N n) { return !n.task.message_id.empty(); },
       [](N n) { return name(n.task.message_id); }},
      {"correlation_id", [](N n) { return !correlation_id(n).empty(); },
       [](N n) { return correlation_id(n).empty() ? Literal::null() : name(correlation_id(n)); }},
      {"first_failed_at", [](N n) { return n.task.first_failed_at.ms > 0; },
       [](N n) { return Literal::time(n.task.first_failed_at); }},
      {"created_at", nullptr, [](N n) { return Literal::time(n.task.created_at); }},
      {"finished_at", [](N n) { return n.task.finished_at.has_value(); },
       [](N n) { return Literal::time(n.task.finished_at); }},
      {"finished_by", [](N n) { return n.task.finished_by != FinishedBy::nobody; },
       [](N n) { return finished_by(n.task.finished_by); }},
      {"last_error", [](N n) { return !n.task.last_error.empty(); },
       [](N n) { return clean(n.task.last_error, kErrorBytes); }},
      {"error_type", [](N n) { return !n.task.error_type.empty(); },
       [](N n) { return name(n.task.error_type); }},
      {"body_bytes", [](N n) { return n.task.body_bytes != 0; },
       [](N n) { return Literal::number(n.task.body_bytes); }},
      {"version", [](N n) { return n.task.version != 1; },
       [](N n) { return Literal::number(n.task.version); }},
      {"silence_means", [](N n) { return n.task.silence.has_value(); },
       [](N n) { return means(n.task.silence); }},
      {"silence_ms", [](N n) { return n.task.silence.has_value(); },
       [](N n) { return silence_ms(n.task.silence); }},
      {"by_exchange", [](N n) { return n.task.by_exchange; },
       [](N n) { return Literal::number(n.task.by_exchange ? 1 : 0); }},
      {"rule", [](N n) { return !n.task.rule.empty(); }, [](N n) { return name(n.task.rule); }},
      {"uncounted_attempts", [](N n) { return n.task.uncounted_attempts != 0; },
       [](N n) { return Literal::number(n.task.uncounted_attempts); }},
      {"uncounted_ms", [](N n) { return n.task.uncounted_time.count() != 0; },
       [](N n) { return Literal::number(n.task.uncounted_time.count()); }},
      {"moved_from", [](N n) { return !n.task.moved_from.empty(); },
       [](N n) { return name(n.task.moved_from); }},
      {"error_queue", [](N n) { return !n.task.error_queue.empty(); },
       [](N n) { return name(n.task.error_queue); }},
      {"rule_headers", [](N n) { return !n.task.rule_headers.empty(); },
       [](N n) { return rule_headers_literal(n.task.rule_headers); }},
      {"digest", [](N n) { return !n.task.digest.empty(); },
       [](N n) { return Literal::bytes(n.task.digest); }},
      {"parent_id", [](N n) { return n.task.parent.value != 0; },
       [](N n) { return Literal::number(n.task.parent.value); }},
      {"intake_key", [](N n) { return !n.intake_key.empty(); },
       [](N n) { return n.intake_key.empty() ? Literal::null() : Literal::bytes(n.intake_key); }},
  };
  return kColumns;
}

namespace {

// A column of write_tasks, in its order. `counts`: it follows from the row before, by the expression
// `counted`; a row in which it does not is written alone.
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

using T = const Task&;
constexpr TaskColumn kTaskChanges[] = {
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
    {"cause_id", equal<&Task::cause>,
     [](T t) { return t.cause.empty() ? Literal::null() : Literal::text(t.cause); }},
};

// A column of an attempt that may change after the attempt has begun.
struct AttemptColumn {
  std::string_view name;
  bool (*is_said)(const Attempt&);
  bool (*same)(const Attempt&, const Attempt&);
  Literal (*value)(const Attempt&);
};

using A = const Attempt&;
constexpr AttemptColumn kAttemptChanges[] = {
    {"published_at", [](A a) { return a.published_at.has_value(); },
     [](A a, A b) { return a.published_at == b.published_at; },
     [](A a) { return Literal::time(a.published_at); }},
    {"outcome", [](A a) { return a.outcome != Outcome::pending; },
     [](A a, A b) { return a.outcome == b.outcome; }, [](A a) { return Literal::text(to_word(a.outcome)); }},
    {"outcome_at", [](A a) { return a.outcome_at.has_value(); },
     [](A a, A b) { return a.outcome_at == b.outcome_at; }, [](A a) { return Literal::time(a.outcome_at); }},
    {"error", [](A a) { return !a.error.empty(); }, [](A a, A b) { return a.error == b.error; },
     [](A a) { return clean(a.error, kErrorBytes); }},
    {"executor", [](A a) { return !a.executor.empty(); }, [](A a, A b) { return a.executor == b.executor; },
     [](A a) { return name(a.executor); }},
    {"rule", [](A a) { return !a.rule.empty(); }, [](A a, A b) { return a.rule == b.rule; },
     [](A a) { return name(a.rule); }},
};

// Calls `f` for each column of the table that is among `columns`.
template <typename Table, typename F>
void for_each(const Table& table, Columns columns, F f) {
  for (std::size_t i = 0; i < std::size(table); ++i) {
    if ((columns >> i & 1U) != 0) f(table[i]);
  }
}

}  // namespace

void add_task(Rows& rows, const Task& t) {
  rows.row() << Literal::number(t.id.value);
  for (const TaskColumn& column : kTaskChanges) rows << column.value(t);
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
