// /v1/tasks: lists, one task with its origin, history and audit; /v1/audit; what people change: POST /cancel,
// /discard, /reschedule, /fire, /finish, /redrive, of which decide() says whether the task's state allows it.
// /v1/causes: what fails, why, and what people have said about it.
#include "src/api/tasks/tasks.h"

#include <re2/re2.h>

#include "levels/duration.h"
#include "src/api/queues/queues.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/by_hand.h"

namespace rung::api {

namespace {

using Text = std::string Filter::*;
using Time = std::optional<EpochMs> Filter::*;

// REQUIRES: the value is a valid one.
void set(Filter& filter, const Condition& condition, const std::string& name, const std::string& value) {
  if (const auto* text = std::get_if<Text>(&condition.member)) {
    filter.** text = value;
  } else if (const auto* time = std::get_if<Time>(&condition.member)) {
    filter.** time = from_rfc3339(written_time(value));
  } else if (name == "state") {
    for (const std::string& word : split_words(value)) filter.states.push_back(*from_word<State>(word));
  } else if (name == "kind") {
    filter.kind = from_word<Kind>(value);
  } else if (name == "outcome_unknown") {
    filter.silence_held = true;
  } else {
    filter.headers.emplace_back(name.substr(kHeaderParam.size()), value);
  }
}

std::string written_states(const Filter& f) {
  std::string states;
  for (const State state : f.states) states.append(states.empty() ? "" : ",").append(to_word(state));
  return states;
}

// Text that should be JSON; returned as a string if it is not.
Json as_json(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? text_or_null(text) : json;
}

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

constexpr std::int64_t kCountedByHeader = 10'000;  // tasks
constexpr std::string_view kCauseStates = "must be new, known, working, ignored, resolved or regressed";

[[noreturn]] void no_such_cause(const Call& call) { throw Problem(404, "no such cause: " + call.id); }

CauseFilter cause_filter_of(const Query& query) {
  CauseFilter filter;
  const Page page = query.page();
  filter.limit = page.limit;
  filter.offset = id_of_cursor(page.cursor).value_or(0);
  filter.with_tasks = query.flag("with_tasks");
  filter.since = query.time("since");
  filter.queue = query.text("queue");
  for (const std::string& word : query.words("state")) filter.states.push_back(*from_word<CauseState>(word));
  return filter;
}

CauseRow find_cause(MysqlStore& store, const Call& call) {
  if (!is_cause_id(call.id)) no_such_cause(call);
  auto rows = store.causes({.id = call.id});
  if (rows.empty()) no_such_cause(call);
  return std::move(rows.front());
}

// With the names of the columns of retry_causes.
Json to_json(const CauseRow& cause) {
  return {{"cause_id", cause.id},
          {"queue", text_or_null(cause.queue)},
          {"error_type", text_or_null(cause.error_type)},
          {"sample", text_or_null(cause.sample)},
          {"first_seen", to_rfc3339(cause.first_seen)},
          {"last_seen", to_rfc3339(cause.last_seen)},
          {"scheduled", cause.scheduled},
          {"parked", cause.parked},
          {"succeeded", cause.succeeded},
          {"total", cause.total},
          {"last_hour", cause.last_hour},
          {"trend", cause.trend},
          {"state", to_word(cause.state)},
          {"owner", text_or_null(cause.owner)},
          {"note", text_or_null(cause.note)},
          {"link", text_or_null(cause.link)},
          {"worse_at", time_or_null(cause.worse_at)}};
}

}  // namespace

Filter filter_of(const Pairs& conditions) {
  Filter filter;
  for (const auto& [name, value] : conditions) {
    const auto* const condition = std::ranges::find_if(
        kConditions, [&known = name](const Condition& one) { return is_named(one.param, known); });
    if (condition != kConditions.end()) set(filter, *condition, name, value);
  }
  return filter;
}

Filter read_filter(const Json& json, FieldErrors& errors) {
  if (!json.is_object()) {
    errors.push_back({"filter", "must be an object: {\"queue\": \"orders\", \"state\": \"parked\"}"});
    return {};
  }
  Pairs conditions;
  for (const auto& [name, value] : json.items()) {
    if (errors.size() > kMostTold) break;
    if (value.is_string()) {
      conditions.emplace_back(name, value.get<std::string>());
    } else {
      errors.push_back({"filter." + clean_utf8(name, 60), "must be a string"});
    }
  }
  if (json.empty()) {
    errors.push_back({"filter",
                      "an empty filter means every task: name a queue, a tag, a state or a time; known "
                      "conditions: " +
                          known_params(kConditionParams)});
  }
  check_params(conditions, kConditionParams, errors, "filter.", "condition");
  return errors.empty() ? filter_of(conditions) : Filter{};
}

Json filter_json(const Filter& f) {
  Json json = Json::object();
  const auto put = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) json[std::string(name)] = value;
  };
  for (const Condition& condition : kConditions) {
    const std::string_view name = condition.param.name;
    if (const auto* text = std::get_if<Text>(&condition.member)) {
      put(name, f.**text);
    } else if (const auto* time = std::get_if<Time>(&condition.member)) {
      if (f.**time) put(name, to_rfc3339(*(f.**time)));
    } else if (name == "state") {
      put(name, written_states(f));
    } else if (name == "kind") {
      put(name, f.kind ? to_word(*f.kind) : "");
    } else if (name == "outcome_unknown") {
      put(name, f.silence_held ? "true" : "");
    } else {
      for (const auto& [header, value] : f.headers) put(std::string(kHeaderParam) + header, value);
    }
  }
  return json;
}

