#include "src/otel/task_traces.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/core/base/time.h"
#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung::otel {
namespace {

using How = PublishResult::How;

constexpr std::size_t kStatusBytes = 256, kNameBytes = 255;

std::string facts_of(const TraceOptions& options, TaskId id, int attempt) {
  return options.service + "/" + options.prefix + "/" + id.str() + "/" + std::to_string(attempt);
}

// Of a further span of the attempt.
std::string span_id(const TraceOptions& options, TaskId id, int attempt, const std::string& what) {
  return to_hex(sha256(facts_of(options, id, attempt) + "/" + what)).substr(0, 16);
}

void put(Span& span, const char* name, std::string_view value) {
  if (!value.empty()) span.attributes.emplace_back(name, std::string(value));
}
void put(Span& span, const char* name, std::int64_t value) { span.attributes.emplace_back(name, value); }

std::string short_error(const std::string& error) { return clean_utf8(error, kStatusBytes); }

void fail(Span& span, const std::string& type, const std::string& error) {
  put(span, "error.type", type);
  span.error = short_error(error);
}

void link(Span& span, SpanContext to, const char* what) {
  span.links.push_back({std::move(to), {{"rung.link", std::string(what)}}});
}

// As the conventions for RabbitMQ have it: exchange and routing key, each where there is one.
std::string destination(const Target& target) {
  if (!target.queue.empty()) return target.queue;
  if (target.exchange.empty() || target.routing_key.empty()) return target.exchange + target.routing_key;
  return target.exchange + ":" + target.routing_key;
}

// Routing keys may be without number, as in "order.4711": they are not part of a span's name.
const std::string& short_destination(const Target& target) {
  if (!target.queue.empty()) return target.queue;
  return target.exchange.empty() ? target.routing_key : target.exchange;
}

// "" if the attempt may be under way, or its outcome is no news.
std::string_view outcome_of(const Task& task, const Attempt& attempt) {
  if (attempt.outcome == rung::Outcome::pending) return {};
  if (attempt.outcome == rung::Outcome::succeeded && task.finished_by == FinishedBy::presumed)
    return "presumed";
  return to_word(attempt.outcome);
}

const char* refusal(How how) {
  if (how == How::returned) return "returned";
  if (how == How::nacked) return "nacked";
  return how == How::rejected ? "rejected" : "lost";
}

}  // namespace

SpanContext attempt_context(const TraceOptions& options, TaskId id, int attempt) {
  const std::string digits = to_hex(sha256(facts_of(options, id, attempt)));
  return {digits.substr(0, 32), digits.substr(32, 16)};
}

// Decided by the id alone, so that every instance decides the same for all attempts of a task.
bool TaskTraces::is_sampled(TaskId id) const {
  if (options_.sample >= 1.0) return true;
  // std::hash<TaskId> spreads the ids over all 64 bits; its upper 32 are the better ones.
  const auto share = static_cast<double>(std::hash<TaskId>{}(id) >> 32U) / 4294967296.0;
  return share < options_.sample;
}

Span TaskTraces::span_of(const Task& task, int attempt, SpanKind kind, std::string_view operation,
                         std::string_view type) const {
  Span span;
  span.context = attempt_context(options_, task.id, attempt);
  span.kind = kind;
  span.attributes.reserve(20);
  put(span, "messaging.system", "rabbitmq");
  put(span, "messaging.operation.name", operation);
  put(span, "messaging.operation.type", type);
  put(span, "messaging.message.id", task.message_id);
  put(span, "server.address", options_.server);
  if (!options_.server.empty() && options_.port > 0) put(span, "server.port", options_.port);
  put(span, "rung.retry_id", task.id.str());
  put(span, "rung.attempt", attempt);
  put(span, "rung.kind", to_word(task.kind));
  put(span, "rung.ladder", task.ladder);
  return span;
}

void TaskTraces::received(const NewTask& fresh, EpochMs now) {
  const Task& task = fresh.task;
  if (!is_sampled(task.id)) return;
  Span span = span_of(task, 0, SpanKind::consumer, "receive", "receive");
  const std::string inlet = task.kind == Kind::retry ? ".failed" : ".delay";
  const std::string source = task.error_queue.empty() ? options_.prefix + inlet : task.error_queue;
  span.name = "receive " + source;
  span.start = std::min(task.created_at, now);
  span.end = now;
  put(span, "messaging.destination.name", source);
  put(span, "messaging.message.body.size", task.body_bytes);
  put(span, "messaging.message.conversation_id",
      clean_utf8(fresh.message->properties.correlation_id.value_or(""), kNameBytes));
  put(span, "rung.destination", destination(target_of(task)));
  put(span, "rung.level", task.level);
  put(span, "rung.state", to_word(task.state));
  if (task.state == State::scheduled && task.next_at) put(span, "rung.due_at", to_rfc3339(*task.next_at));
  put(span, "rung.rule", task.rule);
  put(span, "rung.error_type", clean_utf8(task.error_type, kNameBytes));
  if (task.state == State::parked)
    fail(span, task.error_type.empty() ? "parked" : clean_utf8(task.error_type, kNameBytes), task.last_error);
  if (auto origin = origin_of(*fresh.message)) link(span, *std::move(origin), "origin");
  sink_(std::move(span));
}

