#include "src/core/headers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/core/header_reading.h"
#include "src/core/message_json.h"
#include "src/core/origin.h"
#include "src/core/utf8.h"

namespace rung {
namespace {

using namespace reading;

// What must not travel on. field.md, traps 3 and 4: the broker's own bookkeeping (RabbitMQ 4 ignores it on
// re-publish, older ones count on from it), and what would fan out again. x-opt-*: annotations of AMQP 1.0,
// which RabbitMQ 4 shows as headers; of x-opt-delivery-time a broker may make a delay of its own.
constexpr std::array<std::string_view, 5> kTakenOff = {"x-death", "x-delivery-count", "x-acquired-count",
                                                       "CC", "BCC"};
constexpr std::array<std::string_view, 3> kTakenOffPrefixes = {"x-first-death-", "x-last-death-", "x-opt-"};
constexpr std::array<std::string_view, 19> kOurs = {
    header::kId,       header::kAttempt,    header::kLevel,  header::kLevels,      header::kLadder,
    header::kQueue,    header::kError,      header::kAfter,  header::kMaxAttempts, header::kFirstFailedAt,
    header::kNever,    header::kErrorType,  header::kResult, header::kNotBefore,   header::kExecutor,
    header::kExchange, header::kRoutingKey, header::kToken,  "retry-complaint"};

bool is_taken_off(std::string_view name) {
  return std::ranges::find(kTakenOff, name) != kTakenOff.end() ||
         std::ranges::any_of(kTakenOffPrefixes, [&](std::string_view p) { return name.starts_with(p); });
}
constexpr std::array<std::string_view, 3> kOurOrigin = {header::kOriginExchange, header::kOriginRoutingKey,
                                                        header::kReason};
bool is_ours(std::string_view name) {
  return std::ranges::find(kOurs, name) != kOurs.end() ||
         std::ranges::find(kOurOrigin, name) != kOurOrigin.end();
}

// What is no number of an attempt is as if it had not been said: the one under way is meant.
int attempt_of(const std::optional<Table>& headers, std::string& complaint) {
  const Value* attempt = said(headers, header::kAttempt);
  if (attempt == nullptr) return 0;
  const auto number = int_of(attempt);
  if (number && *number > 0 && *number <= 1'000'000'000) return static_cast<int>(*number);
  complain(complaint, header::kAttempt, "a whole number from 1, as the delivery had it");
  return 0;
}

// Ours, handed back as they were: what does not parse is as if it had not been said.
std::optional<int> level_of(const std::optional<Table>& headers) {
  const auto number = int_of(find(headers, header::kLevel));
  if (!number || *number < 0 || *number > 1'000'000) return std::nullopt;
  return static_cast<int>(*number);
}
std::optional<EpochMs> first_failed_of(const std::optional<Table>& headers) {
  constexpr std::int64_t kTooLate = 253'402'300'800'000;  // the year 10000: no column holds it
  const auto number = int_of(find(headers, header::kFirstFailedAt));
  if (!number || *number <= 0 || *number >= kTooLate) return std::nullopt;
  return EpochMs{*number};
}

std::optional<TaskId> id_of(const std::optional<Table>& headers) {
  const Value* value = find(headers, header::kId);
  if (value == nullptr) return std::nullopt;
  if (const auto number = value->as_int()) {
    return *number > 0 ? std::optional<TaskId>(TaskId{*number}) : std::nullopt;
  }
  return TaskId::parse(text_of(value));
}

// The newest death: x-death is an array of tables, newest first.
const Table* newest_death(const std::optional<Table>& headers) {
  const Value* deaths = find(headers, "x-death");
  const Array* array = deaths != nullptr ? std::get_if<Array>(&deaths->v) : nullptr;
  return array != nullptr && !array->empty() ? std::get_if<Table>(&array->front().v) : nullptr;
}

// For people only: nothing is published to it again.
std::string label(std::string_view text) { return clean_utf8(text, 255); }

void read_death(const Table& death, Failure& f) {
  f.queue = queue_name(find(death, "queue"));
  if (const Value* exchange = find(death, "exchange")) f.exchange = label(text_of(exchange));
  if (const Value* keys = find(death, "routing-keys")) {
    const Array* array = std::get_if<Array>(&keys->v);
    if (array != nullptr && !array->empty()) f.routing_key = label(text_of(&array->front()));
  }
  if (const Value* time = find(death, "time")) {
    // Anybody can write an x-death: no date that neither a column nor an int64 of ms could hold.
    constexpr std::uint64_t kYear10000 = 253'402'300'800;
    const auto* stamp = std::get_if<Timestamp>(&time->v);
    if (stamp != nullptr && stamp->seconds < kYear10000)
      f.died_at_s = static_cast<std::int64_t>(stamp->seconds);
  }
  f.death_count = int_of(find(death, "count")).value_or(0);
}

}  // namespace

Failure read_failure(const Message& message, std::string_view exchange, std::string_view routing_key) {
  Failure f;
  f.exchange = label(exchange);
  f.routing_key = label(routing_key);
  std::string reason;
  if (const Table* death = newest_death(message.headers)) {
    read_death(*death, f);
    reason = text_of(find(*death, "reason"));
  }
  if (!f.queue.empty()) f.queue_by = "the header x-death";
  if (f.queue.empty()) {
    f.queue = queue_name(find(message.headers, "x-last-death-queue"));
    if (!f.queue.empty()) f.queue_by = "the header x-last-death-queue";
  }
  if (reason.empty()) reason = text_of(find(message.headers, "x-last-death-reason"));
  if (!reason.empty()) f.error = "dead-lettered: " + reason + " (queue " + f.queue + ")";
  // A retry of ours, whose row may be gone, or a consumer that says where the message came from.
  const Value* origin = find(message.headers, header::kOriginExchange);
  if (origin != nullptr && (f.exchange == label(exchange) || f.exchange.ends_with(".return"))) {
    f.exchange = label(text_of(origin));
    f.routing_key = label(text_of(find(message.headers, header::kOriginRoutingKey)));
  }
  f.directives = read_directives(message.headers);
  if (const Value* queue = said(message.headers, header::kQueue)) {
    if (const std::string name = queue_name(queue); !name.empty()) {
      f.queue = name;
      f.queue_by = "the header retry-queue";
    } else {
      complain(f.directives.complaint, header::kQueue, "the name of a queue");
    }
  }
  f.id = id_of(message.headers);
  f.attempt = attempt_of(message.headers, f.directives.complaint);
  f.token = text_of(find(message.headers, header::kToken));
  f.level = level_of(message.headers);
  f.first_failed_at = first_failed_of(message.headers);
  if (const std::string said = text_of(find(message.headers, header::kError)); !said.empty()) {
    f.error = clean_utf8(said, kErrorBytes);
  }
  if (f.error.empty()) f.error = "failed (no retry-error was given)";
  f.error = clean_utf8(f.error, kErrorBytes);
  // Parked for want of a queue, where complaints are not asked for: the reason quotes the error.
  if (f.queue.empty() && !f.directives.complaint.empty())
    f.error = clean_utf8(f.error, kErrorBytes / 2) + " [" + f.directives.complaint + "]";
  f.error_type = clean_utf8(text_of(find(message.headers, header::kErrorType)), 255);
  f.executor = clean_utf8(text_of(find(message.headers, header::kExecutor)), 255);
  return f;
}

ResultWord read_result(const Message& message) {
  ResultWord r;
  r.id = id_of(message.headers);
  r.error = clean_utf8(text_of(find(message.headers, header::kError)), kErrorBytes);
  r.error_type = clean_utf8(text_of(find(message.headers, header::kErrorType)), 255);
  r.executor = clean_utf8(text_of(find(message.headers, header::kExecutor)), 255);
  r.directives = read_directives(message.headers);
  r.attempt = attempt_of(message.headers, r.directives.complaint);
  r.token = text_of(find(message.headers, header::kToken));
  const std::string result = text_of(find(message.headers, header::kResult));
  r.succeeded = result == "succeeded";
  if (!r.id) {
    r.complaint = "no retry-id: it must carry the retry-id of the delivery";
  } else if (!r.succeeded && result != "failed") {
    r.complaint = "retry-result must be succeeded or failed, not '" + clean_utf8(result, 64) + "'";
  }
  return r;
}

Message strip(const Message& message, std::string* origin_json, std::string_view also) {
  Message out;
  out.body = message.body;
  out.properties = message.properties;
  out.properties.user_id.reset();
  out.properties.expiration.reset();
  out.properties.delivery_mode = 2;
  Table kept, off;
  if (message.headers) {
    for (const auto& [name, value] : *message.headers) {
      if (is_taken_off(name) || is_ours(name) || (!also.empty() && name == also)) {
        off.emplace_back(name, value);
      } else {
        kept.emplace_back(name, value);
      }
    }
    // A message that had no headers of its own before the broker added x-death has none again, as near as one
    // can tell: an empty table and no table are the same to every client.
    out.headers = std::move(kept);
  }
  if (origin_json != nullptr) {
    if (message.properties.user_id) off.emplace_back("property user-id", *message.properties.user_id);
    if (message.properties.expiration)
      off.emplace_back("property expiration", *message.properties.expiration);
    if (message.properties.delivery_mode.value_or(1) != 2)
      off.emplace_back("property delivery-mode", "transient");
    *origin_json = headers_to_json(off);
  }
  return out;
}

Message dress(const Message& message, const Task& task, std::string token) {
  Message out = message;
  if (!out.headers) out.headers.emplace();
  Table& headers = *out.headers;
  headers.emplace_back(header::kId, task.id.str());
  headers.emplace_back(header::kAttempt, static_cast<std::int64_t>(task.attempt));
  headers.emplace_back(header::kLevel, static_cast<std::int64_t>(task.level));
  headers.emplace_back(header::kLevels, static_cast<std::int64_t>(task.levels));
  headers.emplace_back(header::kLadder, task.ladder);
  add_origin(headers, task);
  headers.emplace_back(header::kToken, std::move(token));
  // A delay that has not failed yet has no such time.
  if (task.first_failed_at.ms != 0) headers.emplace_back(header::kFirstFailedAt, task.first_failed_at.ms);
  return out;
}

std::string intake_key(const Failure& failure, const Message& message) {
  if (!message.properties.message_id || message.properties.message_id->empty()) return {};
  std::string facts;
  append_field(facts, failure.queue);
  append_field(facts, *message.properties.message_id);
  append_field(facts, failure.died_at_s ? std::to_string(*failure.died_at_s) : "");
  append_field(facts, std::to_string(failure.death_count));
  // The body too: there are publishers whose message-ids are not unique, and two messages must never become
  // one.
  append_digest(facts, message.body);
  return key_of(facts);
}

}  // namespace rung
