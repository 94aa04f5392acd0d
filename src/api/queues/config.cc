#include "src/api/queues/config.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "levels/duration.h"
#include "src/api/base/context.h"

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
  Json ladders = Json::array(), queues = Json::array(), lists = Json::array(), tags = Json::array();
  for (const auto& [name, ladder] : rules.ladders()) ladders.push_back(named(name, ladder_json(ladder)));
  for (const auto& [name, queue] : rules.queues()) queues.push_back(named(name, queue_json(queue)));
  for (const auto& entry : rules.patterns())
    queues.push_back(named(entry.pattern.text(), queue_json(entry.rules)));
  for (const auto& [name, list] : rules.rule_lists())
    lists.push_back({{"name", name}, {"rules", rules_json(*list)}});
  for (const auto& [name, tag] : rules.tags())
    tags.push_back(
        {{"name", name}, {"queue", text_or_null(tag.target.queue)}, {"ladder", text_or_null(tag.ladder)}});
  return {{"ladders", std::move(ladders)},
          {"queues", std::move(queues)},
          {"defaults", queue_json(rules.defaults())},
          {"rules", std::move(lists)},
          {"tags", std::move(tags)},
          {"error_queues", rules.error_queues().patterns()}};
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

}  // namespace rung::api
