// The OpenAPI document: put together from the tables of routes, the tables of words and openapi.json,
// which has the texts and the schemas in a shorter notation:
//   - a text in place of a schema or a header is the name of one in `components`
//   - an object has all of its properties, and no others, unless `required` or `optional` says which it may
//   lack;
//     with `extends` it also has those of another schema
//   - an answer is JSON, unless it has `media`
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/api/api.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/views.h"
#include "src/store/store.h"

namespace rung::api {

namespace {

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

// What stands in place of {id}, {cause} or {queue}.
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
