#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "src/core/base/queue_pattern.h"
#include "src/core/base/utf8.h"
#include "src/core/message/message.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

// `list` with these conditions.
std::string list_of(const std::string& conditions) {
  return render("list", {{"columns", task_columns()}}) + ' ' + conditions;
}

// A row of it.
TaskRow task_row_at(const ::sql::ResultSet& row) {
  return {task_at(row), text_at(row, kTaskColumns + 1), text_at(row, kTaskColumns + 2)};
}

// Only what is listed behind the task `f.after`.
std::string place_of(const Filter& f) {
  const Literal number = Literal::number(f.after->value);
  if (f.order != Filter::Order::due)
    return render(f.order == Filter::Order::newest ? "list.before" : "list.after",
                  {{"column", Literal::identifier("id")}, {"value", number}});
  const Place id{"id", number};
  return f.after_due ? render("list.after_due", {id, {"due", Literal::time(*f.after_due)}})
                     : render("list.after_all_due", {id});
}

// The expression of the value that tasks are counted by.
Literal value_of(const CountBy& by) {
  if (!by.header.empty())
    return Literal::rendered(render("count_by.header", {{"name", Literal::text(by.header)}}));
  const auto column = by.field == "cause" ? "cause_id" : by.field;
  return Literal::rendered(render("count_by.column", {{"column", Literal::identifier(column)}}));
}

}  // namespace

// `f` as SQL conditions, for a statement in which rung_tasks is t.
std::string conditions(const Filter& f) {
  std::string sql;
  const auto also = [&](std::string_view name, Place place) {
    sql += ' ' + render(name, {std::move(place)});
  };
  const auto is = [&](std::string_view column, std::string_view word) {
    sql += ' ' + render("list.is", {{"column", Literal::identifier(column)}, {"value", Literal::text(word)}});
  };
  const auto text = [&](std::string_view column, const std::string& value) {
    if (value.empty()) return;
    sql +=
        ' ' + render("list.text", {{"column", Literal::identifier(column)}, {"value", Literal::text(value)}});
  };
  const auto time = [&](std::string_view name, std::string_view column, const std::optional<EpochMs>& at) {
    if (at)
      sql += ' ' + render(name, {{"column", Literal::identifier(column)}, {"value", Literal::time(at)}});
  };
  if (f.after) sql += ' ' + place_of(f);
  if (f.state) is("state", to_word(*f.state));
  if (!f.states.empty())
    also("list.states", {"states", Literal::texts(f.states, [](State s) { return to_word(s); })});
  if (f.kind) is("kind", to_word(*f.kind));
  text("queue", f.queue);
  text("exchange", f.exchange);
  text("tag", f.tag);
  text("message_id", f.message_id);
  text("correlation_id", f.correlation_id);
  for (const auto& [header, value] : f.headers) {
    sql += ' ' + render("list.header", {{"name", Literal::text(header)},
                                        {"value", Literal::text(clean_utf8(value, kIndexedBytes))}});
  }
  text("ladder", f.ladder);
  text("error_type", f.error_type);
  if (!f.cause.empty()) is("cause_id", f.cause);
  if (!f.error_contains.empty()) also("list.error", {"text", Literal::text(f.error_contains)});
  time("list.before", "next_due_at", f.due_before);
  time("list.after", "next_due_at", f.due_after);
  time("list.before", "first_failed_at", f.first_failed_before);
  if (f.first_failed_before) time("list.after", "first_failed_at", EpochMs{});  // has failed
  time("list.after", "first_failed_at", f.first_failed_after);
  if (f.body_stored) sql += ' ' + render(*f.body_stored ? "list.body_stored" : "list.not_stored");
  if (f.silence_held) sql += ' ' + render("list.silence_held");
  time("list.before", "created_at", f.created_before);
  time("list.after", "created_at", f.created_after);
  return sql;
}

Result<EpochUs> MysqlStore::clock() {
  return session_->run_for([&] {
    auto row = session_->query(render("clock"));
    if (!row->next()) throw Again{"the database returned no time"};
    // The text up to the seconds, then the fraction.
    const std::string text = text_at(*row, 1);
    return EpochUs{parse_datetime(text.substr(0, 19)).ms * 1000 + row->getInt64(2)};
  });
}

Result<EpochMs> MysqlStore::now() {
  return session_->run_for([&] { return session_->now(); });
}

Result<void> MysqlStore::check_queue(const std::string& queue) {
  if (queue.empty() || QueuePattern(queue).only_name() == queue) return {};
  const auto tasks = count_checked({.queue = queue}, 1);
  if (!tasks) return tl::unexpected(tasks.error());
  if (*tasks > 0) return {};
  return permanent("'" + queue +
                   "' is a pattern, and no task has a queue of that name: name one queue. Patterns are for "
                   "the config and for tokens");
}

Result<void> MysqlStore::check(const Filter& filter) {
  const auto& indexed = session_->options().index_headers;
  for (const auto& [name, value] : filter.headers) {
    if (std::ranges::find(indexed, name) == indexed.end()) {
      return permanent("the header '" + name +
                       "' is not indexed: add it to `index_headers` in the config; only messages received "
                       "after that can be found by it");
    }
  }
  return check_queue(filter.queue);
}

