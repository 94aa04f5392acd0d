#include "src/bridge/intake/newcomer.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/machine/climb.h"
#include "src/core/message/identity.h"

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

void begin_failed(NewTask& fresh, const Newcomer& newcomer, const Failure& f, const Maker& maker) {
  Task& task = fresh.task;
  const Message& message = newcomer.delivery->message;
  task.queue = short_text(f.queue);
  task.exchange = short_text(f.exchange);
  task.routing_key = short_text(f.routing_key);
  task.first_failed_at = maker.now;
  if (const auto failed_at = failed_long_ago(f, *newcomer.delivery, maker.now)) {
    task.first_failed_at = *failed_at;
    task.uncounted_time = maker.now - *failed_at;  // limits count from when we saw it: it waited for us
  }
  task.last_error = f.error;
  task.error_queue = short_text(newcomer.delivery->source);
  int level = 1;
  if (newcomer.continues) {
    const Continuation& c = *newcomer.continues;
    level = c.level;
    task.parent = c.parent;
    task.ladder = c.ladder;
    task.ladder_pinned = !c.ladder.empty();
    task.max_attempts = c.max_attempts;
    if (c.first_failed_at && *c.first_failed_at <= maker.now) {
      task.first_failed_at = *c.first_failed_at;
      task.uncounted_time = Ms{0};
    }
    if (!c.remark.empty()) task.last_error = with_remark(f.error, c.remark);
  }
  task.error_type = f.error_type;
  fresh.intake_key = intake_key(f, message, task.digest);
  fresh.may_be_its_retry = newcomer.delivery->inlet == Inlet::error && !f.failed_at_s;
  if (f.failed_at_s) {
    fresh.same_if_over_since = EpochMs{};  // this failure happened only once
  } else if (newcomer.delivery->redelivered) {
    fresh.same_if_over_since = maker.now - kRedeliveredWithin;
  } else {
    fresh.same_if_over_since = maker.now + kAfterArrival;
  }
  if (newcomer.park_reason.empty()) {
    begin(task, with_error_queue(f.directives, newcomer.delivery->source, maker.rules), maker.rules,
          maker.now, maker.random, level);
  } else {
    begin_parked(task, newcomer.park_reason, maker.rules, maker.now);
  }
}

// The one that the config gives the message's tag; nullptr: none.
const Target* target_of_tag(const Message& message, const RuleBook& rules) {
  const TagRules* tag = message.properties.type ? rules.tag(*message.properties.type) : nullptr;
  return tag != nullptr && tag->target.is_set() ? &tag->target : nullptr;
}

// `fresh` has its message.
void begin_delayed(NewTask& fresh, const Newcomer& newcomer, const DelayRequest& request,
                   const Maker& maker) {
  Task& task = fresh.task;
  const Message& message = newcomer.delivery->message;
  task.queue = request.target.queue;
  task.exchange = request.target.exchange;
  task.routing_key = request.target.routing_key;
  if (!request.target.is_set() && target_of_tag(message, maker.rules) == nullptr)
    task.queue = request.otherwise;
  fresh.intake_key = intake_key(request, message, task.digest);
  // Publishing the same message again after its delivery is intended: tomorrow's reminder.
  fresh.same_if_over_since =
      newcomer.delivery->redelivered ? maker.now - kRedeliveredWithin : maker.now + kAfterArrival;
  begin_delay(task, request.directives, maker.rules, maker.now, request.due(maker.now), newcomer.park_reason);
  if (!task.queue.empty()) {  // keep where it was published to
    task.exchange = request.exchange;
    task.routing_key = request.routing_key;
  }
}

Target target_of_delay(const DelayRequest& request, const Message& message, const RuleBook& rules) {
  if (request.target.is_set()) return request.target;
  const Target* of_tag = target_of_tag(message, rules);
  return of_tag != nullptr ? *of_tag : Target{request.otherwise, "", ""};
}

// The target queue or exchange if the message itself names it; "" if the config names it.
std::string target_named(const DelayRequest& request, const Message& message, const RuleBook& rules) {
  if (request.target_by.empty()) return {};
  if (request.target.is_set())
    return request.target.queue.empty() ? request.target.exchange : request.target.queue;
  return target_of_tag(message, rules) != nullptr ? std::string() : request.otherwise;
}

}  // namespace

