#include "plugin/rabbitmq/topology/own_settings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "plugin/rabbitmq/topology/management.h"
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
// Rung has up to seven connections, and a second instance or a restart needs as many again.
constexpr std::int64_t kFewestConnections = 16;

constexpr std::array<SettingRule, 46> kRules = {{
    {"alternate-exchange", fatal,
     "a retry whose queue is not bound goes there, and counts as delivered (rung.return only)"},
    {"consumer-disconnected-timeout", safe, "only delays the return of unacked messages"},
    {"consumer-timeout", harmful, "the broker takes unacked messages back while the database is away"},
    {"dead-letter-exchange", safe, "Rung rejects nothing from its own queues"},
    {"dead-letter-routing-key", safe, "Rung rejects nothing from its own queues"},
    {"dead-letter-strategy", safe, "Rung rejects nothing from its own queues"},
    {"delayed-retry-max", safe, "has no effect without delayed-retry-type"},
    {"delayed-retry-min", safe, "has no effect without delayed-retry-type"},
    {"delayed-retry-type", harmful, "the broker delays messages that an instance returned"},
    {"delivery-limit", fatal, "a quorum queue drops a message after so many restarts of the sidecar"},
    {"expires", fatal,
     "the broker deletes the queue, with its messages, when no sidecar has used it for that time"},
    {"federation-upstream", fatal, "messages of another broker's Rung arrive here"},
    {"federation-upstream-pattern", fatal, "messages of another broker's Rung arrive here"},
    {"federation-upstream-set", fatal, "messages of another broker's Rung arrive here"},
    {"ha-mode", safe, "mirrors a classic queue (3.x)"},
    {"ha-params", safe, "mirrors a classic queue (3.x)"},
    {"ha-promote-on-failure", safe, "concerns mirrors (3.x)"},
    {"ha-promote-on-shutdown", safe, "concerns mirrors (3.x)"},
    {"ha-sync-batch-size", safe, "concerns mirrors (3.x)"},
    {"ha-sync-mode", safe, "concerns mirrors (3.x)"},
    {"initial-cluster-size", safe, "concerns where replicas are"},
    {"max-age", safe, "for streams only"},
    {"max-in-memory-bytes", safe, "concerns memory only"},
    {"max-in-memory-length", safe, "concerns memory only"},
    {"max-length", fatal, "messages beyond the limit are lost"},
    {"max-length-bytes", fatal, "messages beyond the limit are lost"},
    {"message-ttl", fatal, "messages that wait longer are lost, as when no sidecar runs"},
    {"overflow", safe, "has no effect without max-length or max-length-bytes"},
    {"queue-leader-locator", safe, "concerns where replicas are"},
    {"queue-master-locator", safe, "concerns where replicas are"},
    {"queue-mode", safe, "concerns memory only"},
    {"queue-version", safe, "concerns the format on disk"},
    {"routing-key", safe, "for sharded exchanges only"},
    {"shards-per-node", safe, "for sharded exchanges only"},
    {"stream-filter-size-bytes", safe, "for streams only"},
    {"stream-max-segment-size-bytes", safe, "for streams only"},
    {"target-group-size", safe, "concerns where replicas are"},
    // Queue arguments that no policy sets.
    {"cancel-on-ha-failover", safe, "concerns mirrors (3.x)"},
    {"initial-group-size", safe, "concerns where replicas are"},
    {"quorum-initial-group-size", safe, "concerns where replicas are"},
    {"quorum-target-group-size", safe, "concerns where replicas are"},
    {"max-priority", harmful, "messages with a higher priority are taken in first"},
    {"queue-type", safe, "is written out by Rung"},
    {"single-active-consumer", harmful, "only one instance takes messages in"},
    {"stream-offset", safe, "for streams only"},
    {"filter-enabled", safe, "for streams only"},
}};

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

