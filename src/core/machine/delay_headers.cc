// Reads the request of a delayed message.
#include "src/core/base/utf8.h"
#include "src/core/machine/headers.h"
#include "src/core/message/digest.h"
#include "src/core/message/header_reading.h"

namespace rung {
namespace {

using namespace reading;

// Values between these are dates of 1970 if read as ms, of 2001 to 5138 if read as seconds.
constexpr std::int64_t kLikeSeconds = 1'000'000'000, kLikeMs = 100'000'000'000;

void read_not_before(const Value& value, DelayRequest& request) {
  const std::string name(header::kNotBefore);
  Number number = number_of(value);
  if (const auto* stamp = std::get_if<Timestamp>(&value.v)) {  // seconds, by its type
    number.understood = true;
    number.too_large = stamp->seconds >= static_cast<std::uint64_t>(kYear10000.ms / 1000);
    if (!number.too_large) {
      request.not_before = {static_cast<std::int64_t>(stamp->seconds) * 1000};
      return;
    }
  }
  if (!number.understood) {
    request.refusal = name + shown(value) + " is not a number of milliseconds since 1970";
  } else if (number.too_large || number.value >= kYear10000.ms) {
    request.refusal = name + " is after the year 9999: it must be in milliseconds since 1970";
  } else if (number.value >= kLikeSeconds && number.value < kLikeMs) {
    request.refusal = name + " " + std::to_string(number.value) +
                      " looks like seconds since 1970: it must be in milliseconds (1000 times as much)";
  } else {
    request.not_before = {number.value};
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
  std::string facts;
  append_field(facts, "delay");
  append_field(facts, request.target.queue.empty() ? request.otherwise : request.target.queue);
  append_field(facts, request.target.exchange);
  append_field(facts, request.target.routing_key);
  append_field(facts, std::to_string(request.delay.count()));
  append_field(facts, request.not_before ? std::to_string(request.not_before->ms) : "");
  append_field(facts, request.exchange);
  append_field(facts, request.routing_key);
  append_field(facts, digest);
  append_unpublished(facts, message.properties);
  // If a consumer publishes our delivery again, it is a new delay.
  append_field(facts, text_of(find(message.headers, header::kId)));
  append_field(facts, std::to_string(int_of(find(message.headers, header::kAttempt)).value_or(0)));
  return key_of_facts(facts);
}

}  // namespace rung
