// /v1/tasks: lists, one task with its origin, history and audit; /v1/audit; what people change: POST /cancel,
// /discard, /reschedule, /fire, /finish, /redrive, of which decide() says whether the task's state allows it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>
#include <vector>

#include "src/api/queues/gates.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/views.h"
#include "src/core/machine/by_hand.h"

namespace rung::api {
namespace {

constexpr std::int64_t kMostAttempt = 1'000'000'000;

// The conditions, the order and the page.
Filter task_filter_of(const Query& query, FieldErrors& errors) {
  Filter filter = filter_of(query.all());
  const Page page = query.page();
  filter.limit = page.limit;
  filter.order = from_word<Filter::Order>(query.text("sort")).value_or(Filter::Order::newest);
  if (!page.cursor.empty() && !read_cursor(page.cursor, filter)) errors.push_back({"cursor", kWrongCursor});
  return filter;
}

std::optional<CountBy> count_by_of(const Query& query, FieldErrors& errors) {
  if (!query.has("by")) return std::nullopt;
  const auto by = CountBy::parse(query.text("by"));
  if (!by) errors.push_back({"by", "must be " + std::string(kCountByWords)});
  if (!query.flag("count")) errors.push_back({"by", "only valid with count=true"});
  return by;
}

AuditFilter audit_filter_of(const Query& query, FieldErrors& errors) {
  AuditFilter filter;
  const Page page = query.page();
  filter.limit = page.limit;
  if (!page.cursor.empty()) {
    filter.after = audit_place_of(page.cursor);
    if (!filter.after) errors.push_back({"cursor", "must be the `next` of the previous page"});
  }
  filter.queue = query.text("queue");
  filter.what = query.text("action");
  filter.who = query.text("who");
  if (const std::string bulk = query.text("bulk"); !bulk.empty()) {
    filter.bulk = id_of_cursor(bulk).value_or(0);
    if (filter.bulk == 0) errors.push_back({"bulk", "must be the id of a bulk"});
  }
  filter.since = query.time("since");
  filter.until = query.time("until");
  return filter;
}

event::Reschedule reschedule(Fields& fields) {
  event::Reschedule what;
  what.at = fields.time("at");
  what.delay = fields.duration("delay", Ms{0}).value_or(Ms{0});
  if (fields.has("at") == fields.has("delay"))
    fields.wrong("delay",
                 "say when, one of the two: \"delay\": \"30m\", or \"at\": \"2026-11-21T17:05:00Z\"");
  return what;
}

event::Finish finish(Fields& fields) {
  event::Finish what{};
  const std::string result = fields.text("result", 20).value_or("");
  what.succeeded = result == "succeeded";
  if (!what.succeeded && result != "failed") fields.wrong("result", "must be \"succeeded\" or \"failed\"");
  what.error = fields.text("error", kErrorBytes).value_or("");
  if (what.succeeded && !what.error.empty()) fields.wrong("error", "only valid with \"result\": \"failed\"");
  what.executor = fields.name("executor").value_or("");
  what.attempt = static_cast<int>(fields.integer("attempt", 1, kMostAttempt).value_or(0));
  what.even_reported = fields.flag("include_reported").value_or(false);
  if (what.succeeded && what.even_reported)
    fields.wrong("include_reported", "only valid with \"result\": \"failed\"");
  return what;
}

event::Redrive redrive(Fields& fields, const TargetRules& targets) {
  event::Redrive what{fields.target(targets)};
  what.even_reported = fields.flag("include_reported").value_or(false);
  what.even_replaced = fields.flag("include_replaced").value_or(false);
  return what;
}

Happening happening_of(Action action, Fields& fields, const RuleBook& rules) {
  switch (action) {
    case Action::cancel:
      return event::Cancel{};
    case Action::discard:
      return event::Discard{};
    case Action::fire:
      return event::Fire{};
    case Action::reschedule:
      return reschedule(fields);
    case Action::finish:
      return finish(fields);
    default:
      return redrive(fields, rules.targets());
  }
}

}  // namespace

Response list_tasks(Context& context, const Call& call) {
  FieldErrors errors;
  Filter filter = task_filter_of(call.query, errors);
  const auto by = count_by_of(call.query, errors);
  if (!errors.empty()) throw Problem(errors);
  if (call.query.flag("count")) {
    const auto count = [&](MysqlStore& store) {
      return count_tasks(store, filter, by, context.most_counted);
    };
    return answer(200, context.read_filtered(filter, count, by.has_value()));
  }
  const int limit = filter.limit++;
  const auto rows = context.read_filtered(filter, [&](MysqlStore& store) { return store.list(filter); });
  return answer(
      200, page_of(
               "tasks", rows, limit, [&](const TaskRow& row) { return cursor_of(row.task, filter.order); },
               [](const TaskRow& row) { return to_json(row); }));
}

// The task, and ladder_pinned, history, held, outcome_unknown (why its silence is held open), silence,
// children.
Response show_task(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  Json json;
  const auto row = context.reads.read([&](MysqlStore& store) {
    auto found = store.find(id);
    if (!found) return found;
    const Task& task = found->task;
    const auto history = store.history(id);
    json = to_json(*found);
    json["ladder_pinned"] = task.ladder_pinned;
    json["history"] = Json::array();
    for (const AttemptRow& attempt : history) json["history"].push_back(to_json(attempt));
    json["held"] = gate_json(holding_gate(store, task));
    const bool held = is_silence_held(task) && !history.empty();
    json["outcome_unknown"] = held ? Json(history.back().attempt.error) : Json();
    json["silence"] = to_json(silence_of(task, *context.rules()));
    json["children"] = Json::array();
    for (const TaskId child : children_of(store, task)) json["children"].push_back(child.str());
    return found;
  });
  if (!row) no_such_task(call);
  return answer(200, json, {{"ETag", etag(row->task)}});
}

// The headers that the message arrived with and that are not sent again. The earlier content of an edited
// message is only for those who may read messages.
Response show_origin(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  const auto known = context.reads.read([&](MysqlStore& store) { return store.known({&id, 1}); });
  if (known.empty()) no_such_task(call);
  const auto& [row, origin] = known.front();
  const bool whole = may(call.person, Action::body) && holds(call.person.queues, row.task.queue);
  Json json = Json::parse(whole ? origin : without_content(origin), nullptr, false);
  if (json.is_discarded()) json = Json();
  return answer(200, {{"retry_id", id.str()}, {"origin", std::move(json)}});
}

Response show_history(Context& context, const Call& call) {
  const TaskId id = find_task(context, call).task.id;
  const auto history = context.reads.read([&](MysqlStore& store) { return store.history(id); });
  return answer(200, page_by_id(
                         "attempts", history, call.query.page(),
                         [](const AttemptRow& row) { return row.attempt.attempt; },
                         [](const AttemptRow& row) { return to_json(row); }));
}

// The audit is shown even if the task itself has been deleted.
Response show_audit(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  const auto rows = context.reads.read([&](MysqlStore& store) { return store.audit(id); });
  if (rows.empty()) (void)find_task(context, call);
  return answer(200, page_by_id(
                         "audit", rows, call.query.page(), [](const AuditRow& row) { return row.id; },
                         [](const AuditRow& row) { return to_json(row); }));
}

Response list_audit(Context& context, const Call& call) {
  FieldErrors errors;
  const AuditFilter filter = audit_filter_of(call.query, errors);
  if (!errors.empty()) throw Problem(errors);
  return answer(200, to_json(context.read_filtered({.queue = filter.queue}, [&](MysqlStore& store) {
                  return store.audit_log(filter);
                })));
}

// RFC 9110, 13.1.1: a list of ETags, of which a weak one never matches, nor one that is none of ours.
Result<std::optional<std::uint32_t>> version_of(Context& context, const Call& call) {
  if (!call.request.if_match || *call.request.if_match == "*") return std::nullopt;
  std::vector<std::uint32_t> versions;
  for (const std::string& word : split_words(*call.request.if_match)) {
    std::string_view tag = word;
    tag.remove_prefix(std::min(tag.find_first_not_of(" \t"), tag.size()));
    tag = tag.substr(0, tag.find_last_not_of(" \t") + 1);
    const bool weak = tag.starts_with("W/");
    if (weak) tag.remove_prefix(2);
    if (tag.size() < 2 || tag.find('"') != 0 || tag.find('"', 1) != tag.size() - 1)
      return permanent("If-Match must be the ETag of an earlier response, in quotes: \"3\"");
    const auto version = number_from<std::uint32_t>(tag.substr(1, tag.size() - 2));
    if (!weak && version) versions.push_back(*version);
  }
  if (versions.size() == 1) return versions.front();
  const auto row = context.reads.result_of([&](MysqlStore& store) { return store.find(task_id_of(call)); });
  const bool known = row && *row && std::ranges::count(versions, (*row)->task.version) > 0;
  return known ? (*row)->task.version : UINT32_MAX;  // which no task has: 412
}

Response change_task(Context& context, const Call& call) {
  const TaskId id = task_id_of(call);
  const auto version = version_of(context, call);
  if (!version) throw Problem(400, version.error().message);
  Fields fields(*call.json);
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  const Happening what = happening_of(call.action, fields, *context.rules());
  fields.check();
  const auto* const sent = std::get_if<event::Redrive>(&what);
  if (sent != nullptr && sent->elsewhere.is_set()) refuse_target(call.person, sent->elsewhere);
  const auto decisions = context.writes.change({{id, what, call.by_hand(*version, reason)}});
  if (!decisions || decisions->empty()) {
    context.count(name_of(what), "failed");
    throw Problem(decisions ? Error{Error::Kind::transient, "no answer"} : decisions.error());
  }
  const Decision& decision = decisions->front();
  const bool refused = decision.verdict == Decision::Verdict::refused;
  const bool stale = decision.verdict == Decision::Verdict::stale;
  context.count(name_of(what), refused ? "refused" : stale ? "unchanged" : "applied");
  if (refused) throw refused_change(call, decision);
  return changed_task(context, decision.task,
                      stale ? Json{{"unchanged_because", decision.reason}} : Json::object());
}

}  // namespace rung::api
