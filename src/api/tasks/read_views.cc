#include "src/api/tasks/read_views.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "src/api/json/reading.h"
#include "src/api/tasks/bulks.h"

namespace rung::api {
namespace {

// Ids that are numbers, written as text.
std::int64_t number_of(Reading& read, std::string_view name) {
  const std::string text = read.text(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && (error != std::errc{} || end != text.data() + text.size())) read.wrong(name);
  return number;
}

// A word that this program does not know is of a newer one.
State read_state(Reading& read) { return state_from(read.text("state")).value_or(State::unknown); }

// Text that as_json() made a value of.
std::string text_of(const Json& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.get<std::string>() : dump(value);
}

}  // namespace

Result<TaskRow> task_from_json(const Json& json) {
  Reading read(json, "task");
  TaskRow row;
  Task& t = row.task;
  t.id = read.id("retry_id");
  if (t.id.value == 0) read.wrong("retry_id");
  t.kind = read.word("kind", kind_from, Kind::retry);
  t.queue = read.text("queue");
  t.exchange = read.text("exchange");
  t.routing_key = read.text("routing_key");
  t.tag = read.text("tag");
  t.message_id = read.text("message_id");
  t.state = read_state(read);
  t.attempt = read.small_integer("attempt");
  t.level = read.small_integer("level");
  t.levels = read.small_integer("levels");
  t.ladder = read.text("ladder");
  t.next_at = read.time("next_due_at");
  t.first_failed_at = read.time("first_failed_at").value_or(EpochMs{});
  t.created_at = read.time("created_at").value_or(EpochMs{});
  t.finished_at = read.time("finished_at");
  t.finished_by = read.word("finished_by", finished_by_from, FinishedBy::nobody);
  t.last_error = read.text("last_error");
  t.body_bytes = read.integer("body_bytes");
  t.shard = read.small_integer("shard");
  row.node = read.text("node");
  t.version = static_cast<std::uint32_t>(read.integer("version", 0, UINT32_MAX));
  t.error_type = read.text("error_type");
  if (json.is_object() && json.contains("correlation_id")) row.correlation_id = read.text("correlation_id");
  t.rule = read.text("rule");
  t.uncounted_attempts = read.small_integer("uncounted_attempts");
  t.error_queue = read.text("error_queue");
  t.parent = read.id("parent_id");
  t.cause = read.text("cause_id");
  t.replaced_by = read.id("replaced_by");
  t.max_attempts = read.small_integer("max_attempts");
  t.silence = read.silence("success");
  t.by_exchange = read.flag("by_exchange");
  t.ladder_pinned = read.flag("ladder_pinned");
  return read.done(std::move(row));
}

Result<std::vector<TaskId>> children_from_json(const Json& task) {
  Reading read(task, "task");
  std::vector<TaskId> children;
  const auto items = items_of(read.part("children"));
  if (!items) return tl::unexpected(items.error());
  for (const Json* item : *items) {
    const auto id = item->is_string() ? TaskId::parse(item->get<std::string>()) : std::nullopt;
    if (!id) read.wrong("children");
    if (id) children.push_back(*id);
  }
  return read.done(std::move(children));
}

Result<AttemptRow> attempt_from_json(const Json& json) {
  Reading read(json, "attempt");
  AttemptRow row;
  Attempt& a = row.attempt;
  a.task = read.id("retry_id");
  row.queue = read.text("queue");
  row.message_id = read.text("message_id");
  a.attempt = read.small_integer("attempt");
  a.level = read.small_integer("level");
  a.due_at = read.time("due_at").value_or(EpochMs{});
  a.published_at = read.time("published_at");
  a.outcome = read.word("outcome", outcome_from, Outcome::pending);
  a.outcome_at = read.time("outcome_at");
  a.error = read.text("error");
  row.node = read.text("node");
  a.executor = read.text("executor");
  a.rule = read.text("rule");
  return read.done(std::move(row));
}

Result<AuditRow> audit_from_json(const Json& json) {
  Reading read(json, "change");
  AuditRow row;
  row.id = number_of(read, "audit_id");
  row.at = read.time("at").value_or(EpochMs{});
  row.who = read.text("who");
  row.what = read.text("what");
  row.task = read.id("retry_id");
  row.before = text_of(read.part("before"));
  row.after = text_of(read.part("after"));
  row.reason = read.text("reason");
  row.bulk = number_of(read, "bulk_id");
  return read.done(std::move(row));
}

Result<Bulk> bulk_from_json(const Json& json) {
  Reading read(json, "bulk");
  Bulk b;
  b.id = number_of(read, "id");
  if (b.id == 0) read.wrong("id");
  b.action = read.word("action", bulk_action_from, BulkAction::cancel);
  b.state = read.word("state", bulk_state_from, BulkState::running);
  if (const Json& filter = read.part("filter"); filter.is_object() && !filter.empty())
    b.filter_text = dump(filter);
  b.reason = read.text("reason");
  if (const Json& elsewhere = read.part("elsewhere"); !elsewhere.is_null()) {
    Reading target(elsewhere, "");
    b.elsewhere = {target.text("queue"), target.text("exchange"), target.text("routing_key")};
  }
  b.even_reported = read.flag("even_reported");
  b.rate = read.number("rate");
  b.total = read.integer("total");
  b.done = read.integer("done");
  b.applied = read.integer("applied");
  b.refused = read.integer("refused");
  b.care.canary = read.integer("canary");
  if (!read.part("watch_ms").is_null()) b.care.watch = read.duration("watch_ms");
  b.care.ramp = read.flag("ramp");
  if (const std::string share = read.text("stop_on_failures"); !share.empty()) {
    b.care.stop_above = parse_percent(share);
    if (!b.care.stop_above) read.wrong("stop_on_failures");
  }
  if (read.text("stage") == "all") b.canary_done = b.care.canary;
  b.stopped_because = read.text("stopped_because");
  b.who = read.text("who");
  b.runner = read.text("runner");
  b.created_at = read.time("created_at").value_or(EpochMs{});
  b.finished_at = read.time("finished_at");
  return read.done(std::move(b));
}

Result<std::optional<SentCounts>> outcomes_from_json(const Json& json) {
  Reading bulk(json, "bulk");
  const Json& part = bulk.part("outcomes");
  if (part.is_null()) return bulk.done(std::optional<SentCounts>());
  Reading read(part, "bulk.outcomes");
  SentCounts counts;
  counts.sent = read.integer("sent");
  counts.succeeded = read.integer("succeeded");
  counts.failed = read.integer("failed");
  counts.open = read.integer("open");
  counts.unsent = read.integer("not_yet_sent");
  return read.done(std::optional(counts));
}

Result<TaskCounts> counts_from_json(const Json& json) {
  Reading read(json, "count");
  TaskCounts counts;
  counts.total = read.integer("count");
  if (!read.part("count").is_number()) read.wrong("count");
  counts.others = read.integer("others");
  auto groups = read_list(read.part("groups"), [](const Json& one) -> Result<TaskCounts::Group> {
    Reading group(one, "group");
    TaskCounts::Group value{group.text("value"), group.integer("count")};
    return group.done(std::move(value));
  });
  if (!groups) return tl::unexpected(groups.error());
  counts.groups = *std::move(groups);
  return read.done(std::move(counts));
}

}  // namespace rung::api
