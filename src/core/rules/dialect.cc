#include "src/core/rules/dialect.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/base/queue_pattern.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"
#include "src/core/message/header_values.h"
#include "src/core/message/message.h"
#include "src/core/task/task.h"

namespace rung {

namespace {

constexpr std::size_t kMostJson = 1024UL * 1024;  // bytes of a text that is parsed as JSON

std::optional<std::string> text_in(const nlohmann::json& json) {
  // A number of another type than int64: {"!i32": 5}. A time of AMQP's own type counts as seconds.
  if (json.is_object() && json.size() == 1 && json.begin().value().is_number() &&
      json.begin().key().starts_with('!'))
    return json.begin().value().dump();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number() || json.is_boolean()) return json.dump();
  return std::nullopt;
}

// -1 is the last element, which RFC 6901 has no word for: frameworks append to their lists.
const nlohmann::json* element(const nlohmann::json& array, const std::string& token) {
  if (token == "-1") return array.empty() ? nullptr : &array.back();
  const auto index = number_from<std::size_t>(token);
  return index && *index < array.size() ? &array[*index] : nullptr;
}

const nlohmann::json* found_at(const nlohmann::json& json, const nlohmann::json::json_pointer& pointer) {
  if (pointer.empty()) return &json;
  const nlohmann::json* in = found_at(json, pointer.parent_pointer());
  if (in != nullptr && in->is_array()) return element(*in, pointer.back());
  if (in == nullptr || !in->is_object()) return nullptr;
  const auto member = in->find(pointer.back());
  return member != in->end() ? &*member : nullptr;
}

std::optional<std::string> at_pointer(const nlohmann::json& json, const std::string& pointer) try {
  const nlohmann::json* found = found_at(json, nlohmann::json::json_pointer(pointer));
  return found != nullptr ? text_in(*found) : std::nullopt;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;  // an invalid escape
}

std::optional<std::string> in_json_text(std::string_view text, const std::string& pointer) {
  if (text.size() > kMostJson) return std::nullopt;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return at_pointer(json, pointer);
}

std::optional<std::string> raw(const Reading& reading, const Message& message, const ErrorSource& source) {
  switch (reading.from) {
    case Reading::From::queue_name:
      return std::string(source.queue);
    case Reading::From::routing_key:
      // Through the default exchange it names the error queue itself.
      if (source.routing_key == source.queue) return std::nullopt;
      return std::string(source.routing_key);
    case Reading::From::body:
      return in_json_text(message.body, reading.json_pointer);
    case Reading::From::property:
      return in_json_text(properties_to_json(message.properties), "/" + reading.name);
    case Reading::From::header: {
      const Value* value = reading::said(message.headers, reading.name);
      if (value == nullptr) return std::nullopt;
      const std::string* text = value->as_text();
      if (text != nullptr && reading.json_pointer.empty()) return *text;
      if (text != nullptr) return in_json_text(*text, reading.json_pointer);
      // As the JSON that the row keeps.
      return in_json_text(headers_to_json({{"value", *value}}), "/value" + reading.json_pointer);
    }
  }
  return std::nullopt;
}

std::optional<std::string> first_of(const Readings& readings, const Message& message,
                                    const ErrorSource& source) {
  for (const Reading& reading : readings) {
    auto value = raw(reading, message, source);
    if (value && reading.pattern) value = reading.pattern->match_whole(*value);
    if (value && !value->empty()) return value;
  }
  return std::nullopt;
}

std::optional<EpochMs> from_number(std::string_view text, std::int64_t ms_each) {
  const auto number = number_from<std::int64_t>(text);
  if (!number || *number <= 0 || *number >= kYear10000.ms / ms_each) return std::nullopt;
  return EpochMs{*number * ms_each};
}

// "2024-05-01 12:34:56:123456 Z" -> "2024-05-01T12:34:56.123456Z"
std::optional<EpochMs> from_nservicebus(std::string text) {
  constexpr std::size_t kDate = 10, kSeconds = 19;
  if (text.size() < kSeconds + 3 || text[kDate] != ' ' || text[kSeconds] != ':') return std::nullopt;
  text[kDate] = 'T';
  text[kSeconds] = '.';
  std::erase(text, ' ');
  return from_rfc3339(text);
}

std::optional<EpochMs> time_of(Reading::Form form, const std::string& text) {
  switch (form) {
    case Reading::Form::iso8601:
      return read_instant(text);  // .NET and Java also write UTC without an offset
    case Reading::Form::nservicebus:
      return from_nservicebus(text);
    case Reading::Form::epoch_s:
      return from_number(text, 1000);
    case Reading::Form::epoch_ms:
      return from_number(text, 1);
    case Reading::Form::text:
      break;
  }
  return std::nullopt;
}

std::optional<EpochMs> first_time(const Readings& readings, const Message& message,
                                  const ErrorSource& source) {
  for (const Reading& reading : readings) {
    const auto text = first_of({reading}, message, source);
    const auto time = text ? time_of(reading.form, *text) : std::nullopt;
    if (time && time->ms > 0) return time;
  }
  return std::nullopt;
}

// Frameworks write stacks that begin with the error's text.
std::string with_stack(std::string error, const std::string& stack) {
  if (stack.empty()) return error;
  if (error.empty() || stack.find(error) != std::string::npos) return stack;
  return error + "\n" + stack;
}

}  // namespace

