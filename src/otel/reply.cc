#include "src/otel/reply.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "src/core/base/utf8.h"

namespace rung::otel {
namespace {

using nlohmann::json;

constexpr std::size_t kMostText = 200;

std::string with_text(const std::string& reason, const std::string& text) {
  return text.empty() ? reason : reason + ": " + escape_controls(clean_utf8(text, kMostText));
}

// "" if there is no such text.
std::string text_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A google.rpc.Status, if the body is one.
std::string failure_text(const std::string& body) {
  return text_at(json::parse(body, nullptr, false), "message");
}

// 64 bits are text in OTLP's JSON, and some collectors write a number.
std::int64_t rejected_spans(const json& partial) {
  std::int64_t number = 0;
  if (const auto value = partial.find("rejectedSpans");
      value != partial.end() && value->is_number_integer()) {
    number = value->get<std::int64_t>();
  } else {
    const std::string text = text_at(partial, "rejectedSpans");
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

bool may_retry(int status) { return status == 429 || status == 502 || status == 503 || status == 504; }

}  // namespace

ExportResult read_reply(const net::HttpReply& reply, std::size_t spans) {
  using enum ExportResult::Kind;
  if (reply.status == 0) return {.kind = retry, .reason = reply.error};
  const std::string answers = "answers " + std::to_string(reply.status);
  if (may_retry(reply.status)) {
    return {.kind = retry,
            .retry_after = reply.retry_after,
            .reason = with_text(answers, failure_text(reply.body))};
  }
  if (reply.status / 100 != 2)
    return {.kind = refused, .reason = with_text(answers, failure_text(reply.body))};
  ExportResult result{.kind = accepted, .reason = {}};
  const json response = json::parse(reply.body, nullptr, false);
  const auto partial = response.is_object() ? response.find("partialSuccess") : response.end();
  // The status is what counts.
  if (!response.is_object() || partial == response.end() || !partial->is_object()) return result;
  result.rejected = std::clamp<std::int64_t>(rejected_spans(*partial), 0, static_cast<std::int64_t>(spans));
  if (result.rejected > 0) result.reason = with_text(answers, text_at(*partial, "errorMessage"));
  return result;
}

}  // namespace rung::otel
