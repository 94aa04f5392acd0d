#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "src/core/base/queue_pattern.h"
#include "src/core/base/utf8.h"
#include "src/core/message/message.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

// `list` with these conditions.
Sql list_of(const Sql& conditions) { return render("list", {{"columns", task_columns()}}) + conditions; }

// A row of it.
TaskRow task_row_at(const ::sql::ResultSet& row) {
  Fields fields(row);
  TaskRow out{task_from(fields), fields.next<std::string>()};
  out.correlation_id = fields.next<std::string>();
  return out;
}

// The columns of history.
AttemptRow attempt_row_at(const ::sql::ResultSet& row) {
  AttemptRow out;
  Attempt& a = out.attempt;
  Fields(row) >> a.task >> a.attempt >> a.level >> a.due_at >> a.published_at >> a.outcome >> a.outcome_at >>
      a.error >> a.node >> a.executor >> a.rule >> out.queue >> out.message_id >> out.node;
  return out;
}

// Only what is listed behind the task `f.after`.
Sql place_of(const Filter& f) {
  const Place id{"id", f.after}, column{"column", Sql::identifier("id")}, value{"value", f.after};
  if (f.order == Filter::Order::newest) return render("list.before", {column, value});
  if (f.order == Filter::Order::oldest) return render("list.after", {column, value});
  return f.after_due ? render("list.after_due", {id, {"due", f.after_due}})
                     : render("list.after_all_due", {id});
}

std::int64_t count_some(Session& session, const Sql& which, std::int64_t most) {
  return session.number(render("count_matching") + which + render("count_matching.end", {{"most", most}}));
}

// The expression of the value that tasks are counted by.
Sql value_of(const CountBy& by) {
  if (!by.header.empty()) return render("count_by.header", {{"name", by.header}});
  return Sql::identifier(by.field == "cause" ? "cause_id" : by.field);
}

constexpr auto audit_row_at =
    row_of(&AuditRow::id, &AuditRow::at, &AuditRow::who, &AuditRow::what, &AuditRow::task, &AuditRow::before,
           &AuditRow::after, &AuditRow::reason, &AuditRow::bulk);

// What the index serves.
Sql range_of(const AuditFilter& filter) {
  Sql sql = render("audit_log.bulk", {{"bulk", filter.bulk}});
  const Place at{"column", Sql::identifier("at")};
  if (filter.since) sql += render("list.from", {at, {"value", filter.since}});
  if (filter.until) sql += render("list.before", {at, {"value", filter.until}});
  if (filter.after) sql += render("audit_log.after", {{"at", filter.after->at}, {"id", filter.after->id}});
  return sql;
}

Sql selection_of(const AuditFilter& filter) {
  Sql sql;
  if (!filter.queue.empty()) sql += render("audit_log.queue", {{"queue", name_sql(filter.queue)}});
  if (!filter.what.empty()) sql += equals("what", name_sql(filter.what));
  if (!filter.who.empty()) sql += render("audit_log.who", {{"who", name_sql(filter.who)}});
  return sql;
}

// The last row that may be read; none: there are no more than that.
std::optional<AuditPlace> end_of_reading(Session& session, const AuditFilter& filter) {
  return session.first(render("audit_log_end") + range_of(filter) +
                           render("audit_log.end", {{"limit", 1}, {"skip", kMostAuditRead - 1}}),
                       row_of(&AuditPlace::at, &AuditPlace::id));
}

// A condition that leaves out those queues.
Sql all_but(std::span<const std::string> queues) {
  if (queues.empty()) return {};
  std::vector<std::string> names;
  for (const std::string& queue : queues) names.push_back(queue + '.');
  return render("due.without", {{"queues", names}});
}

// `entries`, sorted: the first `per_shard` of each shard.
std::vector<DueEntry> at_most(std::size_t per_shard, std::vector<DueEntry> entries) {
  std::map<int, std::size_t> seen;
  std::erase_if(entries, [&](const DueEntry& e) { return ++seen[e.shard] > per_shard; });
  return entries;
}