void TaskTraces::sent(const Task& task, const Outgoing& outgoing, EpochMs now) {
  if (!is_sampled(task.id)) return;
  Span span = span_of(task, task.attempt, SpanKind::producer, "publish", "send");
  const Target target{outgoing.queue, outgoing.exchange, outgoing.routing_key};
  span.name = "publish " + short_destination(target);
  span.start = now;
  put(span, "messaging.destination.name", destination(target));
  put(span, "messaging.rabbitmq.destination.routing_key", outgoing.routing_key);
  put(span, "messaging.message.body.size", task.body_bytes);
  put(span, "messaging.message.conversation_id",
      clean_utf8(outgoing.message.properties.correlation_id.value_or(""), kNameBytes));
  put(span, "rung.level", task.level);
  if (task.next_at) put(span, "rung.due_at", to_rfc3339(*task.next_at));
  if (auto origin = origin_of(outgoing.message)) link(span, *std::move(origin), "origin");
  link(span, attempt_context(options_, task.id, task.attempt - 1), "previous");
  under_way_.insert_or_assign(task.id, std::move(span));
}

void TaskTraces::answered(const Task& task, const PublishResult& result, EpochMs now) {
  if (!is_sampled(task.id)) return;
  auto known = under_way_.extract(task.id);
  if (result.how == How::fenced) return;  // not sent
  Span span;
  if (known.empty()) {  // its message cannot be read
    span = span_of(task, task.attempt, SpanKind::producer, "publish", "send");
    const Target target = target_of(task);
    span.name = "publish " + short_destination(target);
    span.start = now;
    put(span, "messaging.destination.name", destination(target));
    link(span, attempt_context(options_, task.id, task.attempt - 1), "previous");
  } else {
    span = std::move(known.mapped());
  }
  span.end = std::max(span.start, now);
  if (result.how != How::confirmed) {
    const std::string word = refusal(result.how);
    fail(span, word, result.reason.empty() ? word : result.reason);
    // The attempt goes out again under the same number, and only that publish has the id that links name.
    if (result.how == How::nacked || result.how == How::lost)
      span.context.span =
          span_id(options_, task.id, task.attempt, word + "/" + std::to_string(span.start.ms));
  }
  sink_(std::move(span));
}

void TaskTraces::decided(const Decision& decision) {
  if (!decision.attempt || decision.drop_attempt || !is_sampled(decision.task.id)) return;
  if (decision.overtaken) settle(decision.task, *decision.overtaken, decision);
  settle(decision.task, *decision.attempt, decision);
}

void TaskTraces::settle(const Task& task, const Attempt& attempt, const Decision& decision) {
  const std::string outcome(outcome_of(task, attempt));
  if (outcome.empty()) return;
  Span span = span_of(task, attempt.attempt, SpanKind::internal, "settle", "settle");
  const bool overtaken = &attempt != &*decision.attempt;
  span.parent = span.context.span;
  span.context.span = span_id(options_, task.id, attempt.attempt, "settle/" + outcome);
  // Where the attempt went; a rule may have moved the task since.
  const Target target = decision.failed_in.empty() ? target_of(task) : Target{decision.failed_in, "", ""};
  span.name = "settle " + short_destination(target);
  span.end = attempt.outcome_at.value_or(task.created_at);
  // Without a publish time: `due_at` is the attempt's while it is being published, and the outcome's after.
  span.start = attempt.due_at;
  if (attempt.published_at) {
    span.start = *attempt.published_at;
  } else if (decision.awaited_since) {
    span.start = *decision.awaited_since;
  }
  span.start = std::min(span.start, span.end);
  put(span, "messaging.destination.name", destination(target));
  put(span, "rung.level", attempt.level);
  put(span, "rung.outcome", outcome);
  put(span, "rung.executor", attempt.executor);
  put(span, "rung.rule", attempt.rule);
  if (!overtaken) {
    put(span, "rung.state", to_word(task.state));
    if (task.state == State::scheduled && task.next_at)
      put(span, "rung.next_due_at", to_rfc3339(*task.next_at));
  }
  if (attempt.outcome != rung::Outcome::succeeded) {
    const std::string type = overtaken ? std::string() : clean_utf8(task.error_type, kNameBytes);
    fail(span, type.empty() ? outcome : type, attempt.error);
  }
  sink_(std::move(span));
}

}  // namespace rung::otel