Json to_json(const Silence& silence) {
  const char* name = silence.means == Silence::Means::success ? "presumed_after" : "reported_within";
  return {{name, levels::format_duration(silence.after)}};
}

std::string etag(const Task& task) { return "\"" + std::to_string(task.version) + "\""; }

Json to_json(const TaskRow& row) {
  const Task& t = row.task;
  const std::optional<EpochMs> failed =
      t.first_failed_at.ms == 0 ? std::nullopt : std::optional(t.first_failed_at);
  Json json = {{"retry_id", t.id.str()},
               {"kind", to_word(t.kind)},
               {"queue", text_or_null(t.queue)},
               {"exchange", text_or_null(t.exchange)},
               {"routing_key", text_or_null(t.routing_key)},
               {"tag", text_or_null(t.tag)},
               {"message_id", text_or_null(t.message_id)},
               {"state", to_word(t.state)},
               {"attempt", t.attempt},
               {"level", t.level},
               {"levels", t.levels},
               {"ladder", t.ladder},
               {"next_due_at", time_or_null(t.next_at)},
               {"first_failed_at", time_or_null(failed)},
               {"created_at", to_rfc3339(t.created_at)},
               {"finished_at", time_or_null(t.finished_at)},
               {"finished_by", text_or_null(to_word(t.finished_by))},
               {"last_error", text_or_null(t.last_error)},
               {"body_bytes", t.body_bytes},
               {"shard", t.shard},
               {"node", text_or_null(row.node)},
               {"version", t.version},
               {"error_type", text_or_null(t.error_type)}};
  if (row.correlation_id) json["correlation_id"] = text_or_null(*row.correlation_id);
  json["rule"] = text_or_null(t.rule);
  json["uncounted_attempts"] = t.uncounted_attempts;
  json["error_queue"] = text_or_null(t.error_queue);
  json["parent_id"] = t.parent.value == 0 ? Json(nullptr) : Json(t.parent.str());
  json["cause_id"] = text_or_null(t.cause);
  json["replaced_by"] = t.replaced_by.value == 0 ? Json(nullptr) : Json(t.replaced_by.str());
  // Not columns of the view.
  json["max_attempts"] = t.max_attempts == 0 ? Json(nullptr) : Json(t.max_attempts);
  json["success"] = t.silence ? to_json(*t.silence) : Json();
  json["by_exchange"] = t.by_exchange;
  json["body_stored"] = body_stored(t);
  return json;
}