std::vector<DueEntry> due_entries(Session& session, const Sql& sql) {
  auto entries = session.all(sql, row_of(&DueEntry::id, &DueEntry::shard, &DueEntry::at, &DueEntry::queue));
  std::ranges::stable_sort(entries, {}, [](const DueEntry& e) { return std::pair(e.at, e.id); });
  return entries;
}

}  // namespace

// `f` as SQL conditions, for a statement in which rung_tasks is t.
Sql conditions(const Filter& f) {
  Sql sql;
  const auto text = [&](std::string_view column, const std::string& value) {
    if (!value.empty()) sql += same_text(column, value);
  };
  const auto time = [&](std::string_view name, std::string_view column, const std::optional<EpochMs>& at) {
    if (at) sql += render(name, {{"column", Sql::identifier(column)}, {"value", at}});
  };
  if (f.after) sql += place_of(f);
  if (!f.states.empty()) sql += render("list.states", {{"states", f.states}});
  if (f.kind) sql += equals("kind", to_word(*f.kind));
  text("queue", f.queue);
  text("exchange", f.exchange);
  text("tag", f.tag);
  text("message_id", f.message_id);
  text("correlation_id", f.correlation_id);
  for (const auto& [header, value] : f.headers) {
    sql += render("list.header", {{"name", header}, {"value", clean_utf8(value, kIndexedBytes)}});
  }
  text("ladder", f.ladder);
  text("error_type", f.error_type);
  if (!f.cause.empty()) sql += equals("cause_id", f.cause);
  if (!f.error_contains.empty()) sql += render("list.error", {{"text", f.error_contains}});
  time("list.before", "next_due_at", f.due_before);
  time("list.after", "next_due_at", f.due_after);
  time("list.before", "first_failed_at", f.first_failed_before);
  if (f.first_failed_before) time("list.after", "first_failed_at", EpochMs{});  // has failed
  time("list.after", "first_failed_at", f.first_failed_after);
  if (f.body_stored) sql += *f.body_stored ? render("list.body_stored") : equals("rule", "not_stored");
  if (f.silence_held) sql += render("list.silence_held");
  time("list.before", "created_at", f.created_before);
  time("list.after", "created_at", f.created_after);
  return sql;
}

EpochUs MysqlStore::clock() {
  // The text up to the seconds, then the fraction.
  const auto [text, us] = session_->rows<std::string, std::int64_t>(render("clock")).at(0);
  return EpochUs{parse_datetime(text.substr(0, 19)).ms * 1000 + us};
}

EpochMs MysqlStore::now() { return session_->now(); }

void MysqlStore::check_queue(const std::string& queue) {
  if (queue.empty() || QueuePattern(queue).only_name() == queue) return;
  if (count_some(*session_, same_text("queue", queue), 1) > 0) return;
  throw StoreError(
      {Error::Kind::permanent, "'" + queue +
                                   "' is a pattern, and no task has a queue of that name: name one queue. "
                                   "Patterns are for the config and for tokens"});
}

void MysqlStore::check(const Filter& filter) {
  const auto& indexed = session_->options().index_headers;
  for (const auto& [name, value] : filter.headers) {
    if (std::ranges::find(indexed, name) == indexed.end()) {
      throw StoreError({Error::Kind::permanent,
                        "the header '" + name +
                            "' is not indexed: add it to `index_headers` in the config; only messages "
                            "received after that can be found by it"});
    }
  }
  check_queue(filter.queue);
}

std::int64_t MysqlStore::count(const Filter& filter, std::int64_t most) {
  check(filter);
  return count_some(*session_, conditions(filter), most);
}

TaskCounts MysqlStore::count_by(const Filter& filter, const CountBy& by, std::int64_t most) {
  check(filter);
  if (!by.header.empty()) {
    Filter indexed;
    indexed.headers.emplace_back(by.header, "");
    check(indexed);
  }
  TaskCounts out;
  std::int64_t shown = 0;
  const Sql sql = render("count_by", {{"value", value_of(by)}}) + conditions(filter) +
                  render("count_by.end", {{"most", most}, {"groups", kMostGroups}});
  for (const auto& [value, tasks, total] : session_->rows<std::string, std::int64_t, std::int64_t>(sql)) {
    out.groups.push_back({value, tasks});
    out.total = total;
    shown += tasks;
  }
  out.others = out.total - shown;
  return out;
}

