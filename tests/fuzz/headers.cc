// A content header as it comes in at <prefix>.failed: read, understood, stripped, stored, read from the
// store, dressed and written again. Input: the payload of a content header frame.
#include "src/core/machine/headers.h"

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "src/core/machine/machine.h"
#include "src/core/message/identity.h"
#include "src/core/message/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/values.h"

namespace rung {
namespace {

using fuzz::hold;
using fuzz::hold_text;
using fuzz::same;

constexpr std::int64_t kYear10000 = 253'402'300'800;  // DATETIME ends before it

const RuleBook& rules() {
  static const RuleBook book({{"default", *levels::Ladder::from_list({Ms{5000}, Ms{30'000}}, 0.2)},
                              {"slow", *levels::Ladder::from_list({levels::kLongest})}},
                             {});
  return book;
}

std::string encoded(const Message& message) {
  std::string out;
  const auto done = rabbit::encode_content_header(message, out);
  hold(done.has_value(), "what was decoded can be encoded", done ? "" : done.error().message);
  return out;
}

Message decoded(std::string_view payload) {
  Message message;
  std::uint64_t body_size = 0;
  hold(rabbit::decode_content_header(payload, message, body_size), "what was encoded can be decoded");
  return message;
}

void hold_codec(const Message& message) {
  hold(!message.headers || fuzz::depth(*message.headers) <= rabbit::kMaxDepth + 1, "nesting is bounded");
  const std::string first = encoded(message);
  const Message again = decoded(first);
  // NaN and infinity become texts, once.
  const std::string second = encoded(again);
  hold(same(decoded(second), again) && encoded(decoded(second)) == second, "decode(encode(x)) is x");
  if (first == second) hold(first.size() == second.size(), "one text");
}

void hold_json(const Table& headers) {
  const std::string json = headers_to_json(headers);
  hold(is_utf8(json) && json.find('\0') == std::string::npos, "JSON is UTF-8");
  const auto back = headers_from_json(json);
  hold(back.has_value() && same(*back, headers), "headers through JSON are the same headers", json);
}

Failure hold_failure(const Message& message, const BrokerFacts& facts) {
  const Failure f = read_failure(message, "\xff", "", facts.failure);
  hold(!f.id || f.id->value > 0, "an id is positive");
  hold(f.attempt >= 0, "an attempt is not negative");
  hold_text(f.queue, 255, "a queue's name can be one");
  hold_text(f.exchange, 255, "exchange");
  hold_text(f.routing_key, 255, "routing key");
  hold_text(f.error, kErrorBytes, "error");
  hold(!f.error.empty(), "there is always an error text");
  hold_text(f.error_type, 255, "error type");
  hold_text(f.directives.ladder, 255, "ladder");
  hold_text(f.directives.complaint, 1000, "complaint");
  const auto& after = f.directives.retry_after;
  hold(!after || (*after >= Ms::zero() && *after <= levels::kLongest), "retry-after is a delay");
  hold(f.directives.max_attempts >= 0 && f.directives.max_attempts <= 1'000'000, "most attempts");
  hold(!f.failed_at_s || (*f.failed_at_s >= 0 && *f.failed_at_s < kYear10000), "a failure has a date");
  hold(intake_key(f, message, message_digest(strip(message, nullptr))).size() ==
           (message.properties.message_id.value_or("").empty() ? 0 : 16),
       "key");
  return f;
}

void hold_task(const Task& task, EpochMs now) {
  hold(task.state == State::scheduled || task.state == State::parked, "a new task waits or is parked");
  hold((task.state == State::scheduled) == task.next_at.has_value(), "what waits has its time");
  hold(!task.next_at || (*task.next_at >= now && *task.next_at <= now + 2 * levels::kLongest),
       "its time is near");
  hold_text(task.last_error, kErrorBytes, "last error");
  hold(rules().ladder(task.ladder) != nullptr && task.level == 1 && task.levels >= 1,
       "it stands on a ladder");
}

Table headers_of(const Message& message) { return message.headers.value_or(Table{}); }

// Out again as the contract says, however often.
Message hold_travel(const Message& message, const BrokerFacts& facts, const Task& task) {
  std::string origin;
  const Message stripped = strip(message, &origin, facts);
  hold(headers_from_json(origin).has_value(), "what was taken off is kept", origin);
  hold(same(strip(stripped, nullptr), stripped), "strip is done once");
  const Message dressed = dress(stripped, task, "1-token");
  const Message again = strip(dressed, &origin);
  hold(same(headers_of(again), headers_of(stripped)), "strip takes off what dress puts on");
  hold(again.properties == stripped.properties && again.body == message.body, "the rest stays");

  const Failure f = read_failure(dressed, "", "");
  hold(f.id && *f.id == task.id && f.attempt == task.attempt && f.directives.ladder == task.ladder,
       "what comes back names its task");
  return dressed;
}

void hold_properties(const Properties& properties) {
  const std::string json = properties_to_json(properties);
  const auto back = properties_from_json(json);
  hold(is_utf8(json) && back && *back == properties, "properties through JSON are the same", json);
}

}  // namespace
}  // namespace rung

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rung;
  Message message;
  std::uint64_t body_size = 0;
  rabbit::decode_content_header(fuzz::text_of(data, size), message,
                                body_size);  // what is read until an error is used
  hold_codec(message);
  if (message.headers) hold_json(*message.headers);
  hold_properties(message.properties);

  const EpochMs now{1'800'000'000'000};
  const BrokerFacts facts = rabbit::take_broker_headers(message, Inlet::failed);
  const Failure failure = hold_failure(message, facts);
  Task task;
  task.id = {4711};
  task.attempt = 3;
  task.queue = failure.queue;
  task.last_error = failure.error;
  task.first_failed_at = task.created_at = now;
  begin(task, failure.directives, rules(), now, 0.999);
  hold_task(task, now);
  hold_codec(hold_travel(message, facts, task));
  return 0;
}