Json to_json(const AttemptRow& row) {
  const Attempt& a = row.attempt;
  Json late = nullptr;
  if (a.published_at) late = (*a.published_at - a.due_at).count();
  return {{"retry_id", a.task.str()},
          {"queue", text_or_null(row.queue)},
          {"message_id", text_or_null(row.message_id)},
          {"attempt", a.attempt},
          {"level", a.level},
          {"due_at", to_rfc3339(a.due_at)},
          {"published_at", time_or_null(a.published_at)},
          {"late_ms", late},
          {"outcome", to_word(a.outcome)},
          {"outcome_at", time_or_null(a.outcome_at)},
          {"error", text_or_null(a.error)},
          {"node", text_or_null(row.node)},
          {"executor", text_or_null(a.executor)},
          {"rule", text_or_null(a.rule)}};
}

Json to_json(const AuditRow& row) {
  return {{"audit_id", std::to_string(row.id)},
          {"at", to_rfc3339(row.at)},
          {"who", row.who},
          {"what", row.what},
          {"retry_id", row.task.value == 0 ? Json(nullptr) : Json(row.task.str())},
          {"before", as_json(row.before)},
          {"after", as_json(row.after)},
          {"reason", text_or_null(row.reason)},
          {"bulk_id", row.bulk == 0 ? Json(nullptr) : Json(std::to_string(row.bulk))}};
}

std::string cursor_of(const Task& task, Filter::Order order) {
  const auto due = order == Filter::Order::due ? due_of(task) : std::nullopt;
  return task.id.str() + (due ? "." + std::to_string(due->ms) : "");
}

bool read_cursor(std::string_view cursor, Filter& filter) {
  const std::size_t dot = std::min(cursor.find('.'), cursor.size());
  filter.after_due.reset();
  filter.after = TaskId::parse(cursor.substr(0, dot));
  if (dot == cursor.size()) return filter.after.has_value();
  const auto due = id_of_cursor(cursor.substr(dot + 1));
  if (due) filter.after_due = EpochMs{*due};
  return due && filter.after && filter.order == Filter::Order::due;
}

std::vector<TaskId> children_of(MysqlStore& store, const Task& task) {
  auto children = store.children(task);
  // An edit may have changed the message-id.
  if (task.replaced_by.value != 0 && std::ranges::find(children, task.replaced_by) == children.end()) {
    if (children.size() == MysqlStore::kMostChildren) children.pop_back();
    children.insert(std::ranges::upper_bound(children, task.replaced_by), task.replaced_by);
  }
  return children;
}

Response changed_task(Context& context, const Task& task, const Json& also) {
  Json json = to_json(context.named(task));
  const auto gate = context.reads.result_of([&](MysqlStore& store) { return holding_gate(store, task); });
  json["held"] = gate_json(gate.value_or(std::nullopt));
  json.update(also);
  return answer(200, json, {{"ETag", etag(task)}});
}

Problem refused_change(const Call& call, const Decision& decision, const Json& also) {
  const Task& task = decision.task;
  if (decision.reason == kNoSuchTask) return {404, "no task has the id " + shown(call.id)};
  if (decision.reason == kNotTheirQueue) return outside_queues(call.person, task.queue);
  Json more = {{"state", to_word(task.state)}, {"version", task.version}};
  more.update(also);
  if (decision.reason != kChangedMeanwhile) return {409, decision.reason, more};
  const std::string version = std::to_string(task.version);
  return {412, "the task has changed since you read it: its version is now " + version, more};
}

Json count_tasks(MysqlStore& store, const Filter& filter, const std::optional<CountBy>& by,
                 std::int64_t most) {
  TaskCounts counts;
  if (by) {
    counts = store.count_by(filter, *by, most);
  } else {
    counts.total = store.count(filter, most);
  }
  Json json = {{"count", counts.total}, {"or_more", counts.total >= most}};
  if (!by) return json;
  json["by"] = by->str();
  json["groups"] = Json::array();
  for (const TaskCounts::Group& group : counts.groups)
    json["groups"].push_back({{"value", text_or_null(group.value)}, {"count", group.tasks}});
  json["others"] = counts.others;
  return json;
}