// Whether this value on this object is what the rule warns of.
bool hurts(const SettingRule& rule, const OwnObject& object, const Setting& setting,
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
    for (const OwnObject& object : state_.objects) {
      if (object.is_queue) judge_type(object);
      judge_object(object);
    }
    judge_bindings();
    judge_limits();
    std::ranges::stable_sort(all_, [](const auto& a, const auto& b) { return a.harm > b.harm; });
    return std::move(all_);
  }

 private:
  void judge_type(const OwnObject& queue) {
    if (queue.type == "stream") {
      add(fatal, queue.name, "it is a stream: nothing is ever taken out of it",
          "delete it once nothing in it is needed: " + delete_queue(queue.name));
    } else if (!queue.type.empty() && queue_type_ != "auto" && queue.type != queue_type_) {
      add(harmful, queue.name,
          "it is a " + queue.type + " queue, but broker.queue_type is " + std::string(queue_type_) +
              ": it is used as it is",
          "set broker.queue_type: " + queue.type +
              ", or stop the sidecars and run `rung convert-queues --to " + std::string(queue_type_) +
              " --yes`");
    }
    const bool limited =
        setting_of(object_of(queue.arguments), object_of(queue.definition), "delivery-limit").has_value();
    if (queue.type == "quorum" && !limited) {
      add(fatal, queue.name,
          "it is a quorum queue without a delivery limit of its own: RabbitMQ 4 drops a message after 20 "
          "deliveries, that is, restarts of the sidecar",
          override_policy(queue, false));
      limited_to(queue, kLimitOfRabbitMq4);
    }
  }

  void judge_object(const OwnObject& object) {
    const json arguments = object_of(object.arguments), definition = object_of(object.definition);
    for (const SettingRule& rule : kRules) {
      const auto setting = setting_of(arguments, definition, rule.key);
      if (!setting || rule.harm == safe ||
          !hurts(rule, object, *setting, return_exchange(std::string(prefix_))))
        continue;
      add(rule.harm, object.name,
          by_whom(object, rule.key, *setting) + " sets " + std::string(rule.key) + " to " +
              setting->value.dump() + ": " + std::string(rule.why),
          mend_of(object, rule.key, *setting));
      if (rule.key == "delivery-limit") limited_to(object, number_of(setting->value).value_or(0));
    }
    for (const auto& [key, value] : definition.items()) {
      if (std::ranges::find(kRules, key, &SettingRule::key) != kRules.end()) continue;
      add(harmful, object.name,
          by_whom(object, key, {value, false}) + " sets " + key +
              ", which this version of Rung does not know",
          override_policy(object, false));
    }
  }

  // Who uses the return exchange, too. A message whose queue is not bound at that moment would count as
  // delivered if it went there.
  void judge_bindings() {
    const std::string exchange = return_exchange(std::string(prefix_));
    for (const OwnBinding& binding : state_.return_bindings) {
      const bool ours = binding.destination_type == "queue" && binding.key.starts_with(kBindingPrefix) &&
                        queue_of(binding.key) == binding.destination;
      if (ours) continue;
      add(fatal, exchange,
          binding.destination_type + " '" + binding.destination + "' is bound to it with the key '" +
              binding.key +
              "', which Rung did not do: it gets retries of others, and such a retry counts as "
              "delivered",
          binding_command("delete", state_.vhost, exchange, binding.destination_type, binding.destination,
                          binding.key));
    }
  }

  void judge_limits() {
    const json limits = object_of(state_.vhost_limits);
    const std::string subject = "virtual host " + state_.vhost;
    if (const auto most = number_of(limits.value("max-connections", json()));
        most && *most >= 0 && *most < kFewestConnections) {
      add(harmful, subject,
          "max-connections is " + std::to_string(*most) + ": an instance of Rung has up to 7 connections",
          "rabbitmqctl set_vhost_limits -p " + shell_quote(state_.vhost) + " '{\"max-connections\": 256}'");
    }
    if (const auto most = number_of(limits.value("max-queues", json()));
        most && *most >= 0 && own_queues() < 4) {
      add(harmful, subject,
          "max-queues is " + std::to_string(*most) +
              ", and a queue of Rung is missing: it may not be declared",
          "rabbitmqctl set_vhost_limits -p " + shell_quote(state_.vhost) + " '{\"max-queues\": -1}'");
    }
  }

  std::ptrdiff_t own_queues() const {
    return std::ranges::count_if(state_.objects, [](const OwnObject& o) { return o.is_queue; });
  }

  // Whether the policy, or the operator policy, sets this value. Both if it is not known which.
  struct Setter {
    bool policy = false, by_operator = false;
  };
  static Setter setter_of(const OwnObject& object, std::string_view key, const json& value) {
    const auto has = [&](const std::string& definition) {
      const json table = object_of(definition);
      const auto it = table.find(std::string(key));
      return it != table.end() && *it == value;
    };
    const Setter known{has(object.policy_definition), has(object.operator_definition)};
    if (known.policy || known.by_operator) return known;
    return {!object.policy.empty(), !object.operator_policy.empty()};
  }

  static std::string by_whom(const OwnObject& object, std::string_view key, const Setting& setting) {
    if (setting.by_argument) return object.is_queue ? "its queue argument" : "its argument";
    const Setter setter = setter_of(object, key, setting.value);
    std::string who;
    if (setter.policy) who = "policy '" + object.policy + "'";
    if (setter.by_operator)
      who += (who.empty() ? "" : " and ") + ("operator policy '" + object.operator_policy + "'");
    return who.empty() ? "a policy" : who;
  }

  std::string mend_of(const OwnObject& object, std::string_view key, const Setting& setting) const {
    if (setting.by_argument) {
      return "once it is empty, " +
             (object.is_queue ? delete_queue(object.name)
                              : "rabbitmqadmin -V " + shell_quote(state_.vhost) +
                                    " delete exchange name=" + shell_quote(object.name)) +
             ", and Rung declares it again";
    }
    const Setter setter = setter_of(object, key, setting.value);
    std::string commands;
    if (setter.policy || !setter.by_operator) commands = override_policy(object, false);
    if (setter.by_operator) commands += (commands.empty() ? "" : "; and ") + override_policy(object, true);
    return commands;
  }

  // A policy of a higher priority for Rung's own: only one policy and one operator policy apply at a time. It
  // must have a key that the type of queue knows: otherwise RabbitMQ passes it over.
  std::string override_policy(const OwnObject& object, bool as_operator) const {
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

  void limited_to(const OwnObject& queue, std::int64_t limit) {
    if (queue.name != std::string(prefix_) + ".parked") all_.back().delivery_limit = limit;
  }

  void add(Harm harm, std::string subject, std::string what, std::string mend) {
    all_.push_back({harm, std::move(subject), std::move(what), std::move(mend), {}});
  }

  const std::string_view prefix_, queue_type_;
  const OwnState& state_;
  std::vector<SettingFinding> all_;
};

}  // namespace

std::string_view to_word(Harm harm) {
  constexpr std::array<std::string_view, 3> kWords = {"safe", "harmful", "fatal"};
  return kWords[static_cast<std::size_t>(harm)];
}

std::span<const SettingRule> setting_rules() { return kRules; }

std::vector<SettingFinding> judge_settings(std::string_view prefix, std::string_view queue_type,
                                           const OwnState& state) {
  return Judge(prefix, queue_type, state).run();
}

}  // namespace rung::rabbit
