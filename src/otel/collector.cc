#include "src/otel/collector.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/io/log.h"

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

namespace {

constexpr Ms kQuiet = std::chrono::minutes{1};

}  // namespace

CollectorLog::CollectorLog(const std::string& endpoint, const Clock* clock)
    : endpoint_(hide_password(endpoint)), clock_(clock) {}

bool CollectorLog::may_warn() const {
  return clock_ == nullptr || !warned_at_ || clock_->boot() - *warned_at_ >= kQuiet;
}

void CollectorLog::failing(std::string_view event, const std::string& reason, std::int64_t dropped) {
  if (warned_of_ == event || !may_warn()) return;
  log::warn(event, {{"collector", endpoint_}, {"reason", reason}, {"dropped", dropped - dropped_before_}});
  warned_of_ = event;
  if (clock_ != nullptr) warned_at_ = clock_->boot();
}

void CollectorLog::accepting(std::int64_t dropped) {
  if (!warned_of_.empty()) {
    log::info("trace collector accepts spans again",
              {{"collector", endpoint_}, {"dropped", dropped - dropped_before_}});
  }
  warned_of_ = {};
  dropped_before_ = dropped;
}

}  // namespace rung::otel
