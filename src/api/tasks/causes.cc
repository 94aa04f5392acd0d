// /v1/causes: what fails, why, and what people have said about it.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/api/tasks/views.h"

namespace rung::api {
namespace {

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
