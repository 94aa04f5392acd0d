// The task that an incoming message becomes.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "src/bridge/intake/intake.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/utf8.h"

namespace rung::bridge {
namespace {

// If we die between commit and ack, the broker redelivers soon. If the task finished longer ago, the message
// is a later one that looks the same and was just in our prefetch when we died.
constexpr Ms kRedeliveredWithin{std::chrono::hours{1}};
// A row created after this delivery arrived is of the same intake: our connection was lost unnoticed, and
// another instance got the redelivery.
constexpr Ms kAfterArrival{1};

std::string short_text(const std::string& text) { return clean_utf8(text, kShortString); }

// What the config says of the error queue that the message comes from.
Directives with_error_queue(Directives directives, const std::string& source, const RuleBook& rules) {
  const ErrorQueue* entry = rules.error_queues().find(source);
  if (entry != nullptr && directives.ladder.empty()) directives.ladder = entry->ladder;
  return directives;
}

// When it failed, by the broker's record; none: as far as we know, just now. The record may be of an earlier
// life of the message: RabbitMQ to 3.13 keeps x-death when a message is published again, and counts further
// deaths in the same entry, which keeps the time of the first one.
std::optional<EpochMs> failed_long_ago(const Failure& f, const Delivery& delivery, EpochMs now) {
  constexpr Ms kPrecision{2000};  // the record has whole seconds: within two our own clock is more precise
  constexpr Ms kLongestStay = std::chrono::days{30};  // in <prefix>.failed; in an error queue there is none
  if (!f.failed_at_s || *f.failed_at_s <= 0 || delivery.facts.failure.count > 1) return std::nullopt;
  const EpochMs at{*f.failed_at_s * 1000};
  if (at + kPrecision >= now) return std::nullopt;
  if (delivery.inlet != Inlet::error && now - at > kLongestStay) return std::nullopt;
  return at;
}

// NewTask::same_if_over_since.
EpochMs same_since(const Delivery& delivery, EpochMs now) {
  return delivery.redelivered ? now - kRedeliveredWithin : now + kAfterArrival;
}

// What both kinds have.
NewTask task_of(const Delivery& delivery, const Arrival& arrival) {
  const Message& message = delivery.message;
  NewTask fresh;
  Task& task = fresh.task;
  task.tag = short_text(message.properties.type.value_or(""));
  task.message_id = short_text(message.properties.message_id.value_or(""));
  task.created_at = arrival.now;
  task.body_bytes = static_cast<std::int64_t>(message.body.size());
  auto stripped = std::make_shared<Message>(strip(message, &fresh.origin_json, delivery.facts));
  task.digest = message_digest(*stripped);
  task.rule_headers = rule_headers_of(*stripped, arrival.rules);
  fresh.message = std::move(stripped);
  return fresh;
}

// Why the failure is parked for a person to look at; "" = it is not parked.
std::string why_parked(const Delivery& delivery, const Failure& failure, const RuleBook& rules) {
  const auto last_error = [&] { return "; last error: " + failure.error; };
  if (failure.queue.empty())
    return "its queue is unknown: no usable retry-queue header, no " +
           std::string(delivery.facts.failure.record) + last_error();
  if (failure.queue.size() > kShortString || !is_utf8(failure.queue))
    return "the name of its queue is invalid (over 255 bytes, or not UTF-8)";
  if (rules.error_queues().find(failure.queue) != nullptr)
    return std::string(failure.queue_by) + " names '" + clean_utf8(failure.queue, kShortString) +
           "', which is an error queue itself" + last_error();
  if (!failure.queue_by_config && !rules.targets().allows(failure.queue))
    return not_allowed(failure.queue_by, failure.queue) + last_error();
  return {};
}

}  // namespace

NewTask failed_task(const Delivery& delivery, const Failure& f, const Arrival& arrival,
                    std::string park_reason, const Task* parent, const std::string& remark) {
  const auto& [rules, now, random] = arrival;
  NewTask fresh = task_of(delivery, arrival);
  Task& task = fresh.task;
  task.queue = short_text(f.queue);
  task.exchange = short_text(f.exchange);
  task.routing_key = short_text(f.routing_key);
  task.first_failed_at = now;
  const bool goes_on = !remark.empty();
  if (goes_on && parent->first_failed_at.ms != 0 && parent->first_failed_at <= now) {
    task.first_failed_at = parent->first_failed_at;
  } else if (const auto failed_at = failed_long_ago(f, delivery, now)) {
    task.first_failed_at = *failed_at;
    task.uncounted_time = now - *failed_at;  // limits count from when we saw it: it waited for us
  }
  task.error_queue = short_text(delivery.source);
  if (parent != nullptr) task.parent = parent->id;
  task.last_error = goes_on ? with_remark(f.error, remark) : f.error;
  int level = 1;
  if (goes_on) {
    // The row may have climbed since: then the delivery's own level counts.
    level += std::min(f.level.value_or(parent->level), parent->level);
    task.ladder_pinned = parent->ladder_pinned;
    if (task.ladder_pinned) task.ladder = parent->ladder;
    if (parent->max_attempts > 0)
      task.max_attempts = std::max(parent->max_attempts - counted_attempts(*parent), 1);
  }
  task.error_type = f.error_type;
  fresh.intake_key = intake_key(f, delivery.message, task.digest);
  fresh.may_be_its_retry = delivery.inlet == Inlet::error && !f.failed_at_s;
  if (f.failed_at_s) {
    fresh.same_if_over_since = EpochMs{};  // this failure happened only once
  } else {
    fresh.same_if_over_since = same_since(delivery, now);
  }
  // Anybody who may publish can write a retry-after: only a delivery of ours speaks for its queue.
  if (f.proven || planted(Bug::hold_without_proof)) fresh.holds_queue = queue_hold(task, f.directives, rules);
  if (park_reason.empty()) park_reason = why_parked(delivery, f, rules);
  if (park_reason.empty()) {
    begin(task, with_error_queue(f.directives, delivery.source, rules), rules, now, random, level);
  } else {
    begin_parked(task, park_reason, rules, now);
  }
  return fresh;
}

NewTask delayed_task(const Delivery& delivery, const DelayRoutes& routes, const Arrival& arrival) {
  const auto& [rules, now, random] = arrival;
  const Message& message = delivery.message;
  const DelayRequest request =
      read_delay(message, delivery.exchange, delivery.routing_key, routes, delivery.facts.delay);
  Target target = request.target;
  std::string_view named_by = request.target_by;
  if (!target.is_set()) {
    const TagRules* tag = message.properties.type ? rules.tag(*message.properties.type) : nullptr;
    const bool by_tag = tag != nullptr && tag->target.is_set();
    target = by_tag ? tag->target : Target{request.otherwise, "", ""};
    if (by_tag) named_by = {};
  }
  std::string park_reason = request.refusal;
  const std::string& name = target.queue.empty() ? target.exchange : target.queue;
  if (park_reason.empty() && !named_by.empty() && !name.empty() && !rules.targets().allows(name))
    park_reason = not_allowed(named_by, name);
  if (park_reason.empty()) park_reason = refused_target(target, rules.targets());

  NewTask fresh = task_of(delivery, arrival);
  Task& task = fresh.task;
  task.queue = target.queue;
  task.exchange = target.exchange;
  task.routing_key = target.routing_key;
  fresh.intake_key = intake_key(request, message, task.digest);
  // Publishing the same message again after its delivery is intended: tomorrow's reminder.
  fresh.same_if_over_since = same_since(delivery, now);
  begin_delay(task, request.directives, rules, now, request.due(now), park_reason);
  if (!task.queue.empty()) {  // keep where it was published to
    task.exchange = request.exchange;
    task.routing_key = request.routing_key;
  }
  return fresh;
}

void leave_body_out(NewTask& fresh, const std::string& reason, const RuleBook& rules, EpochMs now) {
  auto rest = std::make_shared<Message>(*fresh.message);
  rest->body = {};
  fresh.message = std::move(rest);
  // A rule may have moved it: it stays where it failed.
  if (!fresh.task.moved_from.empty()) fresh.task.queue = std::exchange(fresh.task.moved_from, {});
  begin_parked(fresh.task, reason, rules, now);
  fresh.task.rule = kNotStored;
  fresh.task.next_at.reset();  // its copy is in <prefix>.parked already
}

}  // namespace rung::bridge