std::vector<TaskRow> MysqlStore::list(const Filter& filter) {
  check(filter);
  std::vector<TaskRow> out;
  const auto read = [&](const Filter& some, std::string_view end) {
    const auto left = std::max<std::int64_t>(0, some.limit - std::ssize(out));
    std::set<TaskId> there;  // a task that moved between the two statements is in both
    for (const TaskRow& task : out) there.insert(task.task.id);
    const Sql sql = list_of(conditions(some) + render(end, {{"limit", left}}));
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
}

std::optional<TaskRow> MysqlStore::find(TaskId id) {
  return session_->first(list_of(render("list.ids", {{"ids", id}})), task_row_at);
}

std::vector<TaskId> MysqlStore::children(const Task& task) {
  if (task.message_id.empty()) return {};
  return session_->all(render("children", {{"message_id", task.message_id},
                                           {"id", task.id},
                                           {"look", kMostLookedAt},
                                           {"limit", kMostChildren}}),
                       id_at);
}

std::vector<AttemptRow> MysqlStore::histories(std::span<const TaskId> ids) {
  if (ids.empty()) return {};
  return session_->all(render("history", {{"ids", ids}}), attempt_row_at);
}

std::vector<KnownTask> MysqlStore::known(std::span<const TaskId> ids) {
  if (ids.empty()) return {};
  std::map<TaskId, std::string> origins;
  const Place these{"ids", ids};
  for (auto& [id, origin] : session_->rows<TaskId, std::string>(render("origins", {these})))
    origins[id] = std::move(origin);
  return session_->all(list_of(render("list.ids", {these})), [&](const ::sql::ResultSet& task) {
    return KnownTask{task_row_at(task), std::move(origins[id_at(task)])};
  });
}

// --- the audit, events, settings, and what has changed lately

std::vector<AuditRow> MysqlStore::audit(TaskId id) {
  return session_->all(render("audit", {{"id", id}}), audit_row_at);
}

AuditPage MysqlStore::audit_log(const AuditFilter& filter) {
  check_queue(filter.queue);
  AuditPage page;
  const auto end = filter.selects() ? end_of_reading(*session_, filter) : std::nullopt;
  Sql sql = render("audit_log") + range_of(filter);
  if (end) sql += render("audit_log.down_to", {{"at", end->at}, {"id", end->id}});
  sql += selection_of(filter) + render("audit_log.end", {{"limit", filter.limit + 1}, {"skip", 0}});
  page.rows = session_->all(sql, [](const ::sql::ResultSet& row) {
    return AuditPage::Row{audit_row_at(row), text_at(row, 10)};
  });
  if (page.rows.size() <= static_cast<std::size_t>(filter.limit)) {
    page.next = end;
  } else {
    page.rows.pop_back();
    const AuditRow& last = page.rows.back().change;
    page.next = {last.at, last.id};
  }
  return page;
}

void write_event(Session& session, const SystemEvent& event, int node) {
  session.later(render("event_insert", {{"node", node},
                                        {"kind", event.kind},
                                        {"subject", clean_utf8(event.subject, 255)},
                                        {"detail", clean_utf8(event.detail, kErrorBytes)}}));
}

void MysqlStore::record_event(int node, const SystemEvent& event) {
  session_->transaction([&] { write_event(*session_, event, node); });
}

std::string MysqlStore::setting(std::string_view name, std::string_view if_absent) {
  if (!if_absent.empty()) session_->exec(render("setting_insert", {{"name", name}, {"value", if_absent}}));
  return session_->value<std::string>(render("setting", {{"name", name}}));
}

void MysqlStore::set_setting(std::string_view name, std::string_view value) {
  session_->exec(
      render(value.empty() ? "setting_delete" : "setting_update", {{"name", name}, {"value", value}}));
}

LiveAnswer MysqlStore::live(const LiveQuestion& question) {
  LiveAnswer out;
  Sql sql = render(
      "live",
      {{"audit", question.after_audit}, {"event", question.after_event}, {"most", LiveAnswer::kMost + 1}});
  if (!question.watched.empty()) sql += render("live.watched", {{"ids", question.watched}});
  for (const auto& [what, id, number, word] :
       session_->rows<std::string, std::int64_t, std::int64_t, std::string>(sql)) {
    if (what == "task") out.newest_task = id;
    if (what == "audit") out.newest_audit = id;
    if (what == "event") out.newest_event = id;
    if (what == "by_hand") out.changed_by_hand.push_back({number});
    if (what == "kind") out.event_kinds.push_back(word);
    if (what == "bulk") out.bulks[id] = number;
    if (what == "watched") out.versions[{id}] = static_cast<std::uint32_t>(number);
  }
  return out;
}

// --- the messages of tasks, and which tasks are due

std::vector<StoredMessage> MysqlStore::messages(std::span<const TaskId> ids) {
  if (ids.empty()) return {};
  return session_->all(render("messages", {{"ids", ids}}), message_at);
}

// Finds scheduled tasks in an index that a claim does not change, so claimed tasks have to be removed.
std::vector<DueEntry> MysqlStore::due(State state, std::span<const int> shards, std::optional<EpochMs> after,
                                      EpochMs until, int per_shard, std::span<const std::string> without) {
  if (shards.empty() || per_shard <= 0) return {};
  const auto most = static_cast<std::size_t>(per_shard);
  const Place until_then{"until", until}, from{"after", after ? Sql::of(*after) : Sql::before_all_times()};
  const auto publishing = [&] {
    return due_entries(*session_, render("publishing", {until_then, from, {"shards", shards}}));
  };
  if (state == State::publishing) return at_most(most, publishing());
  const Place stage{"stage", static_cast<int>(state)}, others{"without", all_but(without)};
  auto few = due_entries(
      *session_,
      render("due_few", {stage, {"shards", shards}, until_then, from, others, {"limit", most + 1}}));
  if (few.empty()) return few;  // mostly so: one statement
  std::unordered_set<TaskId> claimed;
  std::map<int, std::size_t> claimed_in;
  if (state == State::scheduled) {
    for (const DueEntry& row : publishing()) {
      claimed.insert(row.id);
      ++claimed_in[row.shard];
    }
  }
  const auto without_claimed = [&](std::vector<DueEntry> entries) {
    std::erase_if(entries, [&](const DueEntry& e) { return claimed.contains(e.id); });
    return entries;
  };
  if (few.size() <= most) return at_most(most, without_claimed(std::move(few)));
  // Many: each shard's limit is raised by the tasks claimed in that shard, not in all shards.
  std::vector<Sql> parts;
  for (const int shard : shards) {
    const std::size_t limit = most + claimed_in[shard];
    parts.push_back(
        render("due_shard", {stage, {"shard", shard}, until_then, from, others, {"limit", limit}}));
  }
  return at_most(most, without_claimed(due_entries(*session_, Sql::joined(parts, " UNION ALL "))));
}

WorkWaiting MysqlStore::work_waiting(std::span<const int> shards, EpochMs scheduled_until, EpochMs until) {
  if (shards.empty()) return {};
  return session_
      ->first(render("work_waiting",
                     {{"shards", shards}, {"scheduled_until", scheduled_until}, {"until", until}}),
              row_of(&WorkWaiting::scheduled, &WorkWaiting::awaiting, &WorkWaiting::parked,
                     &WorkWaiting::bulks, &WorkWaiting::cause_changes))
      .value_or(WorkWaiting{});
}

std::vector<DueEntry> MysqlStore::stranded(std::span<const Lease> leases, int limit) {
  if (leases.empty() || limit <= 0) return {};
  std::vector<Sql> any;
  for (const Lease& lease : leases)
    any.push_back(render("stranded.lease", {{"shard", lease.shard}, {"epoch", lease.epoch}}));
  return due_entries(*session_, render("stranded", {{"leases", Sql::joined(any, " OR ")}, {"limit", limit}}));
}

std::vector<TaskId> MysqlStore::short_claims(std::span<const Lease> leases) {
  std::vector<TaskId> ids;
  for (const Lease& lease : leases) {
    const auto found =
        session_->rows<TaskId>(render("short_claims", {{"shard", lease.shard}, {"epoch", lease.epoch}}));
    ids.insert(ids.end(), found.begin(), found.end());
  }
  return ids;
}

}  // namespace rung::mysql
