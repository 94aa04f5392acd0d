#include "src/http/problem.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/base/utf8.h"

namespace rung::http {

std::string_view title_of(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 19> kTitles = {
      {{400, "Bad Request"},
       {401, "Unauthorized"},
       {403, "Forbidden"},
       {404, "Not Found"},
       {405, "Method Not Allowed"},
       {408, "Request Timeout"},
       {409, "Conflict"},
       {411, "Length Required"},
       {412, "Precondition Failed"},
       {413, "Content Too Large"},
       {414, "URI Too Long"},
       {415, "Unsupported Media Type"},
       {417, "Expectation Failed"},
       {431, "Request Header Fields Too Large"},
       {500, "Internal Server Error"},
       {501, "Not Implemented"},
       {503, "Service Unavailable"},
       {504, "Gateway Timeout"},
       {505, "HTTP Version Not Supported"}}};
  const auto* found = std::ranges::find(kTitles, status, &std::pair<int, std::string_view>::first);
  return found != kTitles.end() ? found->second : "Error";
}

std::string_view code_of(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 11> kCodes = {
      {{400, "invalid_request"},
       {401, "unauthorized"},
       {403, "forbidden"},
       {404, "not_found"},
       {405, "method_not_allowed"},
       {408, "timeout"},
       {409, "state_conflict"},
       {412, "version_conflict"},
       {413, "too_large"},
       {415, "unsupported_media_type"},
       {503, "unavailable"}}};
  const auto* found = std::ranges::find(kCodes, status, &std::pair<int, std::string_view>::first);
  if (found != kCodes.end()) return found->second;
  return status >= 500 ? "internal_error" : "bad_http";
}

Json problem_json(int status, std::string_view detail, std::string_view instance, const Json& more) {
  Json json = {{"title", title_of(status)},
               {"status", status},
               {"code", code_of(status)},
               {"detail", detail},
               {"instance", instance}};
  if (more.is_object()) json.update(more);
  return json;
}

Json problem_json(const FieldErrors& errors, std::string_view instance) {
  std::string detail = errors.empty() ? "" : errors.front().field + ": " + errors.front().detail;
  if (errors.size() > 1) detail += " (and " + std::to_string(errors.size() - 1) + " more, see errors)";
  Json list = Json::array();
  for (const FieldError& e : errors) list.push_back({{"field", e.field}, {"detail", e.detail}});
  return problem_json(400, detail, instance, {{"errors", std::move(list)}});
}

namespace {

Response as_response(int status, const Json& json) {
  Response response = answer(status, json);
  response.type = "application/problem+json";
  return response;
}

}  // namespace

Response problem(int status, std::string_view detail, std::string_view instance) {
  return problem(status, detail, instance, Json());
}

Response problem(int status, std::string_view detail, std::string_view instance, const Json& more) {
  return as_response(status, problem_json(status, detail, instance, more));
}

Response problem(const FieldErrors& errors, std::string_view instance) {
  return as_response(400, problem_json(errors, instance));
}

Response problem(const Error& error, std::string_view instance) {
  switch (error.kind) {
    case Error::Kind::transient:
    case Error::Kind::refused: {
      Response response = problem(503, error.message, instance);
      response.headers.emplace_back("Retry-After", "1");
      return response;
    }
    case Error::Kind::not_found:
      return problem(404, error.message, instance);
    case Error::Kind::permanent:
      break;
  }
  return problem(500, error.message, instance);
}

Response answer(int status, const Json& json) {
  Response response;
  response.status = status;
  response.body = escape_controls_in_json(dump(json)) + "\n";
  return response;
}

}  // namespace rung::http
