#include "src/core/rules/error_queues.h"

#include <algorithm>

#include "src/core/rules/target_rules.h"

namespace rung {
namespace {

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

std::vector<std::string> ErrorQueues::patterns() const {
  std::vector<std::string> out;
  for (const ErrorQueue& queue : queues_) out.push_back(queue.from);
  return out;
}

}  // namespace rung
