#include "src/bridge/newcomer.h"

#include <utility>

#include "src/core/utf8.h"

namespace rung::bridge {
namespace {

std::string short_text(const std::string& text) { return clean_utf8(text, kShortString); }

void begin_failed(NewTask& fresh, const Newcomer& newcomer, const Failure& f, const Maker& maker) {
  Task& task = fresh.task;
  const Message& message = newcomer.delivery->message;
  task.queue = short_text(f.queue);
  task.exchange = short_text(f.exchange);
  task.routing_key = short_text(f.routing_key);
  task.first_failed_at = maker.now;
  // x-death counts whole seconds: within two of them our own clock is the finer one.
  const bool long_ago =
      f.died_at_s && *f.died_at_s > 0 && EpochMs{*f.died_at_s * 1000} + Ms{2000} < maker.now;
  if (long_ago) task.first_failed_at = {*f.died_at_s * 1000};
  task.last_error = f.error;
  task.error_type = f.error_type;
  fresh.intake_key = intake_key(f, message);
  fresh.same_even_if_finished = f.died_at_s.has_value() || newcomer.delivery->redelivered;
  if (newcomer.park_reason.empty()) {
    begin(task, f.directives, maker.rules, maker.now, maker.random);
  } else {
    begin_parked(task, newcomer.park_reason, maker.rules, maker.now);
  }
}

void begin_delayed(NewTask& fresh, const Newcomer& newcomer, const DelayRequest& request,
                   const Maker& maker) {
  Task& task = fresh.task;
  task.kind = Kind::delay;
  task.queue = request.target.queue;
  task.exchange = request.target.exchange;
  task.routing_key = request.target.routing_key;
  if (!request.target.is_set()) {
    const TagRules* tag = task.tag.empty() ? nullptr : maker.rules.tag(task.tag);
    if (tag == nullptr || !tag->target.is_set()) task.queue = request.otherwise;
  }
  fresh.intake_key = intake_key(request, newcomer.delivery->message);
  // Whoever publishes the same again after it has finished means it: tomorrow's reminder.
  fresh.same_even_if_finished = newcomer.delivery->redelivered;
  if (newcomer.park_reason.empty()) {
    begin_delay(task, request.directives, maker.rules, maker.now, request.due(maker.now));
  } else {
    task.level = 0;
    begin_parked(task, newcomer.park_reason, maker.rules, maker.now);
  }
  if (!task.queue.empty()) {  // where it was published to is worth knowing
    task.exchange = request.exchange;
    task.routing_key = request.routing_key;
  }
}

}  // namespace

const std::string& Newcomer::queue() const {
  const auto* failure = std::get_if<Failure>(&said);
  return failure != nullptr ? failure->queue : std::get<DelayRequest>(said).target.queue;
}

Newcomer failed_newcomer(std::shared_ptr<Delivery> delivery, Failure failure, std::string park_reason) {
  if (park_reason.empty() && failure.queue.empty()) {
    park_reason =
        "nothing says which queue it came from: no usable retry-queue header, no x-death; last error: " +
        failure.error;
  } else if (park_reason.empty() && (failure.queue.size() > kShortString || !is_utf8(failure.queue))) {
    park_reason = "the name of its queue is no queue's name (over 255 bytes, or not UTF-8)";
  }
  return {std::move(delivery), std::move(failure), std::move(park_reason)};
}

Newcomer delayed_newcomer(std::shared_ptr<Delivery> delivery, const DelayRoutes& routes) {
  DelayRequest request = read_delay(delivery->message, delivery->exchange, delivery->routing_key, routes);
  std::string park_reason = request.refusal;
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
  std::string_view also;
  if (const auto* failure = std::get_if<Failure>(&newcomer.said)) {
    begin_failed(fresh, newcomer, *failure, maker);
  } else {
    begin_delayed(fresh, newcomer, std::get<DelayRequest>(newcomer.said), maker);
    also = header::kDelay;
  }
  auto stripped = std::make_shared<Message>(strip(message, &fresh.origin_json, also));
  if (newcomer.without_body) {
    stripped->body.clear();
    task.next_at.reset();  // its copy lies in <prefix>.parked already
  }
  fresh.message = std::move(stripped);
  return fresh;
}

}  // namespace rung::bridge