std::string cursor_of(const AuditPlace& place) {
  return std::to_string(place.id) + "." + std::to_string(place.at.ms);
}

std::optional<AuditPlace> audit_place_of(std::string_view cursor) {
  const std::size_t dot = std::min(cursor.find('.'), cursor.size());
  const auto id = id_of_cursor(cursor.substr(0, dot));
  const auto at = id_of_cursor(cursor.substr(std::min(dot + 1, cursor.size())));
  if (!id || !at) return std::nullopt;
  return AuditPlace{{*at}, *id};
}

Json to_json(const AuditPage& page) {
  Json rows = Json::array();
  for (const AuditPage::Row& row : page.rows) {
    Json json = to_json(row.change);
    json["queue"] = text_or_null(row.queue);
    rows.push_back(std::move(json));
  }
  return {{"audit", std::move(rows)}, {"next", page.next ? Json(cursor_of(*page.next)) : Json()}};
}

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
  static const RE2 form(R"re([ \t]*(W/)?"([^"]*)"[ \t]*)re", RE2::Latin1);
  std::vector<std::uint32_t> versions;
  for (const std::string& word : split_words(*call.request.if_match)) {
    std::string weak, tag;
    if (!RE2::FullMatch(word, form, &weak, &tag))
      return permanent("If-Match must be the ETag of an earlier response, in quotes: \"3\"");
    const auto version = number_from<std::uint32_t>(tag);
    if (weak.empty() && version) versions.push_back(*version);
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

// `next` is the offset of the next page, since their order changes all the time.
Response list_causes(Context& context, const Call& call) {
  CauseFilter filter = cause_filter_of(call.query);
  const int limit = filter.limit++;
  const auto causes =
      context.read_filtered({.queue = filter.queue}, [&](MysqlStore& store) { return store.causes(filter); });
  return answer(200, page_of(
                         "causes", causes, limit,
                         [&](const CauseRow&) { return std::to_string(filter.offset + limit); },
                         [](const CauseRow& cause) { return to_json(cause); }));
}

// With its tasks under way and parked by each of the indexed headers: {"cause_id": ..., "by_header": [{"by":
// "header.tenant", "groups": [...], ...}]}.
Response show_cause(Context& context, const Call& call) {
  return answer(200, context.reads.read([&](MysqlStore& store) {
    Json json = to_json(find_cause(store, call));
    json["by_header"] = Json::array();
    Filter open;
    open.cause = call.id;
    open.states = {State::scheduled, State::publishing, State::awaiting, State::parked};
    for (const std::string& header : context.index_headers)
      json["by_header"].push_back(count_tasks(store, open, CountBy{"header", header}, kCountedByHeader));
    return json;
  }));
}

// It never changes.
std::string queue_of_cause(Context& context, const Call& call) {
  return context.reads.read([&](MysqlStore& store) { return find_cause(store, call).queue; });
}

Response change_cause(Context& context, const Call& call) {
  Fields fields(*call.json);
  CauseTriage triage;
  if (const auto state = fields.text("state", kNameBytes)) {
    triage.state = from_word<CauseState>(*state);
    if (!triage.state) fields.wrong("state", std::string(kCauseStates));
  }
  triage.owner = fields.text("owner", kCauseOwnerBytes);
  triage.note = fields.text("note", kCauseNoteBytes);
  triage.link = fields.text("link", kCauseLinkBytes);
  fields.check();
  if (!triage.state && !triage.owner && !triage.note && !triage.link)
    throw Problem(FieldErrors{{"state", "nothing to change: give state, owner, note or link"}});
  if (!is_cause_id(call.id)) no_such_cause(call);
  const auto cause =
      context.reads.read_once([&](MysqlStore& store) { return store.triage(call.id, triage, call.who); });
  if (!cause) no_such_cause(call);
  return answer(200, to_json(*cause));
}

}  // namespace rung::api
