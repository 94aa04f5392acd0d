// The table of routes, with the parameters of their queries; the API inside a command; the OpenAPI document:
// put together from that table, the tables of words and openapi.json, which has the texts and the schemas in
// a shorter notation:
//   - a text in place of a schema or a header is the name of one in `components`
//   - an object has all of its properties, and no others, unless `required` or `optional` says which it may
//   lack;
//     with `extends` it also has those of another schema
//   - an answer is JSON, unless it has `media`
#include "src/api/api.h"

#include "src/api/tasks/tasks.h"
#include "src/store/store.h"

namespace rung::api {

namespace {

using Is = Param::Is;

constexpr std::array kPage{kLimit, kIdCursor};
constexpr std::array kTextPage{kLimit, kCursor};
constexpr std::array kIfMatch{Param{
    "If-Match", Is::header, "The ETag that you saw last, or a list of them. A weak one matches nothing."}};
constexpr std::array kList{
    Param{"sort", Is::word,
          "newest (as without it) or oldest: by the time received; due: the next due first, tasks without a "
          "due "
          "time last",
          kWords<Filter::Order>},
    kLimit, kCursor, Param{"count", Is::flag, "the number of tasks instead of the tasks"},
    Param{
        "by", Is::any,
        "with count: by queue, error_type, tag, level, cause or header.NAME (a header in `index_headers` of "
        "the config)"}};
// The conditions of a filter, and those.
constexpr auto kTasks = [] {
  std::array<Param, kConditionParams.size() + kList.size()> all;
  std::ranges::copy(kList, std::ranges::copy(kConditionParams, all.begin()).out);
  return all;
}();
constexpr std::array kCauses{
    Param{"queue", Is::text, "causes of this queue"},
    Param{"state", Is::words, "causes in this state, or in several separated by commas", kWords<CauseState>},
    Param{"since", Is::time, "only causes that have failed since this time"},
    Param{"with_tasks", Is::flag, "only causes that have tasks under way or parked"},
    kLimit,
    kIdCursor};
constexpr std::array kYou{
    Param{"queue", Is::any,
          "What it may do to this queue; empty: to what names no queue. Without it: what its role allows."}};
constexpr std::array kActivity{
    Param{"queue", Is::text,
          "only this queue; without it all queues together. Also a pattern of the config, or (other): the "
          "queues that the config does not know"},
    Param{"from", Is::time, "an hour before `to`, if it is not given"},
    Param{"to", Is::time, "now, if it is not given"}};
constexpr std::array kAudit{
    Param{"queue", Is::text,
          "changes of the tasks that are in this queue, its pauses, and bulks whose filter names it or no "
          "queue"},
    Param{"bulk", Is::text, "what this bulk has done to each task"},
    Param{"action", Is::word,
          "`failed` and `succeeded` are results by consumers for tasks that had ended, or by bulks",
          kAuditActions},
    Param{"who", Is::text, "how the name begins"},
    Param{"since", Is::time, "at this time or later"},
    Param{"until", Is::time, "before this time"},
    kLimit,
    Param{"cursor", Is::cursor, "`next` of the previous page"}};
constexpr std::array kStats{
    Param{"max_overdue", Is::duration, "the bound of overdue_beyond_bound; 1m, if it is not given"}};
constexpr std::array kNodes{Param{"all", Is::flag, "also instances that ended over a day ago"}, kLimit,
                            kIdCursor};

consteval auto table() {
  using enum Action;
  using enum Takes;
  return std::to_array<Route>({
      {"POST", "/v1/tasks", "submitTasks", submit, Scope::body, submit_tasks, {}, json},
      {"GET", "/v1/tasks", "listTasks", read, Scope::none, list_tasks, kTasks},
      {"GET", "/v1/tasks/{id}", "getTask", read, Scope::none, show_task},
      {"GET", "/v1/tasks/{id}/origin", "getTaskOrigin", read, Scope::none, show_origin},
      {"GET", "/v1/tasks/{id}/history", "getTaskHistory", read, Scope::none, show_history, kPage},
      {"GET", "/v1/tasks/{id}/audit", "getTaskAudit", read, Scope::none, show_audit, kPage},
      {"POST", "/v1/tasks/{id}/cancel", "cancelTask", cancel, Scope::changed, change_task, kIfMatch, maybe},
      {"POST", "/v1/tasks/{id}/discard", "discardTask", discard, Scope::changed, change_task, kIfMatch,
       maybe},
      {"POST", "/v1/tasks/{id}/reschedule", "rescheduleTask", reschedule, Scope::changed, change_task,
       kIfMatch, object},
      {"POST", "/v1/tasks/{id}/fire", "fireTask", fire, Scope::changed, change_task, kIfMatch, maybe},
      {"POST", "/v1/tasks/{id}/finish", "finishTask", finish, Scope::changed, change_task, kIfMatch, object},
      {"POST", "/v1/tasks/{id}/redrive", "redriveTask", redrive, Scope::changed, change_task, kIfMatch,
       maybe},
      {"POST", "/v1/tasks/{id}/edit", "editTask", edit, Scope::task, edit_task, kIfMatch, object},
      {"GET", "/v1/tasks/{id}/body", "getTaskBody", body, Scope::task, show_body},
      {"GET", "/v1/tasks/{id}/message", "getTaskMessage", body, Scope::task, show_message},
      {"POST", "/v1/bulks", "createBulk", bulk, Scope::body, create_bulk, {}, object},
      {"GET", "/v1/bulks", "listBulks", read, Scope::none, list_bulks, kPage},
      {"GET", "/v1/bulks/{id}", "getBulk", read, Scope::none, show_bulk},
      {"POST", "/v1/bulks/{id}/pause", "pauseBulk", bulk, Scope::bulk, steer_bulk, {}, maybe},
      {"POST", "/v1/bulks/{id}/resume", "resumeBulk", bulk, Scope::bulk, steer_bulk, {}, maybe},
      {"POST", "/v1/bulks/{id}/abort", "abortBulk", bulk, Scope::bulk, steer_bulk, {}, maybe},
      {"GET", "/v1/causes", "listCauses", read, Scope::none, list_causes, kCauses},
      {"GET", "/v1/causes/{cause}", "getCause", read, Scope::none, show_cause},
      {"POST", "/v1/causes/{cause}", "changeCause", triage, Scope::cause, change_cause, {}, object},
      {"GET", "/v1/you", "getYou", read, Scope::none, show_you, kYou},
      {"GET", "/v1/config", "getConfig", read, Scope::none, show_config},
      {"GET", "/v1/now", "getNow", read, Scope::none, show_now},
      {"GET", "/v1/activity", "getActivity", read, Scope::none, show_activity, kActivity},
      {"GET", "/v1/audit", "listAudit", read, Scope::none, list_audit, kAudit},
      {"POST", "/v1/simulate", "simulate", read, Scope::none, simulate_failure, {}, object},
      {"GET", "/v1/stats", "getStats", read, Scope::none, show_stats, kStats},
      {"GET", "/v1/overview", "getOverview", read, Scope::none, show_overview},
      {"GET", "/v1/nodes", "listNodes", read, Scope::none, list_nodes, kNodes},
      {"GET", "/v1/queues", "listQueues", read, Scope::none, list_queues, kTextPage},
      {"GET", "/v1/queues/{queue}", "getQueue", read, Scope::none, show_queue},
      {"POST", "/v1/queues/{queue}/pause", "pauseQueue", pause, Scope::queue, pause_queue, {}, maybe},
      {"POST", "/v1/queues/{queue}/resume", "resumeQueue", resume, Scope::queue, resume_queue, {}, maybe},
      {"GET", "/healthz", "getHealth", probe, Scope::none, show_health, {}, nothing, true},
      {"GET", "/readyz", "getReadiness", probe, Scope::none, show_ready, {}, nothing, true},
  });
}

constexpr std::array kRoutes = table();

static_assert(name_their_queues(kRoutes));

constexpr Ms kCallTimeout{std::chrono::hours{1}};  // the store has its own

Json reference(const std::string& kind, const std::string& name) {
  return {{"$ref", "#/components/" + kind + "/" + name}};
}

Json one_of(const auto& words) { return {{"type", "string"}, {"enum", words}}; }

// `all`: the schemas of the file, by name.
Json schema_of(Json schema, const Json& all);

void complete_object(Json& object, const Json& all) {
  Json optional = Json::array();
  if (object.contains("extends")) {
    const Json& base = all.at(object.at("extends").get<std::string>());
    Json properties = base.at("properties");
    properties.update(object["properties"]);
    object["properties"] = std::move(properties);
    optional = base.value("optional", optional);
    object.erase("extends");
  }
  if (object.contains("optional")) optional = object["optional"];
  object.erase("optional");
  const bool says_what = object.contains("required");
  Json required = Json::array();
  for (auto& [name, property] : object["properties"].items()) {
    property = schema_of(std::move(property), all);
    if (std::ranges::find(optional, Json(name)) == optional.end()) required.push_back(name);
  }
  if (!says_what) object["required"] = std::move(required);
  if (!object.contains("type")) object["type"] = "object";
  if (!object.contains("additionalProperties")) object["additionalProperties"] = false;
}

Json schema_of(Json schema, const Json& all) {
  if (schema.is_string()) return reference("schemas", schema);
  if (schema.contains("properties")) complete_object(schema, all);
  if (schema.contains("items")) schema["items"] = schema_of(std::move(schema["items"]), all);
  if (schema.contains("oneOf")) {
    for (Json& one : schema["oneOf"]) one = schema_of(std::move(one), all);
  }
  return schema;
}

Json filter_schema() {
  Json properties = {
      {"limit", {{"type", "string"}, {"description", "Only in an answer: of a bulk with a limit."}}}};
  Json schema = {{"type", "object"},
                 {"description", "The conditions of GET /v1/tasks, as strings; all of them must match."},
                 {"additionalProperties", false},
                 {"minProperties", 1}};
  for (const Condition& one : kConditions) {
    const Json param = param_json(one.param);
    if (one.param.is == Param::Is::headers) {
      schema["patternProperties"] = param["schema"]["patternProperties"];
    } else {
      Json& property = properties[std::string(one.param.name)];
      property = {{"type", "string"}, {"description", param["description"]}};
      if (one.param.is == Param::Is::time) property["format"] = "date-time";
    }
  }
  schema["properties"] = std::move(properties);
  return schema;
}

Json answer_of(const Json& written, const Json& schemas) {
  const Json text = {{"type", "string"}};
  Json answer = {{"description", written.at("description")}};
  answer["content"][written.value("media", "application/json")]["schema"] =
      written.contains("schema") ? schema_of(written["schema"], schemas) : text;
  const Json headers = written.value("headers", Json::object());
  for (const auto& [name, header] : headers.items())
    answer["headers"][name] = header.is_string() ? reference("headers", header) : header;
  return answer;
}

// "BadRequest": the name of the component that describes the problems of a status.
std::string problem_name(int status) {
  std::string name(title_of(status));
  std::erase(name, ' ');
  return name;
}

std::vector<int> problems_of(const Route& route, const Json& texts) {
  std::vector<int> statuses = texts.value("problems", std::vector<int>{});
  const bool has_id = route.pattern.find('{') != std::string_view::npos;
  statuses.push_back(400);
  if (route.action != Action::probe) statuses.insert(statuses.end(), {401, 403});
  if (has_id) statuses.push_back(404);
  if (route.takes != Takes::nothing) statuses.insert(statuses.end(), {408, 413, 415});
  if (route.takes != Takes::nothing && has_id) statuses.push_back(409);
  const auto is_if_match = [](const Param& param) { return param.name == "If-Match"; };
  if (std::ranges::any_of(route.params, is_if_match)) statuses.push_back(412);
  statuses.push_back(503);
  return statuses;
}

// The parameter in the path, as OpenAPI describes it: {id}, {cause} or {queue}.
Json path_params(std::string_view pattern) {
  const std::size_t from = pattern.find('{') + 1;
  if (from == 0) return Json::array();
  const std::string_view name = pattern.substr(from, pattern.find('}') - from);
  const char* const help = name == "queue"                    ? "The queue's name, percent-encoded."
                           : name == "cause"                  ? "`cause_id`: 12 hexadecimal digits."
                           : pattern.starts_with("/v1/bulks") ? "the bulk's `id`"
                                                              : "retry_id";
  return Json::array({{{"name", name},
                       {"in", "path"},
                       {"required", true},
                       {"description", help},
                       {"schema", {{"type", "string"}}}}});
}

Json operation_of(const Route& route, const Json& file) {
  const Json& texts = file.at("operations").at(std::string(route.id));
  const Json& schemas = file.at("components").at("schemas");
  Json json = {{"operationId", route.id}};
  if (route.action == Action::probe) {
    json["security"] = Json::array();
  } else {
    json["x-needs-role"] = to_word(right_of(route.action).least);
  }
  for (const auto* name : {"summary", "tags", "description"}) {
    if (texts.contains(name)) json[name] = texts[name];
  }
  json["parameters"] = path_params(route.pattern);
  for (const Param& param : route.params) json["parameters"].push_back(param_json(param));
  if (route.takes != Takes::nothing) {
    Json content = {{"schema", schema_of(texts.at("body"), schemas)}};
    if (texts.contains("example")) content["example"] = texts["example"];
    json["requestBody"] = {{"required", route.takes != Takes::maybe},
                           {"content", {{"application/json", content}}}};
  }
  const Json& answers = texts.contains("answers") ? texts["answers"] : file.at("answers");
  for (const auto& [status, answer] : answers.items()) json["responses"][status] = answer_of(answer, schemas);
  for (const int status : problems_of(route, texts))
    json["responses"][std::to_string(status)] = reference("responses", problem_name(status));
  return json;
}

}  // namespace

std::span<const Route> api_routes() { return kRoutes; }

LocalApi::LocalApi(ContextParts parts, std::string who, const Clock& clock)
    : who_(std::move(who)),
      context_(std::move(parts), kCallTimeout, clock),
      router_(context_, {kRoutes.begin(), kRoutes.end()}) {
  context_.most_counted = INT64_MAX;
  context_.counting_stats = TaskCounter::kAll;
}

Response LocalApi::call(const std::string& method, std::string_view target, std::string_view body) {
  Request request;
  request.method = method;
  request.body = body;
  try {
    read_target(target, request);
    const auto found = router_.match(request);
    if (found.route == nullptr) throw no_such_route(found);
    // "alice@host (cli)" is for the audit.
    Call call{request, found.id, who_, {who_.substr(0, who_.find('@')), Role::administers, nullptr}};
    return router_.answer(*found.route, call);
  } catch (const Problem& no) {
    return problem(no, request.path);
  }
}

std::string openapi_document(const std::vector<Route>& routes) {
  const Json file = Json::parse(openapi_json());
  Json json = file;
  for (const auto* name : {"operations", "answers", "problems"}) json.erase(name);
  for (const Route& route : routes) {
    std::string method(route.method);
    std::ranges::transform(method, method.begin(), [](char c) { return static_cast<char>(c - 'A' + 'a'); });
    json["paths"][std::string(route.pattern)][method] = operation_of(route, file);
  }
  Json& components = json["components"];
  for (const auto& [status, description] : file.at("problems").items())
    components["responses"][problem_name(std::stoi(status))] = {
        {"description", description},
        {"content", {{"application/problem+json", {{"schema", reference("schemas", "Problem")}}}}}};
  for (auto& [name, schema] : components["schemas"].items())
    schema = schema_of(std::move(schema), file.at("components").at("schemas"));
  Json& schemas = components["schemas"];
  schemas["Filter"] = filter_schema();
  schemas["State"] = one_of(kWords<State>);
  schemas["Kind"] = one_of(kWords<Kind>);
  schemas["CauseState"] = one_of(kWords<CauseState>);
  schemas["AuditAction"] = one_of(kAuditActions);
  schemas["Role"] = one_of(kWords<Role>);
  std::vector<std::string_view> actions;
  for (const Right& right : kRights) {
    if (right.action != Action::probe) actions.push_back(right.word);
  }
  schemas["Action"] = one_of(actions);
  return dump(json);
}

}  // namespace rung::api
