// /v1/config; /v1/simulate, which changes nothing.
#include "src/api/queues/rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "levels/duration.h"
#include "src/api/base/context.h"
#include "src/api/queues/gates.h"
#include "src/core/machine/machine.h"

namespace rung::api {

namespace {

Json ladder_json(const levels::Ladder& ladder) {
  Json delays = Json::array();
  for (int level = 1; level <= ladder.levels(); ++level) delays.push_back(ladder.delay(level).count());
  return {{"delays_ms", std::move(delays)}, {"jitter", ladder.jitter()}};
}

Json gates_json(const GateRules& gate) {
  Json waits = Json::array();
  if (gate.breaker) {
    for (const Ms wait : gate.breaker->wait) waits.push_back(wait.count());
  }
  const bool limits = gate.limits();
  return {{"limits", limits ? Json(describe_limits(gate)) : Json()},
          {"window", gate.window == nullptr ? Json() : Json(gate.window->describe())},
          {"breaker", gate.breaker ? Json{{"open_after", gate.breaker->open_after},
                                          {"of_last", gate.breaker->of_last},
                                          {"wait_ms", std::move(waits)}}
                                   : Json()}};
}

Json queue_json(const QueueRules& rules) {
  const bool success = rules.silence.means == Silence::Means::success;
  return {{"ladder", rules.ladder},
          {"rules", text_or_null(rules.rules)},
          {"silence", {{success ? "presumed_after_ms" : "reported_within_ms", rules.silence.after.count()}}},
          {"late_by_ms", ms_or_null(rules.late_by)},
          {"give_up",
           {{"attempts", rules.give_up.attempts == 0 ? Json() : Json(rules.give_up.attempts)},
            {"after_ms", ms_or_null(rules.give_up.after)}}},
          {"gates", gates_json(rules.gate)},
          {"catch_up", rules.catch_up}};
}

Json named(const std::string& name, Json json) {
  json["name"] = name;
  return json;
}

Json rules_json(const FailureRules& list) {
  Json out = Json::array();
  for (const FailureRule& rule : list.rules())
    out.push_back({{"name", rule.name}, {"when", describe(rule.when)}, {"then", describe(rule.then)}});
  return out;
}

}  // namespace

Json config_json(const RuleBook& rules) {
  Json ladders = Json::array(), queues = Json::array(), lists = Json::array(), tags = Json::array(),
       error_queues = Json::array();
  for (const auto& [name, ladder] : rules.ladders()) ladders.push_back(named(name, ladder_json(ladder)));
  for (const auto& [name, queue] : rules.queues()) queues.push_back(named(name, queue_json(queue)));
  for (const auto& entry : rules.patterns())
    queues.push_back(named(entry.pattern.text(), queue_json(entry.rules)));
  for (const auto& [name, list] : rules.rule_lists())
    lists.push_back({{"name", name}, {"rules", rules_json(*list)}});
  for (const auto& [name, tag] : rules.tags())
    tags.push_back(
        {{"name", name}, {"queue", text_or_null(tag.target.queue)}, {"ladder", text_or_null(tag.ladder)}});
  for (const ErrorQueue& entry : rules.error_queues().all()) error_queues.push_back(entry.from);
  return {{"ladders", std::move(ladders)},
          {"queues", std::move(queues)},
          {"defaults", queue_json(rules.defaults())},
          {"rules", std::move(lists)},
          {"tags", std::move(tags)},
          {"error_queues", std::move(error_queues)}};
}

Json queue_config_json(const RuleBook& rules, const std::string& queue) {
  const QueueRules& own = rules.queue(queue);
  const RuleBook::PatternRules* pattern = rules.pattern_of(queue);
  const FailureRules* list = rules.failure_rules(queue);
  Json json = queue_json(own);
  json.update(ladder_json(*rules.ladder(own.ladder)));
  json["entry"] = pattern != nullptr               ? Json(pattern->pattern.text())
                  : rules.queues().contains(queue) ? Json(queue)
                                                   : Json();
  json["failure_rules"] = list != nullptr ? rules_json(*list) : Json::array();
  return json;
}

// The rules of this instance: another one may have others for a while (GET /v1/nodes compares them).
Response show_config(Context& context, const Call&) {
  Json json = config_json(*context.rules());
  json["index_headers"] = context.index_headers;
  const auto vitals = context.vitals();
  json["fingerprint"] = vitals ? Json(vitals->config) : Json();
  json["version"] = context.version;
  return answer(200, json);
}

namespace {

using levels::format_duration;

constexpr EpochMs kFailedAt{1'700'000'000'000};  // any time: only differences are shown
constexpr int kExplainedBy = 1;                  // the node

RuleHeaders headers_of(Fields& fields) {
  RuleHeaders headers;
  const Json* json = fields.get("headers");
  if (json == nullptr) return headers;
  bool good = json->is_object() && json->size() <= 100;
  for (auto it = json->begin(); good && it != json->end(); ++it) {
    good = it->is_string();
    if (good) headers.emplace(it.key(), it->get<std::string>());
  }
  if (!good) fields.wrong("headers", "must be an object of at most 100 strings: {\"tenant\": \"acme\"}");
  return headers;
}

// A task whose attempt has just failed, as the state machine has it before it decides; `attempt` 0: its first
// delivery. `reason`: one of failure_reasons(), "" = none.
Task failed_task(const Json& json, const RuleBook& rules, std::string& reason) {
  Fields fields(json);
  Task task;
  const auto queue = fields.name("queue");
  if (queue ? queue->empty() : !fields.has("queue"))
    fields.wrong("queue", "is required: the queue in which the message failed");
  task.id = {1};
  task.node = kExplainedBy;
  task.queue = queue.value_or("");
  task.last_error = fields.text("error", kErrorBytes).value_or("");
  task.error_type = fields.name("error_type").value_or("");
  task.tag = fields.name("tag").value_or("");
  reason = fields.name("reason").value_or("");
  const auto& reasons = failure_reasons();
  if (!reason.empty() && std::ranges::find(reasons, reason) == reasons.end())
    fields.wrong("reason", "must be rejected, expired, maxlen, delivery_limit, returned or silent");
  task.rule_headers = headers_of(fields);
  task.attempt = static_cast<int>(fields.integer("attempt", 0, 1'000'000).value_or(0));
  task.first_failed_at = kFailedAt - fields.duration("age", Ms{0}).value_or(Ms{0});
  fields.check();
  task.ladder = rules.queue(task.queue).ladder;
  task.levels = rules.ladder(task.ladder)->levels();
  task.level = std::min(task.attempt, task.levels);
  if (reason == "returned") task.error_type = "returned";
  if (reason == "silent") task.error_type = "timed_out";
  const bool by_broker = reason == "expired" || reason == "maxlen" || reason == "delivery_limit";
  if (by_broker) task.last_error = "dead-lettered: " + reason + " (queue " + task.queue + ")";
  if (task.last_error.empty()) task.last_error = "failed (no retry-error was given)";
  return task;
}

// What the state machine makes of it.
Task decided(Task task, const std::string& reason, const RuleBook& rules) {
  if (task.attempt == 0) {
    begin(task, {}, rules, kFailedAt, 0.0);
    return task;
  }
  Circumstances at;
  at.now = kFailedAt;
  at.node = kExplainedBy;
  task.state = State::publishing;
  if (reason == "returned")
    return decide(task, event::Returned{task.attempt, kFailedAt, task.last_error}, rules, at).task;
  task.state = State::awaiting;
  task.next_at = kFailedAt;
  if (reason == "silent") return decide(task, event::SilenceOver{}, rules, at).task;
  return decide(task, event::Failed{task.attempt, task.last_error, task.error_type, {}}, rules, at).task;
}

// "retry in 5s, level 1 of 9 of ladder default (rule payments[2])". `match`: the rule that matches, if one
// does.
std::string result_text(const Task& before, const Task& after, const FailureRule* match) {
  const std::string by = after.rule.empty() ? "" : " (rule " + after.rule + ")";
  if (after.state == State::succeeded)
    return "succeeded: for this queue, silence after a retry means success";
  if (after.state != State::scheduled) {
    const bool retries = match == nullptr || match->then.kind == RuleAction::Kind::retry;
    const bool spent = retries && after.rule != "give_up";
    return std::string(to_word(after.state)) + (spent ? ": the ladder has no more levels" : by);
  }
  std::string text = "retry in " + format_duration(*after.next_at - kFailedAt);
  if (after.level == before.level) {
    text += ", still level " + std::to_string(after.level) + "; the attempt is not counted";
  } else {
    text += ", level " + std::to_string(after.level) + " of " + std::to_string(after.levels) + " of ladder " +
            after.ladder;
  }
  if (after.queue != before.queue) text += ", in queue " + after.queue;
  return text + by;
}

}  // namespace

Json explain_failure(const Json& failure, const RuleBook& rules, const CauseRules* causes) {
  std::string reason;
  const Task before = failed_task(failure, rules, reason), after = decided(before, reason, rules);
  const levels::Ladder* const ladder = rules.ladder(after.ladder);
  Json tried = Json::array();  // the rules in their order, up to the one that matches
  const FailureRule* match = nullptr;
  if (const FailureRules* list = rules.failure_rules(before.queue)) {
    for (auto rule = list->rules().begin(); rule != list->rules().end() && match == nullptr; ++rule) {
      const std::string why = why_not(*rule, failure_case(before, kFailedAt));
      if (why.empty()) match = &*rule;
      tried.push_back({{"rule", rule->name},
                       {"matches", why.empty()},
                       {"why_not", text_or_null(why)},
                       {"action", describe(rule->then)}});
    }
  }
  const bool waits = after.state == State::scheduled;
  return {{"rules", std::move(tried)},
          {"rule", text_or_null(after.rule)},
          {"action", match == nullptr ? Json() : Json(describe(match->then))},
          {"state", to_word(after.state)},
          {"level", after.level},
          {"levels", after.levels},
          {"ladder", after.ladder},
          {"delays_ms", ladder != nullptr ? ladder_json(*ladder)["delays_ms"] : Json::array()},
          {"queue", after.queue},
          {"error_type", text_or_null(after.error_type)},
          {"cause", text_or_null(cause_text(before.last_error, causes))},
          {"delay_ms", waits ? Json((*after.next_at - kFailedAt).count()) : Json()},  // without jitter
          {"counts", after.level != before.level},
          {"result", result_text(before, after, match)}};
}

Response simulate_failure(Context& context, const Call& call) {
  const RuleBookPtr rules = context.rules();
  Json json = explain_failure(*call.json, *rules, context.cause_rules.get());
  const std::string target = json["queue"];
  json["gate"] = gate_json(context.reads.read([&](MysqlStore& store) { return gate_of(store, target); }));
  json["limits"] = text_or_null(describe_limits(rules->queue(target).gate));
  return answer(200, json);
}

}  // namespace rung::api