DialectFacts read_dialect(const Dialect& dialect, const Message& message, const ErrorSource& source) {
  const auto text = [&](const Readings& readings) {
    return first_of(readings, message, source).value_or("");
  };
  DialectFacts facts;
  const Value queue(text(dialect.queue));
  facts.queue = reading::queue_name(&queue);
  facts.error_type = clean_utf8(text(dialect.error_type), 255);
  facts.error = clean_utf8(with_stack(text(dialect.error), text(dialect.stack)), kErrorBytes);
  facts.executor = clean_utf8(text(dialect.executor), 255);
  facts.failed_at = first_time(dialect.failed_at, message, source);
  facts.exchange = first_of(dialect.exchange, message, source);
  facts.routing_key = first_of(dialect.routing_key, message, source);
  return facts;
}

bool removes(const Dialect& dialect, std::string_view header) {
  if (is_own_header(header)) return false;  // they tie the failure to its task
  return std::ranges::any_of(dialect.remove,
                             [&](const std::string& pattern) { return matches_pattern(pattern, header); });
}

namespace {

// Moves the headers that the dialect removes from the message to the end of `taken`.
void take_dialect_headers(const Dialect& dialect, Message& message, Table& taken) {
  if (!message.headers) return;
  Table& headers = *message.headers;
  const auto kept = std::stable_partition(
      headers.begin(), headers.end(), [&](const auto& header) { return !removes(dialect, header.first); });
  taken.insert(taken.end(), std::make_move_iterator(kept), std::make_move_iterator(headers.end()));
  headers.erase(kept, headers.end());
}

// For people: "no usable retry-queue header, no ..."
constexpr std::string_view kNothingFound =
    "x-death, and nothing that its dialect reads (set `to` in error_queues)";

}  // namespace

const ErrorQueue* ErrorQueues::find(std::string_view queue) const {
  if (queue.empty()) return nullptr;
  const ErrorQueue* found = nullptr;
  for (const ErrorQueue& entry : queues_) {
    if (entry.from == queue) return &entry;
    if (found == nullptr && entry.is_pattern() && !queue.starts_with("amq.") &&
        matches_pattern(entry.from, queue))
      found = &entry;
  }
  return found;
}

std::string target_by_name(const ErrorQueue& entry, std::string_view queue) {
  return entry.to.empty() ? read_dialect(*entry.dialect, Message{}, {queue}).queue : entry.to;
}

void take_failure(const ErrorQueue& entry, DialectFacts read, Message& message, BrokerFacts& facts) {
  FailureFacts& failure = facts.failure;
  if (!entry.to.empty()) {
    failure.queue = entry.to;
    failure.queue_by = "the config";
    failure.queue_by_config = true;
  } else if (!read.queue.empty()) {
    failure.queue = std::move(read.queue);
    failure.queue_by = "its error queue's dialect";
  }
  if (failure.queue.empty()) failure.record = kNothingFound;
  failure.error = std::move(read.error);
  failure.error_type = std::move(read.error_type);
  failure.executor = std::move(read.executor);
  if (read.failed_at) failure.failed_at_s = read.failed_at->ms / 1000;
  // Else the exchange and key with which it was published to the error queue would count as its origin.
  if (read.exchange || !failure.exchange) failure.exchange = read.exchange.value_or("");
  if (read.routing_key || !failure.routing_key) failure.routing_key = read.routing_key.value_or("");
  take_dialect_headers(*entry.dialect, message, facts.headers);
}

bool ErrorQueues::same_sources(const ErrorQueues& other) const {
  return std::ranges::equal(queues_, other.queues_, [](const ErrorQueue& a, const ErrorQueue& b) {
    return a.from == b.from && a.to == b.to && a.dialect->name == b.dialect->name &&
           a.dialect->text == b.dialect->text;
  });
}

bool ErrorQueues::has_patterns() const { return std::ranges::any_of(queues_, &ErrorQueue::is_pattern); }

}  // namespace rung
