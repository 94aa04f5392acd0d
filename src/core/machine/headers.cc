#include "src/core/machine/headers.h"

#include <strings.h>

#include <algorithm>
#include <utility>

#include "levels/duration.h"
#include "src/core/base/utf8.h"
#include "src/core/message/header_values.h"
#include "src/core/message/identity.h"
#include "src/core/message/message.h"
#include "src/core/rules/dialect.h"
#include "src/core/task/task.h"

namespace rung {
namespace {

using namespace reading;

// An invalid attempt number counts as not given: it means the current attempt.
int attempt_of(const std::optional<Table>& headers, std::string& complaint) {
  const Value* attempt = said(headers, header::kAttempt);
  if (attempt == nullptr) return 0;
  const auto number = int_of(attempt);
  if (number && *number > 0 && *number <= 1'000'000'000) return static_cast<int>(*number);
  complain(complaint, header::kAttempt, "a whole number from 1, as the delivery had it");
  return 0;
}

// Our own headers, returned unchanged: a value that does not parse counts as not given.
std::optional<int> level_of(const std::optional<Table>& headers) {
  const auto number = int_of(find(headers, header::kLevel));
  if (!number || *number < 0 || *number > 1'000'000) return std::nullopt;
  return static_cast<int>(*number);
}
std::optional<EpochMs> first_failed_of(const std::optional<Table>& headers) {
  const auto number = int_of(find(headers, header::kFirstFailedAt));
  if (!number || *number <= 0 || *number >= kYear10000.ms) return std::nullopt;
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

// For display only: nothing is published to it.
std::string label(std::string_view text) { return clean_utf8(text, 255); }

std::optional<bool> bool_of(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (const bool* flag = std::get_if<bool>(&value->v)) return *flag;
  if (const auto number = int_of(value)) return *number != 0;
  const std::string text = text_of(value);
  const auto is = [&](const char* word) { return strcasecmp(text.c_str(), word) == 0; };
  if (is("true") || is("yes")) return true;
  if (is("false") || is("no")) return false;  // Python writes "False"
  return std::nullopt;
}

// "5s", or a number of seconds as in HTTP's Retry-After.
std::optional<Ms> duration_of(const Value& value) {
  if (const auto seconds = int_of(&value)) {
    if (*seconds < 0) return std::nullopt;
    // It is capped by the ladder anyway.
    return std::chrono::seconds{std::min<std::int64_t>(*seconds, levels::kLongest / std::chrono::seconds{1})};
  }
  const auto parsed = levels::parse_duration(text_of(&value));
  return parsed ? std::optional<Ms>(*parsed) : std::nullopt;
}

// What a consumer attached to a failure.
Directives read_directives(const std::optional<Table>& headers) {
  Directives d;
  if (const Value* after = said(headers, header::kAfter)) {
    d.retry_after = duration_of(*after);
    if (!d.retry_after) complain(d.complaint, header::kAfter, "a duration like 30s, or whole seconds");
  }
  d.ladder = clean_utf8(text_of(find(headers, header::kLadder)), 255);
  if (const Value* most = said(headers, header::kMaxAttempts)) {
    const auto number = int_of(most);
    if (!number || *number < 0 || *number > 1'000'000) {
      complain(d.complaint, header::kMaxAttempts, "a whole number from 0 to 1000000");
    } else if (*number == 0) {
      d.never = true;
    } else {
      d.max_attempts = static_cast<int>(*number);
    }
  }
  if (const Value* never = said(headers, header::kNever)) {
    const auto flag = bool_of(never);
    // An unreadable retry-never still means something: a person has to look.
    if (!flag) complain(d.complaint, header::kNever, "true or false");
    d.never = d.never || flag.value_or(true);
  }
  return d;
}

// The properties that a digest leaves out, because they are not published again.
std::string unpublished(const Properties& properties) {
  return facts_of({properties.user_id.value_or(""), properties.expiration.value_or(""),
                   std::to_string(properties.delivery_mode.value_or(1))});
}

}  // namespace

Failure read_failure(const Message& message, std::string_view exchange, std::string_view routing_key,
                     const FailureFacts& facts) {
  Failure f;
  f.exchange = label(facts.exchange.value_or(std::string(exchange)));
  f.routing_key = label(facts.routing_key.value_or(std::string(routing_key)));
  f.queue = facts.queue;
  f.queue_by = facts.queue_by;
  f.failed_at_s = facts.failed_at_s;
  f.failed_count = facts.count;
  f.unseen = facts.unseen;
  f.queue_by_config = facts.queue_by_config;
  if (!facts.reason.empty()) f.error = "dead-lettered: " + facts.reason + " (queue " + f.queue + ")";
  if (!facts.error.empty()) f.error = facts.error;
  f.token = text_of(find(message.headers, header::kToken));
  // A parked copy says in retry-queue and retry-error what was, the record where and how it has failed since.
  const bool recorded = is_parked_copy(publish_of_token(f.token)) && !facts.queue.empty();
  // From our own retry, whose row may be gone, or from a consumer that names the message's origin.
  const Value* origin = find(message.headers, header::kOriginExchange);
  // A consumer that names the queue published this: what x-death says is of the message's earlier life.
  const bool published = !recorded && said(message.headers, header::kQueue) != nullptr;
  f.routed_by_record = !published && facts.routing_key.has_value() && !facts.routing_key->empty();
  if (origin != nullptr && (published || f.exchange == label(exchange) || f.exchange.ends_with(".return"))) {
    f.routed_by_record = false;
    f.exchange = label(text_of(origin));
    // The consumer published with the original key, if it names none.
    const Value* key = find(message.headers, header::kOriginRoutingKey);
    f.routing_key = label(key != nullptr ? text_of(key) : std::string(routing_key));
  }
  f.directives = read_directives(message.headers);
  if (const Value* queue =
          facts.queue_by_config || recorded ? nullptr : said(message.headers, header::kQueue)) {
    if (const std::string name = queue_name(queue); !name.empty()) {
      f.queue = name;
      f.queue_by = "the header retry-queue";
    } else {
      complain(f.directives.complaint, header::kQueue, "the name of a queue");
    }
  }
  f.id = id_of(message.headers);
  f.attempt = attempt_of(message.headers, f.directives.complaint);
  f.level = level_of(message.headers);
  f.first_failed_at = first_failed_of(message.headers);
  if (const std::string said = text_of(find(message.headers, header::kError)); !said.empty() && !recorded) {
    f.error = clean_utf8(said, kErrorBytes);
  }
  if (f.error.empty()) f.error = "failed (no retry-error was given)";
  f.error = clean_utf8(f.error, kErrorBytes);
  // Parked because no queue is known, where complaints are not read: the reason quotes the error.
  if (f.queue.empty() && !f.directives.complaint.empty())
    f.error = clean_utf8(f.error, kErrorBytes / 2) + " [" + f.directives.complaint + "]";
  f.error_type = clean_utf8(text_of(find(message.headers, header::kErrorType)), 255);
  if (f.error_type.empty()) f.error_type = facts.error_type;
  f.executor = clean_utf8(text_of(find(message.headers, header::kExecutor)), 255);
  if (f.executor.empty()) f.executor = facts.executor;
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

Message strip(const Message& message, std::string* origin_json, const BrokerFacts& facts) {
  Message out;
  out.body = message.body;
  out.properties = message.properties;
  out.properties.user_id.reset();
  out.properties.expiration.reset();
  out.properties.delivery_mode = 2;
  Table kept, off;
  if (message.headers) {
    for (const auto& [name, value] : *message.headers) {
      if (is_own_header(name) || (!facts.delay.header.empty() && name == facts.delay.header)) {
        off.emplace_back(name, value);
      } else {
        kept.emplace_back(name, value);
      }
    }
    out.headers = std::move(kept);
  }
  if (origin_json != nullptr) {
    off.insert(off.end(), facts.headers.begin(), facts.headers.end());
    // What the dialect read: the row does not record which dialect it was.
    const auto add_read = [&](std::string_view name, const std::string& text) {
      if (!text.empty() && find(message.headers, name) == nullptr) off.emplace_back(std::string(name), text);
    };
    add_read(header::kError, clean_utf8(facts.failure.error, kErrorBytes));
    add_read(header::kErrorType, facts.failure.error_type);
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
  const bool failed = task.first_failed_at.ms != 0;  // else a delay
  if (failed) {
    headers.emplace_back(header::kOriginExchange, task.exchange);
    headers.emplace_back(header::kOriginRoutingKey, task.routing_key);
    headers.emplace_back(header::kReason, std::string(retry_reason(task)));
  }
  headers.emplace_back(header::kToken, std::move(token));
  if (failed) headers.emplace_back(header::kFirstFailedAt, task.first_failed_at.ms);
  return out;
}

std::string intake_key(const Failure& failure, const Message& message, std::string_view digest) {
  if (!message.properties.message_id || message.properties.message_id->empty()) return {};
  // The digest: message-ids of some publishers are not unique, and two messages must never become one.
  std::string facts = facts_of({failure.queue, failure.exchange, failure.routing_key,
                                failure.failed_at_s ? std::to_string(*failure.failed_at_s) : "",
                                std::to_string(failure.failed_count), digest}) +
                      unpublished(message.properties);
  // The failure of a moved parked copy is a new one, even if it equals the failure of the original.
  if (is_parked_copy(publish_of_token(failure.token))) facts += facts_of({failure.token});
  return key_of_facts(facts);
}

// --- the request of a delayed message

namespace {

// Values between these are dates of 1970 if read as ms, of 2001 to 5138 if read as seconds.
constexpr std::int64_t kLikeSeconds = 1'000'000'000, kLikeMs = 100'000'000'000;

void read_not_before(const Value& value, DelayRequest& request) {
  const std::string name(header::kNotBefore);
  auto number = number_of(value);
  if (const auto* stamp = std::get_if<Timestamp>(&value.v)) {  // seconds, by its type
    number = kYear10000.ms;
    if (stamp->seconds < static_cast<std::uint64_t>(kYear10000.ms / 1000)) {
      request.not_before = {static_cast<std::int64_t>(stamp->seconds) * 1000};
      return;
    }
  }
  if (!number) {
    request.refusal = name + shown(value) + " is not a number of milliseconds since 1970";
  } else if (*number >= kYear10000.ms) {
    request.refusal = name + " is after the year 9999: it must be in milliseconds since 1970";
  } else if (*number >= kLikeSeconds && *number < kLikeMs) {
    request.refusal = name + " " + std::to_string(*number) +
                      " looks like seconds since 1970: it must be in milliseconds (1000 times as much)";
  } else {
    request.not_before = {*number};
  }
}

// Whether the name can be published to and stored in a column unchanged.
bool fits(std::string_view name) { return name.size() <= 255 && clean_utf8(name, 255) == name; }

// The value of one of the two target headers, if it is present and a valid name.
std::optional<std::string> name_in(const Message& message, std::string_view header, DelayRequest& request) {
  const Value* value = said(message.headers, header);
  if (value == nullptr) return std::nullopt;
  const std::string* text = value->as_text();
  if (text != nullptr && fits(*text)) return *text;
  request.refusal = std::string(header) + " is not a valid name: it must be UTF-8 text of at most 255 bytes";
  return std::nullopt;
}

void read_target(const Message& message, std::string_view published_to, std::string_view routing_key,
                 const DelayRoutes& routes, DelayRequest& request) {
  const auto queue = name_in(message, header::kQueue, request);
  if (queue && !queue->empty()) {
    request.target.queue = *queue;
    request.target_by = "the header retry-queue";
    return;
  }
  auto exchange = name_in(message, header::kExchange, request);
  auto key = name_in(message, header::kRoutingKey, request);
  if (exchange) {
    request.target_by = "the header retry-exchange";
  } else {
    if (const auto move = routes.moves.find(published_to); move != routes.moves.end())
      exchange = move->second;
  }
  if (exchange || key) {
    if (!key) {
      if (!fits(routing_key) && request.refusal.empty())
        request.refusal = "its routing key cannot be stored: it must be UTF-8 text of at most 255 bytes";
      key = clean_utf8(routing_key, 255);
    }
    // The default exchange's routing key is a queue.
    if (exchange.value_or("").empty()) {
      request.target.queue = *key;
      request.target_by = "the routing key";
    } else {
      request.target.exchange = *exchange;
      request.target.routing_key = *key;
    }
  } else if (published_to == routes.inlet && routing_key != routes.inlet && fits(routing_key)) {
    request.otherwise = routing_key;
    request.target_by = "the routing key";
  }
}

}  // namespace

DelayRequest read_delay(const Message& message, std::string_view exchange, std::string_view routing_key,
                        const DelayRoutes& routes, const DelayFacts& asked) {
  DelayRequest request;
  request.exchange = clean_utf8(exchange, 255);
  request.routing_key = clean_utf8(routing_key, 255);
  request.directives = read_directives(message.headers);
  request.directives.retry_after.reset();  // nothing has failed
  // A consumer that copies the headers of a delivery of ours: the ladder is what Rung set, not its wish.
  if (said(message.headers, header::kId) != nullptr) request.directives.ladder.clear();
  // Before any failure, retry-never can only mean: one attempt.
  if (request.directives.never) request.directives.max_attempts = 1;
  request.directives.never = false;
  read_target(message, exchange, routing_key, routes, request);
  request.delay = asked.delay;
  if (!asked.refusal.empty()) request.refusal = asked.refusal;
  if (const Value* at = said(message.headers, header::kNotBefore)) read_not_before(*at, request);
  return request;
}

std::string intake_key(const DelayRequest& request, const Message& message, std::string_view digest) {
  if (!message.properties.message_id || message.properties.message_id->empty()) return {};
  // Id and attempt: if a consumer publishes our delivery again, it is a new delay.
  return key_of_facts(
      facts_of({"delay", request.target.queue.empty() ? request.otherwise : request.target.queue,
                request.target.exchange, request.target.routing_key, std::to_string(request.delay.count()),
                request.not_before ? std::to_string(request.not_before->ms) : "", request.exchange,
                request.routing_key, digest}) +
      unpublished(message.properties) +
      facts_of({text_of(find(message.headers, header::kId)),
                std::to_string(int_of(find(message.headers, header::kAttempt)).value_or(0))}));
}

}  // namespace rung
