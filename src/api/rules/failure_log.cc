#include "src/api/rules/failure_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/json/fields.h"
#include "src/core/base/rfc3339.h"
#include "src/core/base/utf8.h"
#include "src/core/rules/failure_rules.h"

namespace rung::api {
namespace {

constexpr std::size_t kLineBytes = 1'000'000;

// RFC 3339, or a duration from kLogBegins.
std::optional<EpochMs> log_time(Fields& fields, std::string_view name) {
  const Json* value = fields.get(name);
  if (value == nullptr) {
    fields.wrong(name, "is missing: when the message failed first");
    return std::nullopt;
  }
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    if (const auto at = from_rfc3339(text)) return at;
    if (const auto after = levels::parse_duration(text)) return kLogBegins + *after;
  }
  fields.wrong(name, "must be an RFC 3339 time (\"2026-11-21T17:05:00Z\") or a duration (\"90s\")");
  return std::nullopt;
}

RuleHeaders log_headers(Fields& fields) {
  RuleHeaders out;
  const Json* value = fields.get("headers");
  if (value == nullptr) return out;
  if (!value->is_object()) {
    fields.wrong("headers", "must be an object: {\"tier\": \"gold\"}");
    return out;
  }
  for (const auto& [name, each] : value->items()) {
    if (each.is_string()) {
      out.emplace(name, each.get<std::string>());
    } else if (each.is_number() || each.is_boolean()) {
      out.emplace(name, each.dump());
    } else {
      fields.wrong("headers", shown(name) + " must be a string, a number or a boolean");
    }
  }
  return out;
}

// error, type and reason, as the intake and the state machine write them into a row.
FailureText log_text(Fields& fields, const std::string& queue) {
  FailureText text;
  text.error = clean_utf8(fields.text("error", kLineBytes).value_or(""), kErrorBytes);
  text.type = fields.text("type", kNameBytes).value_or("");
  const std::string reason = fields.text("reason", kNameBytes).value_or("");
  const auto& all = failure_reasons();
  if (!reason.empty() && std::ranges::find(all, reason) == all.end()) {
    std::string list;
    for (const std::string& each : all) list.append(list.empty() ? "" : ", ").append(each);
    fields.wrong("reason", shown(reason) + " is none of " + list);
  } else if (reason == "returned") {
    text.how = FailureText::How::returned;
    text.type = "returned";
  } else if (reason == "silent") {
    text.how = FailureText::How::silent;
    text.type = "timed_out";
  } else if (!reason.empty() && reason != "rejected") {
    text.error = "dead-lettered: " + reason + " (queue " + queue + ")";
  }
  if (text.error.empty()) text.error = "failed (no retry-error was given)";
  return text;
}

std::optional<Ms> log_retry_after(Fields& fields) { return fields.duration("retry_after", Ms{1}); }

class LogReader {
 public:
  explicit LogReader(const std::string& queue) : queue_(queue) {}

  void line(const Json& json, FieldErrors& errors) {
    Fields fields(json, "", errors);
    FailedMessage message;
    const EpochMs at = log_time(fields, "at").value_or(kLogBegins);
    const FailureText text = log_text(fields, queue_);
    const Ms answer = fields.duration("answer", Ms{0}).value_or(Ms{0});
    message.tag = fields.text("tag", kNameBytes).value_or("");
    message.headers = log_headers(fields);
    message.failures.push_back({at, log_.text(text), answer, log_retry_after(fields)});
    add_failures(fields, at, answer, message, errors);
    if (const auto after = fields.duration("works_after", Ms{0})) message.works_at = at + *after;
    message.answer = answer;
    fields.finish();
    log_.add(std::move(message));
  }

  FailureLog take() { return std::move(log_); }

 private:
  void add_failures(Fields& fields, EpochMs began, Ms answer, FailedMessage& message, FieldErrors& errors) {
    const Json* list = fields.get("failures");
    if (list == nullptr) return;
    if (!list->is_array())
      return fields.wrong("failures", "must be a list: [{\"after\": \"30s\", \"error\": \"...\"}]");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string name = "failures[" + std::to_string(i) + "]";
      if (!(*list)[i].is_object()) return fields.wrong(name, "must be an object: {\"after\": \"30s\"}");
      Fields each((*list)[i], name + ".", errors);
      const auto after = each.duration("after", Ms{0});
      if (!after && !each.has("after"))
        each.wrong("after", "is missing: how long after the first failure, e.g. \"30s\"");
      const EpochMs at = began + after.value_or(Ms{0});
      if (after && at < message.failures.back().at)
        each.wrong("after", "must not be before the failure that precedes it");
      message.failures.push_back({at, log_.text(log_text(each, queue_)), answer, log_retry_after(each)});
      each.finish();
    }
  }

  const std::string& queue_;
  FailureLog log_;
};

}  // namespace

tl::expected<FailureLog, std::vector<std::string>> read_failure_log(std::istream& in,
                                                                    const std::string& queue) {
  LogReader reader(queue);
  std::vector<std::string> wrong;
  std::string text;
  for (std::size_t number = 1; std::getline(in, text) && wrong.size() < kMostTold; ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string at = std::to_string(number) + ": ";
    if (text.size() > kLineBytes) {
      wrong.push_back(at + "the line is longer than 1 MB");
      continue;
    }
    const auto json = parse_json(text, static_cast<std::ptrdiff_t>(number));
    if (!json) {
      wrong.push_back(at + json.error().message +
                      "; write one object per line: {\"at\": \"0s\", \"error\": " +
                      "\"HTTP 503\", \"works_after\": \"10m\"}");
      continue;
    }
    if (!json->is_object()) {
      wrong.push_back(at + "must be an object: {\"at\": \"0s\", \"error\": \"HTTP 503\"}");
      continue;
    }
    FieldErrors errors;
    reader.line(*json, errors);
    for (const FieldError& error : errors) wrong.push_back(at + error.field + ": " + error.detail);
  }
  if (!wrong.empty()) return tl::unexpected(std::move(wrong));
  return reader.take();
}

}  // namespace rung::api
