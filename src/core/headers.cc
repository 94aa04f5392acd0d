#include "src/core/headers.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "levels/duration.h"
#include "src/core/message_json.h"
#include "src/core/utf8.h"

namespace rung {
namespace {

// What must not travel on. field.md, traps 3 and 4: the broker's own bookkeeping (RabbitMQ 4 ignores it on
// re-publish, older ones count on from it), and what would fan out again.
constexpr std::array<std::string_view, 5> kTakenOff = {"x-death", "x-delivery-count", "x-acquired-count",
                                                       "CC", "BCC"};
constexpr std::array<std::string_view, 2> kTakenOffPrefixes = {"x-first-death-", "x-last-death-"};
constexpr std::array<std::string_view, 15> kOurs = {
    header::kId,    header::kAttempt,   header::kLevel,  header::kLevels,      header::kLadder,
    header::kQueue, header::kError,     header::kAfter,  header::kMaxAttempts, header::kFirstFailedAt,
    header::kNever, header::kErrorType, header::kResult, header::kNotBefore,   "retry-complaint"};

bool is_taken_off(std::string_view name) {
  return std::ranges::find(kTakenOff, name) != kTakenOff.end() ||
         std::ranges::any_of(kTakenOffPrefixes, [&](std::string_view p) { return name.starts_with(p); });
}
bool is_ours(std::string_view name) { return std::ranges::find(kOurs, name) != kOurs.end(); }

// The value of a header; nullptr where it is not there or null, as clients write what was left unset.
const Value* said(const std::optional<Table>& headers, std::string_view name) {
  const Value* value = find(headers, name);
  return value != nullptr && !std::holds_alternative<std::monostate>(value->v) ? value : nullptr;
}

std::string text_of(const Value* value) {
  const std::string* text = value != nullptr ? value->as_text() : nullptr;
  return text != nullptr ? *text : std::string{};
}

// An integer of any width, or its decimal text: clients differ in what they make of a number.
std::optional<std::int64_t> int_of(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto number = value->as_int()) return number;
  const std::string* text = value->as_text();
  if (text == nullptr || text->empty()) return std::nullopt;
  std::int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return number;
}

std::optional<bool> bool_of(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (const bool* flag = std::get_if<bool>(&value->v)) return *flag;
  if (const auto number = int_of(value)) return *number != 0;
  std::string text = text_of(value);
  // "False" is what Python makes of it.
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (text == "true" || text == "yes") return true;
  if (text == "false" || text == "no") return false;
  return std::nullopt;
}

void complain(std::string& complaint, std::string_view name, std::string_view wants) {
  if (!complaint.empty()) complaint += "; ";
  complaint.append(name).append(" is not understood: ").append(wants);
}

// "5s", or a number of seconds as HTTP's Retry-After has it.
std::optional<Ms> duration_of(const Value& value) {
  if (const auto seconds = int_of(&value)) {
    if (*seconds < 0) return std::nullopt;
    // It is capped by the ladder anyway.
    return std::chrono::seconds{std::min<std::int64_t>(*seconds, levels::kLongest / std::chrono::seconds{1})};
  }
  const auto parsed = levels::parse_duration(text_of(&value));
  return parsed ? std::optional<Ms>(*parsed) : std::nullopt;
}

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
    // Who says retry-never in words that we cannot read still means something: a person shall look.
    if (!flag) complain(d.complaint, header::kNever, "true or false");
    d.never = d.never || flag.value_or(true);
  }
  return d;
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

// "" where no queue can have that name: AMQP's names have 255 bytes at most, RabbitMQ's are UTF-8.
std::string queue_name(const Value* value) {
  std::string name = text_of(value);
  return name.size() <= 255 && is_utf8(name) ? name : std::string{};
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

std::array<unsigned char, 32> sha256(std::string_view data) {
  std::array<unsigned char, 32> digest{};
  EVP_Digest(data.data(), data.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

// Told apart by length, so that no two lists of fields read alike.
void append_field(std::string& to, std::string_view field) {
  to.append(std::to_string(field.size())).append(":").append(field);
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
  if (f.queue.empty()) f.queue = queue_name(find(message.headers, "x-last-death-queue"));
  if (reason.empty()) reason = text_of(find(message.headers, "x-last-death-reason"));
  if (!reason.empty()) f.error = "dead-lettered: " + reason + " (queue " + f.queue + ")";
  f.directives = read_directives(message.headers);
  if (const Value* queue = said(message.headers, header::kQueue)) {
    if (const std::string name = queue_name(queue); !name.empty()) {
      f.queue = name;
    } else {
      complain(f.directives.complaint, header::kQueue, "the name of a queue");
    }
  }
  f.id = id_of(message.headers);
  f.attempt = attempt_of(message.headers, f.directives.complaint);
  if (const std::string said = text_of(find(message.headers, header::kError)); !said.empty()) {
    f.error = clean_utf8(said, kErrorBytes);
  }
  if (f.error.empty()) f.error = "failed (no retry-error was given)";
  f.error = clean_utf8(f.error, kErrorBytes);
  // Parked for want of a queue, where complaints are not asked for: the reason quotes the error.
  if (f.queue.empty() && !f.directives.complaint.empty())
    f.error = clean_utf8(f.error, kErrorBytes / 2) + " [" + f.directives.complaint + "]";
  f.error_type = clean_utf8(text_of(find(message.headers, header::kErrorType)), 255);
  return f;
}

ResultWord read_result(const Message& message) {
  ResultWord r;
  r.id = id_of(message.headers);
  r.error = clean_utf8(text_of(find(message.headers, header::kError)), kErrorBytes);
  r.error_type = clean_utf8(text_of(find(message.headers, header::kErrorType)), 255);
  r.directives = read_directives(message.headers);
  r.attempt = attempt_of(message.headers, r.directives.complaint);
  const std::string result = text_of(find(message.headers, header::kResult));
  r.succeeded = result == "succeeded";
  if (!r.id) {
    r.complaint = "no retry-id: it must carry the retry-id of the delivery";
  } else if (!r.succeeded && result != "failed") {
    r.complaint = "retry-result must be succeeded or failed, not '" + clean_utf8(result, 64) + "'";
  }
  return r;
}

Message strip(const Message& message, std::string* origin_json) {
  Message out;
  out.body = message.body;
  out.properties = message.properties;
  out.properties.user_id.reset();
  out.properties.expiration.reset();
  out.properties.delivery_mode = 2;
  Table kept, off;
  if (message.headers) {
    for (const auto& [name, value] : *message.headers) {
      if (is_taken_off(name) || is_ours(name)) {
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

Message dress(const Message& message, const Task& task) {
  Message out = message;
  if (!out.headers) out.headers.emplace();
  Table& headers = *out.headers;
  headers.emplace_back(header::kId, task.id.str());
  headers.emplace_back(header::kAttempt, static_cast<std::int64_t>(task.attempt));
  headers.emplace_back(header::kLevel, static_cast<std::int64_t>(task.level));
  headers.emplace_back(header::kLevels, static_cast<std::int64_t>(task.levels));
  headers.emplace_back(header::kLadder, task.ladder);
  headers.emplace_back(header::kFirstFailedAt, task.first_failed_at.ms);
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
  const auto body = sha256(message.body);
  append_field(facts, {reinterpret_cast<const char*>(body.data()), body.size()});
  const auto digest = sha256(facts);
  return {reinterpret_cast<const char*>(digest.data()), 16};
}

}  // namespace rung
