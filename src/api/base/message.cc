#include "src/api/base/message.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"

namespace rung::api {

void read_target(std::string_view target, Request& request) {
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, question);
  request.has_encoded_slash =
      path.find("%2f") != std::string_view::npos || path.find("%2F") != std::string_view::npos;
  request.path = path.empty() ? "/" : path;
  if (!request.has_encoded_slash) request.path = percent_decode(request.path).value_or(request.path);
  std::string_view query = target.substr(std::min(question + 1, target.size()));
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(pair.substr(std::min(equals + 1, pair.size())), true);
    if (!name || !value)
      throw Problem(400, "invalid percent-encoding in the query: a % is followed by two hexadecimal digits");
    request.query.emplace_back(*std::move(name), *std::move(value));
  }
}

std::string decode_segment(std::string_view segment, const Request& request) {
  if (!request.has_encoded_slash) return std::string(segment);
  return percent_decode(segment).value_or(std::string(segment));
}

bool is_host(std::string_view text) {
  constexpr std::string_view kOthers = "-._~";
  const bool bracket = text.starts_with('[');
  const std::size_t end = bracket ? text.find(']') : text.find(':');
  const std::string_view name = text.substr(bracket ? 1 : 0, bracket ? end - 1 : end);
  std::string_view rest = end == std::string_view::npos ? "" : text.substr(bracket ? end + 1 : end);
  const auto fits = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kOthers.find(c) != std::string_view::npos || (bracket && c == ':');
  };
  if (name.empty() || (bracket && end == std::string_view::npos) || !std::ranges::all_of(name, fits))
    return false;
  if (rest.empty()) return true;
  const bool colon = rest.starts_with(':');
  rest.remove_prefix(1);
  return colon && rest.size() <= 5 && rest.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string cookie_named(std::string_view name, std::string_view header) {
  while (!header.empty()) {
    std::string_view pair = header.substr(0, header.find(';'));
    header.remove_prefix(std::min(pair.size() + 1, header.size()));
    pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      return std::string(pair.substr(name.size() + 1));
  }
  return "";
}

namespace {

struct Meaning {
  int status = 0;
  std::string_view title, code;
};
constexpr std::array<Meaning, 14> kMeanings = {{{400, "Bad Request", "invalid_request"},
                                                {401, "Unauthorized", "unauthorized"},
                                                {403, "Forbidden", "forbidden"},
                                                {404, "Not Found", "not_found"},
                                                {405, "Method Not Allowed", "method_not_allowed"},
                                                {408, "Request Timeout", "timeout"},
                                                {409, "Conflict", "state_conflict"},
                                                {412, "Precondition Failed", "version_conflict"},
                                                {413, "Content Too Large", "too_large"},
                                                {415, "Unsupported Media Type", "unsupported_media_type"},
                                                {431, "Request Header Fields Too Large", "bad_http"},
                                                {500, "Internal Server Error", "internal_error"},
                                                {501, "Not Implemented", "internal_error"},
                                                {503, "Service Unavailable", "unavailable"}}};

Meaning meaning_of(int status) {
  const auto* found = std::ranges::find(kMeanings, status, &Meaning::status);
  if (found != kMeanings.end()) return *found;
  return {status, "Error", status >= 500 ? "internal_error" : "bad_http"};
}

}  // namespace

std::string_view title_of(int status) { return meaning_of(status).title; }
std::string_view code_of(int status) { return meaning_of(status).code; }

Problem::Problem(const FieldErrors& errors) : Problem(400, "", {{"errors", Json::array()}}) {
  if (!errors.empty()) detail = errors.front().field + ": " + errors.front().detail;
  if (errors.size() > 1) detail += " (and " + std::to_string(errors.size() - 1) + " more, see errors)";
  for (const FieldError& e : errors) more["errors"].push_back({{"field", e.field}, {"detail", e.detail}});
}

Problem::Problem(Error of)
    : Problem(of.is_transient()                   ? 503
              : of.kind == Error::Kind::not_found ? 404
                                                  : 500,
              of.message) {
  error = std::move(of);
}

Json Problem::json(std::string_view instance) const {
  Json json = {{"title", title_of(status)},
               {"status", status},
               {"code", code_of(status)},
               {"detail", detail},
               {"instance", instance}};
  if (more.is_object()) json.update(more);
  return json;
}

Response problem(const Problem& of, std::string_view instance) {
  Response response = answer(of.status, of.json(instance), of.headers);
  response.type = "application/problem+json";
  if (of.status == 503 && of.headers.empty()) response.headers.emplace_back("Retry-After", "1");
  response.error = of.error;
  return response;
}

Response answer(int status, const Json& json, Pairs headers) {
  Response response;
  response.status = status;
  response.headers = std::move(headers);
  response.body = escape_controls_in_json(dump(json)) + "\n";
  return response;
}

}  // namespace rung::api
