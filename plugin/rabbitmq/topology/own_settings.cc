#include "plugin/rabbitmq/topology/own_settings.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "plugin/rabbitmq/topology/return_route.h"

namespace rung::rabbit {
namespace {

using nlohmann::json;
using enum Harm;

// Fewer deliveries than this can be used up by restarts.
constexpr std::int64_t kEnoughDeliveries = 1'000'000;
constexpr std::int64_t kLimitOfRabbitMq4 = 20;
// A limit that no queue reaches.
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int32_t>::max();
// While the database is away, messages wait unacked for a lease before they are returned.
constexpr std::int64_t kShortestConsumerTimeoutMs = 120'000;
// A key of a policy; as a queue argument it has the prefix "x-".
struct SettingRule {
  std::string_view key;
  Harm harm;
  std::string_view why;  // what it does to Rung's own queues or exchanges
};
constexpr SettingRule kRules[] = {
    {"alternate-exchange", fatal,
     "a retry whose queue is not bound goes there, and counts as delivered (rung.return only)"},
    {"consumer-timeout", harmful, "the broker takes unacked messages back while the database is away"},
    {"delayed-retry-type", harmful, "the broker delays messages that an instance returned"},
    {"delivery-limit", fatal, "a quorum queue drops a message after so many restarts of the sidecar"},
    {"expires", fatal,
     "the broker deletes the queue, with its messages, when no sidecar has used it for that time"},
    {"federation-upstream", fatal, "messages of another broker's Rung arrive here"},
    {"federation-upstream-pattern", fatal, "messages of another broker's Rung arrive here"},
    {"federation-upstream-set", fatal, "messages of another broker's Rung arrive here"},
    {"max-length", fatal, "messages beyond the limit are lost"},
    {"max-length-bytes", fatal, "messages beyond the limit are lost"},
    {"max-priority", harmful, "messages with a higher priority are taken in first"},
    {"message-ttl", fatal, "messages that wait longer are lost, as when no sidecar runs"},
    {"single-active-consumer", harmful, "only one instance takes messages in"},
};

json object_of(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_object() ? value : json::object();
}

std::optional<std::int64_t> number_of(const json& value) {
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

// A value, and who set it.
struct Setting {
  json value;
  bool by_argument = false;
};

// The one in effect. Of two numbers the broker takes the smaller one; otherwise an argument overrides.
std::optional<Setting> setting_of(const json& arguments, const json& definition, std::string_view key) {
  const auto argument = arguments.find("x-" + std::string(key));
  const auto plain = arguments.find(std::string(key));  // an exchange's
  const auto policy = definition.find(std::string(key));
  const auto own = argument != arguments.end() ? argument : plain;
  if (own == arguments.end() && policy == definition.end()) return std::nullopt;
  if (own == arguments.end()) return Setting{*policy, false};
  if (policy == definition.end()) return Setting{*own, true};
  const auto a = number_of(*own), p = number_of(*policy);
  return a && p && *p < *a ? Setting{*policy, false} : Setting{*own, true};
}

// One of Rung's own, its tables parsed.
struct Object {
  bool is_queue = true;
  std::string name, type, policy, operator_policy;
  json arguments, definition;  // of both policies together
  int priority = 0;            // of `policy`
};

// Whether this value on this object is what the rule warns of.
bool hurts(const SettingRule& rule, const Object& object, const Setting& setting,
           std::string_view return_exchange) {
  const auto number = number_of(setting.value);
  const bool of_exchanges = rule.key == "alternate-exchange" || rule.key.starts_with("federation-");
  if (!object.is_queue && !of_exchanges) return false;
  if (rule.key.starts_with("max-length")) return !number || *number < kUnlimited;
  if (rule.key == "alternate-exchange")
    return !object.is_queue && object.name == return_exchange && setting.value != json(object.name);
  if (rule.key == "delivery-limit")
    return object.type == "quorum" && number && *number >= 0 && *number < kEnoughDeliveries;
  if (rule.key == "consumer-timeout") return number && *number > 0 && *number < kShortestConsumerTimeoutMs;
  if (rule.key == "delayed-retry-type") return object.type == "quorum" && setting.value != json("disabled");
  if (rule.key == "single-active-consumer") return setting.value == json(true);
  return true;
}

class Judge {
 public:
  Judge(std::string_view prefix, std::string_view queue_type, const OwnState& state)
      : prefix_(prefix), queue_type_(queue_type), state_(state) {}

  std::vector<SettingFinding> run() {
    for (const QueueFacts& facts : state_.queues) {
      const Object queue{true,
                         facts.name,
                         facts.type,
                         facts.policy,
                         facts.operator_policy,
                         object_of(facts.arguments),
                         object_of(facts.effective_policy),
                         priority_of(facts.policy)};
      judge_type(queue);
      judge(queue);
    }
    for (const ExchangeFacts& facts : state_.exchanges) {
      const Policy* policy = find(facts.policy);
      judge({false, facts.name, facts.type, facts.policy, "", object_of(facts.arguments),
             object_of(policy != nullptr ? policy->definition : ""), priority_of(facts.policy)});
    }
    judge_bindings();
    std::ranges::stable_sort(all_, [](const auto& a, const auto& b) { return a.harm > b.harm; });
    return std::move(all_);
  }

 private:
  const Policy* find(std::string_view policy) const {
    const auto it = std::ranges::find(state_.policies, policy, &Policy::name);
    return it != state_.policies.end() ? &*it : nullptr;
  }
  int priority_of(std::string_view policy) const {
    const Policy* its = find(policy);
    return its != nullptr ? its->priority : 0;
  }

  void judge_type(const Object& queue) {
    if (queue.type == "stream") {
      add(fatal, queue.name, "it is a stream: nothing is ever taken out of it",
          "delete it once nothing in it is needed: " + delete_queue(queue.name));
    } else if (!queue.type.empty() && queue_type_ != "auto" && queue.type != queue_type_) {
      add(harmful, queue.name,
          "it is a " + queue.type + " queue, but broker.queue_type is " + std::string(queue_type_) +
              ": it is used as it is",
          "set broker.queue_type: " + queue.type + ", or stop the sidecars, and once it is empty, " +
              delete_queue(queue.name) + ", and Rung declares it again");
    }
    if (queue.type == "quorum" && !setting_of(queue.arguments, queue.definition, "delivery-limit")) {
      add(fatal, queue.name,
          "it is a quorum queue without a delivery limit of its own: RabbitMQ 4 drops a message after 20 "
          "deliveries, that is, restarts of the sidecar",
          override_policy(queue, false));
    }
  }

  void judge(const Object& object) {
    for (const SettingRule& rule : kRules) {
      const auto setting = setting_of(object.arguments, object.definition, rule.key);
      if (!setting || !hurts(rule, object, *setting, return_exchange(std::string(prefix_)))) continue;
      add(rule.harm, object.name,
          by_whom(object, rule.key, *setting) + " sets " + std::string(rule.key) + " to " +
              setting->value.dump() + ": " + std::string(rule.why),
          mend_of(object, rule.key, *setting));
    }
  }

  // Who uses the return exchange, too. A message whose queue is not bound at that moment would count as
  // delivered if it went there.
  void judge_bindings() {
    const std::string exchange = return_exchange(std::string(prefix_));
    for (const OutBinding& binding : state_.return_bindings) {
      if (binding.destination_type == "queue" && binding.key == binding_key(binding.destination)) continue;
      add(fatal, exchange,
          binding.destination_type + " '" + binding.destination + "' is bound to it with the key '" +
              binding.key +
              "', which Rung did not do: it gets retries of others, and such a retry counts as "
              "delivered",
          binding_command("delete", state_.vhost, exchange, binding.destination_type, binding.destination,
                          binding.key));
    }
  }

  // Whether it is the operator policy that sets this value.
  bool by_operator(const Object& object, std::string_view key, const Setting& setting) const {
    if (object.operator_policy.empty()) return false;
    const Policy* policy = find(object.policy);
    return policy == nullptr ||
           object_of(policy->definition).value(std::string(key), json()) != setting.value;
  }

  std::string by_whom(const Object& object, std::string_view key, const Setting& setting) const {
    if (setting.by_argument) return object.is_queue ? "its queue argument" : "its argument";
    if (by_operator(object, key, setting)) return "operator policy '" + object.operator_policy + "'";
    return object.policy.empty() ? "a policy" : "policy '" + object.policy + "'";
  }

  std::string mend_of(const Object& object, std::string_view key, const Setting& setting) const {
    if (!setting.by_argument) return override_policy(object, by_operator(object, key, setting));
    return "once it is empty, " +
           (object.is_queue ? delete_queue(object.name)
                            : "rabbitmqadmin -V " + shell_quote(state_.vhost) +
                                  " delete exchange name=" + shell_quote(object.name)) +
           ", and Rung declares it again";
  }

  // A policy of a higher priority for Rung's own: only one policy and one operator policy apply at a time. It
  // must have a key that the type of queue knows: otherwise RabbitMQ passes it over.
  std::string override_policy(const Object& object, bool as_operator) const {
    std::string pattern = policy_pattern(prefix_);  // ^prefix$
    pattern.pop_back();
    pattern += object.is_queue ? "\\.(failed|delay|results|parked)$" : "\\.return$";
    const json definition = !object.is_queue          ? json{{"alternate-exchange", object.name}}
                            : object.type == "quorum" ? json{{"delivery-limit", kUnlimited}}
                                                      : json{{"max-length", kUnlimited}};
    const std::string name = std::string(prefix_) + (object.is_queue ? "-own" : "-return");
    return std::string("rabbitmqctl ") + (as_operator ? "set_operator_policy" : "set_policy") + " -p " +
           shell_quote(state_.vhost) + " --priority " +
           (as_operator ? "1000" : std::to_string(std::max(object.priority + 1, 100))) + " --apply-to " +
           (object.is_queue ? "queues" : "exchanges") + " " + shell_quote(name) + " " + shell_quote(pattern) +
           " " + shell_quote(definition.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  std::string delete_queue(const std::string& name) const {
    return "rabbitmqctl delete_queue -p " + shell_quote(state_.vhost) + " " + shell_quote(name);
  }

  void add(Harm harm, std::string subject, std::string what, std::string mend) {
    all_.push_back({harm, std::move(subject), std::move(what), std::move(mend)});
  }

  const std::string_view prefix_, queue_type_;
  const OwnState& state_;
  std::vector<SettingFinding> all_;
};

}  // namespace

Result<OwnState> read_own_state(QueueAdmin& admin, std::string_view prefix, std::string vhost,
                                std::vector<Policy> policies) {
  OwnState state{std::move(vhost), {}, {}, std::move(policies), {}};
  auto queues = admin.own_queues(prefix);
  if (!queues) return tl::unexpected(queues.error());
  state.queues = *std::move(queues);
  const std::string returning = return_exchange(std::string(prefix));
  for (const char* end : {".failed", ".delay", ".results", ".parked", ".return"}) {
    auto exchange = admin.exchange(std::string(prefix) + end);
    if (!exchange && exchange.error().kind == Error::Kind::not_found) continue;
    if (!exchange) return tl::unexpected(exchange.error());
    state.exchanges.push_back(*std::move(exchange));
  }
  auto bindings = admin.bindings_of(returning);
  if (!bindings) return tl::unexpected(bindings.error());
  state.return_bindings = *std::move(bindings);
  return state;
}

std::vector<SettingFinding> judge_settings(std::string_view prefix, std::string_view queue_type,
                                           const OwnState& state) {
  return Judge(prefix, queue_type, state).run();
}

DeliveryLimit lowest_delivery_limit(const std::vector<QueueFacts>& own_queues) {
  DeliveryLimit lowest;
  for (const QueueFacts& queue : own_queues) {
    if (queue.type != "quorum" || queue.name.ends_with(".parked")) continue;  // nothing is taken in from it
    const auto setting =
        setting_of(object_of(queue.arguments), object_of(queue.effective_policy), "delivery-limit");
    const std::int64_t limit = setting ? number_of(setting->value).value_or(-1) : kLimitOfRabbitMq4;
    if (limit >= 0 && limit < kEnoughDeliveries && limit < lowest.deliveries) lowest = {queue.name, limit};
  }
  return lowest;
}

}  // namespace rung::rabbit