Continuation continue_after(const Task& parent, const Failure& failed) {
  Continuation c;
  c.parent = parent.id;
  // The row may have climbed since: then the delivery's own level counts.
  c.level = std::min(failed.level.value_or(parent.level), parent.level) + 1;
  if (parent.first_failed_at.ms != 0) c.first_failed_at = parent.first_failed_at;
  if (parent.ladder_pinned) c.ladder = parent.ladder;
  if (parent.max_attempts > 0) c.max_attempts = std::max(parent.max_attempts - counted_attempts(parent), 1);
  c.remark = "it carries the headers of retry-id " + parent.id.str() + ", attempt " +
             std::to_string(failed.attempt) + ", and is another message: a task of its own on the same level";
  return c;
}

Continuation continue_lost_row(const Failure& failed) {
  Continuation c;
  c.parent = *failed.id;
  c.level = failed.level.value_or(0) + 1;
  c.first_failed_at = failed.first_failed_at;
  c.remark = "the row of retry-id " + failed.id->str() + " is gone: its attempt " +
             std::to_string(failed.attempt) + " failed, and the message continues under a new id";
  return c;
}

const std::string& Newcomer::queue() const {
  const auto* failure = std::get_if<Failure>(&said);
  return failure != nullptr ? failure->queue : std::get<DelayRequest>(said).target.queue;
}

Newcomer failed_newcomer(std::shared_ptr<Delivery> delivery, Failure failure, const RuleBook& rules,
                         std::string park_reason) {
  if (park_reason.empty() && failure.queue.empty()) {
    park_reason = "its queue is unknown: no usable retry-queue header, no " +
                  std::string(delivery->facts.failure.record) + "; last error: " + failure.error;
  } else if (park_reason.empty() && (failure.queue.size() > kShortString || !is_utf8(failure.queue))) {
    park_reason = "the name of its queue is invalid (over 255 bytes, or not UTF-8)";
  } else if (park_reason.empty() && rules.error_queues().find(failure.queue) != nullptr) {
    park_reason = std::string(failure.queue_by) + " names '" + clean_utf8(failure.queue, kShortString) +
                  "', which is an error queue itself; last error: " + failure.error;
  } else if (park_reason.empty() && !failure.queue_by_config && !rules.targets().allows(failure.queue)) {
    park_reason = not_allowed(failure.queue_by, failure.queue) + "; last error: " + failure.error;
  }
  return {std::move(delivery), std::move(failure), std::move(park_reason)};
}

Newcomer delayed_newcomer(std::shared_ptr<Delivery> delivery, const DelayRoutes& routes,
                          const RuleBook& rules) {
  DelayRequest request =
      read_delay(delivery->message, delivery->exchange, delivery->routing_key, routes, delivery->facts.delay);
  std::string park_reason = request.refusal;
  const std::string name = target_named(request, delivery->message, rules);
  if (park_reason.empty() && !name.empty() && !rules.targets().allows(name))
    park_reason = not_allowed(request.target_by, name);
  if (park_reason.empty())
    park_reason = refused_target(target_of_delay(request, delivery->message, rules), rules.targets());
  return {std::move(delivery), std::move(request), std::move(park_reason)};
}

NewTask make_task(const Newcomer& newcomer, const Maker& maker) {
  const Message& message = newcomer.delivery->message;
  NewTask fresh;
  Task& task = fresh.task;
  task.id = maker.id;
  task.shard = maker.shard;
  task.node = maker.node;
  task.tag = short_text(message.properties.type.value_or(""));
  task.message_id = short_text(message.properties.message_id.value_or(""));
  task.created_at = maker.now;
  task.body_bytes = static_cast<std::int64_t>(message.body.size());
  const auto* failure = std::get_if<Failure>(&newcomer.said);
  auto stripped = std::make_shared<Message>(strip(message, &fresh.origin_json, newcomer.delivery->facts));
  task.digest = message_digest(*stripped);
  if (newcomer.without_body) stripped->body = {};
  task.rule_headers = rule_headers_of(*stripped, maker.rules);
  fresh.message = std::move(stripped);
  if (failure != nullptr) {
    begin_failed(fresh, newcomer, *failure, maker);
  } else {
    begin_delayed(fresh, newcomer, std::get<DelayRequest>(newcomer.said), maker);
  }
  if (newcomer.without_body) {
    task.rule = kNotStored;
    task.next_at.reset();  // its copy is in <prefix>.parked already
  }
  return fresh;
}

}  // namespace rung::bridge
