// /v1/simulate: what the rules of this instance would decide for a failure. Changes nothing.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/api/json/fields.h"
#include "src/api/queues/gates.h"
#include "src/api/rules/explain.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

constexpr std::size_t kMostHeaders = 100;
constexpr std::int64_t kMostAttempts = 1'000'000;

RuleHeaders headers_of(api::Fields& fields) {
  RuleHeaders headers;
  const Json* json = fields.get("headers");
  if (json == nullptr) return headers;
  bool good = json->is_object() && json->size() <= kMostHeaders;
  for (auto it = json->begin(); good && it != json->end(); ++it) {
    good = it->is_string();
    if (good) headers.emplace(it.key(), it->get<std::string>());
  }
  if (!good) fields.wrong("headers", "must be an object of at most 100 strings: {\"tenant\": \"acme\"}");
  return headers;
}

api::SupposedFailure failure_of(const Json& json, FieldErrors& errors) {
  api::Fields fields(json, "", errors);
  api::SupposedFailure failure;
  const auto queue = fields.name("queue");
  if (queue ? queue->empty() : !fields.has("queue"))
    fields.wrong("queue", "is required: the queue in which the message failed");
  failure.queue = queue.value_or("");
  failure.error = fields.text("error", kErrorBytes).value_or("");
  failure.type = fields.name("error_type").value_or("");
  failure.tag = fields.name("tag").value_or("");
  failure.reason = fields.name("reason").value_or("");
  const auto& reasons = failure_reasons();
  if (!failure.reason.empty() && std::ranges::find(reasons, failure.reason) == reasons.end())
    fields.wrong("reason", "must be rejected, expired, maxlen, delivery_limit, returned or silent");
  failure.headers = headers_of(fields);
  failure.attempt = static_cast<int>(fields.integer("attempt", 0, kMostAttempts).value_or(0));
  failure.age = fields.duration("age", Ms{0}).value_or(Ms{0});
  fields.finish();
  return failure;
}

}  // namespace

Response simulate_failure(Context& context, const Call& call) {
  FieldErrors errors;
  const api::SupposedFailure failure = failure_of(*call.json, errors);
  if (!errors.empty()) return problem(errors, call.request.path);
  const RuleBookPtr rules = context.rules();
  const api::Explanation explained = api::explain_failure(failure, *rules, context.cause_rules.get());
  Json out = api::to_json(explained, *rules);
  const std::string& target = explained.after.queue;
  const auto gate = context.reads.run([&](MysqlStore& store) { return api::gate_of(store, target); });
  if (!gate) return problem(gate.error(), call.request.path);
  out["gate"] = *gate ? api::gate_json(**gate) : Json();
  const std::string limits = describe_limits(rules->queue(target).gate);
  out["limits"] = api::text_or_null(limits);
  return answer(200, out);
}

}  // namespace rung::http