Result<std::int64_t> MysqlStore::count(const Filter& filter, std::int64_t most) {
  if (auto good = check(filter); !good) return tl::unexpected(good.error());
  return count_checked(filter, most);
}

Result<std::int64_t> MysqlStore::count_checked(const Filter& filter, std::int64_t most) {
  return session_->run_for([&] {
    auto row = session_->query(render("count_matching") + conditions(filter) + ' ' +
                               render("count_matching.end", {{"most", Literal::number(most)}}));
    return row->next() ? row->getInt64(1) : std::int64_t{0};
  });
}

Result<TaskCounts> MysqlStore::count_by(const Filter& filter, const CountBy& by, std::int64_t most) {
  if (auto good = check(filter); !good) return tl::unexpected(good.error());
  if (!by.header.empty()) {
    Filter indexed;
    indexed.headers.emplace_back(by.header, "");
    if (auto good = check(indexed); !good) return tl::unexpected(good.error());
  }
  return session_->run_for([&] {
    TaskCounts out;
    std::int64_t shown = 0;
    auto row = session_->query(
        render("count_by", {{"value", value_of(by)}}) + conditions(filter) + ' ' +
        render("count_by.end", {{"most", Literal::number(most)}, {"groups", Literal::number(kMostGroups)}}));
    while (row->next()) {
      out.groups.push_back({text_at(*row, 1), row->getInt64(2)});
      out.total = row->getInt64(3);
      shown += out.groups.back().tasks;
    }
    out.others = out.total - shown;
    return out;
  });
}

Result<std::vector<TaskRow>> MysqlStore::list(const Filter& filter) {
  if (auto good = check(filter); !good) return tl::unexpected(good.error());
  return session_->run_for([&] {
    std::vector<TaskRow> out;
    const auto read = [&](const Filter& some, std::string_view end) {
      const auto left = std::max<std::int64_t>(0, some.limit - std::ssize(out));
      std::set<TaskId> there;  // a task that moved between the two statements is in both
      for (const TaskRow& task : out) there.insert(task.task.id);
      const std::string sql =
          list_of(conditions(some) + ' ' + render(end, {{"limit", Literal::number(left)}}));
      for (TaskRow& task : session_->all(sql, task_row_at)) {
        if (!there.contains(task.task.id)) out.push_back(std::move(task));
      }
    };
    if (filter.order != Filter::Order::due) {
      read(filter, filter.order == Filter::Order::oldest ? "list.end_oldest" : "list.end");
      return out;
    }
    Filter rest = filter;
    if (!filter.after || filter.after_due) {
      read(filter, "list.end_due");
      rest.after.reset();
    }
    const bool all_due = filter.due_before || filter.due_after;
    if (std::ssize(out) < filter.limit && !all_due) read(rest, "list.end_not_due");
    return out;
  });
}

Result<std::optional<TaskRow>> MysqlStore::find(TaskId id) {
  return session_->run_for([&] {
    return session_->first(list_of(render("list.ids", {{"ids", Literal::ids({&id, 1})}})), task_row_at);
  });
}

Result<std::vector<TaskId>> MysqlStore::children(const Task& task) {
  if (task.message_id.empty()) return std::vector<TaskId>{};
  return session_->read_all(render("children", {{"message_id", Literal::text(task.message_id)},
                                                {"id", Literal::number(task.id.value)},
                                                {"look", Literal::number(kMostLookedAt)},
                                                {"limit", Literal::number(kMostChildren)}}),
                            id_at);
}

Result<std::vector<AttemptRow>> MysqlStore::histories(std::span<const TaskId> ids) {
  if (ids.empty()) return std::vector<AttemptRow>{};
  return session_->read_all(render("history", {{"ids", Literal::ids(ids)}}), [](const ::sql::ResultSet& row) {
    return AttemptRow{attempt_at(row), text_at(row, 12), text_at(row, 13), text_at(row, 14)};
  });
}

Result<std::string> MysqlStore::origin(TaskId id) {
  return session_->run_for([&] {
    auto row = session_->query(render("origins", {{"ids", Literal::ids({&id, 1})}}));
    if (!row->next()) throw Abort{{Error::Kind::not_found, "no task " + id.str()}};
    return text_at(*row, 2);
  });
}

Result<std::vector<KnownTask>> MysqlStore::known(std::span<const TaskId> ids) {
  if (ids.empty()) return std::vector<KnownTask>{};
  return session_->run_for([&] {
    std::map<TaskId, std::string> origins;
    const Place these{"ids", Literal::ids(ids)};
    auto row = session_->query(render("origins", {these}));
    while (row->next()) origins[id_at(*row)] = text_at(*row, 2);
    return session_->all(list_of(render("list.ids", {these})), [&](const ::sql::ResultSet& task) {
      return KnownTask{task_row_at(task), std::move(origins[id_at(task)])};
    });
  });
}

}  // namespace rung::mysql
