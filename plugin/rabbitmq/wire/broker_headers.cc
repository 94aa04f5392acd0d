#include "plugin/rabbitmq/wire/broker_headers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <variant>

#include "levels/duration.h"
#include "src/core/message/header_values.h"

namespace rung::rabbit {

namespace {

using namespace reading;

constexpr std::array<std::string_view, 5> kReserved = {"x-death", "x-delivery-count", "x-acquired-count",
                                                       "CC", "BCC"};
constexpr std::array<std::string_view, 3> kReservedPrefixes = {"x-first-death-", "x-last-death-", "x-opt-"};

bool is_death(std::string_view name) {
  return name == "x-death" || name.starts_with("x-first-death-") || name.starts_with("x-last-death-");
}

// x-death is an array of tables, the newest death first.
const Table* newest_death(const std::optional<Table>& headers) {
  const Value* deaths = find(headers, "x-death");
  const Array* array = deaths != nullptr ? std::get_if<Array>(&deaths->v) : nullptr;
  return array != nullptr && !array->empty() ? std::get_if<Table>(&array->front().v) : nullptr;
}

void read_death(const Table& death, FailureFacts& facts) {
  facts.queue = queue_name(find(death, "queue"));
  facts.reason = text_of(find(death, "reason"));
  if (const Value* exchange = find(death, "exchange")) facts.exchange = text_of(exchange);
  if (const Value* keys = find(death, "routing-keys")) {
    const Array* array = std::get_if<Array>(&keys->v);
    if (array != nullptr && !array->empty()) facts.routing_key = text_of(&array->front());
  }
  if (const Value* time = find(death, "time")) {
    // Excludes dates that a column or an int64 of ms could not hold.
    const auto* stamp = std::get_if<Timestamp>(&time->v);
    if (stamp != nullptr && stamp->seconds < static_cast<std::uint64_t>(kYear10000.ms / 1000))
      facts.failed_at_s = static_cast<std::int64_t>(stamp->seconds);
  }
  facts.count = int_of(find(death, "count")).value_or(0);
}

FailureFacts read_failure_facts(const std::optional<Table>& headers) {
  FailureFacts facts;
  facts.record = "x-death";
  if (const Table* death = newest_death(headers)) read_death(*death, facts);
  if (!facts.queue.empty()) facts.queue_by = "the header x-death";
  if (facts.queue.empty()) {
    facts.queue = queue_name(find(headers, "x-last-death-queue"));
    if (!facts.queue.empty()) facts.queue_by = "the header x-last-death-queue";
  }
  if (facts.reason.empty()) facts.reason = text_of(find(headers, "x-last-death-reason"));
  facts.unseen = facts.reason == "maxlen";
  return facts;
}

// The delayed-message exchange accepted x-delay as an integer, as a float (truncated) and as the text of an
// integer. We do not copy two behaviours that nobody can have wanted: text that is not a number
// closed the publisher's channel; a delay over 2^32-1 ms, or one that it could not read, was delivered at
// once. In these cases we keep the delay, or park the message with the reason.
DelayFacts read_delay_facts(const std::optional<Table>& headers) {
  DelayFacts facts;
  facts.header = kDelayHeader;
  const Value* value = said(headers, kDelayHeader);
  if (value == nullptr) return facts;
  const auto number = number_of(*value);
  if (!number) {
    facts.refusal = kDelayHeader;
    facts.refusal.append(shown(*value)).append(" is not a number of milliseconds");
  } else if (*number > levels::kLongest.count()) {
    facts.refusal = kDelayHeader;
    facts.refusal.append(" is longer than ").append(levels::format_duration(levels::kLongest));
    facts.refusal += ", the maximum";
  } else {
    facts.delay = Ms{std::max<std::int64_t>(*number, 0)};
  }
  return facts;
}

// The inlet whose exchange, and queue, has this name.
std::optional<Inlet> inlet_named(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view end = name.substr(prefix.size());
  if (end == ".failed") return Inlet::failed;
  if (end == ".results") return Inlet::results;
  if (end == ".delay") return Inlet::delay;
  return std::nullopt;
}

}  // namespace

ReservedHeaders reserved_headers() { return {kReserved, kReservedPrefixes, kDirectReplyTo}; }

void take_back(Delivery& delivery, const BrokerOptions& options) {
  if (delivery.inlet == Inlet::error) return;
  if (const auto own = inlet_named(delivery.exchange, options.prefix)) delivery.inlet = *own;
  if (std::ranges::count(options.rabbitmq.delay_exchanges, delivery.exchange) > 0)
    delivery.inlet = Inlet::delay;
  const Table* death = newest_death(delivery.message.headers);
  if (death == nullptr || text_of(find(*death, "reason")) != "expired") return;
  const auto from = inlet_named(text_of(find(*death, "queue")), options.prefix);
  if (!from) return;
  FailureFacts facts;
  read_death(*death, facts);
  delivery.inlet = *from;
  delivery.expired = true;
  delivery.exchange = facts.exchange.value_or("");
  delivery.routing_key = facts.routing_key.value_or("");
  // As it was before. What else the broker wrote is of this death if there is no other.
  Table& headers = *delivery.message.headers;
  const auto deaths = std::ranges::find(headers, "x-death", &Table::value_type::first);
  Array& array = std::get<Array>(deaths->second.v);
  array.erase(array.begin());
  if (array.empty()) std::erase_if(headers, [](const auto& header) { return is_death(header.first); });
}

BrokerFacts take_broker_headers(Message& message, Inlet inlet) {
  BrokerFacts facts;
  if (inlet == Inlet::results) return facts;
  if (inlet == Inlet::failed || inlet == Inlet::error) facts.failure = read_failure_facts(message.headers);
  if (inlet == Inlet::delay) facts.delay = read_delay_facts(message.headers);
  if (!message.headers) return facts;
  const ReservedHeaders reserved = reserved_headers();
  const auto is_reserved = [&](const auto& header) { return reserved.contains(header.first); };
  Table& headers = *message.headers;
  if (std::ranges::none_of(headers, is_reserved)) return facts;
  // A message that had no headers before RabbitMQ added its own keeps an empty table: every client sees the
  // same.
  const auto kept = std::stable_partition(headers.begin(), headers.end(),
                                          [&](const auto& header) { return !is_reserved(header); });
  facts.headers.assign(std::make_move_iterator(kept), std::make_move_iterator(headers.end()));
  headers.erase(kept, headers.end());
  return facts;
}

}  // namespace rung::rabbit
