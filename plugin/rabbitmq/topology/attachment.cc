#include "plugin/rabbitmq/topology/attachment.h"

#include <re2/re2.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "plugin/rabbitmq/topology/return_route.h"

namespace rung::rabbit {
namespace {

using nlohmann::json;

constexpr const char* kDeadLetterKey = "dead-letter-exchange";
constexpr int kMostHops = 8;  // exchanges bound in a circle end here

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-_./:@%+=,").find(c) != std::string_view::npos;
}
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::optional<std::string> text_of(const json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || it == object.end()) return std::nullopt;
  return it->is_string() ? it->get<std::string>() : std::string();
}

// A binding of a headers exchange that names no header matches every message, except with x-match: any.
bool matches_all_headers(const json& headers) {
  const bool names_one = std::ranges::any_of(
      headers.items(), [](const auto& entry) { return !std::string_view(entry.key()).starts_with("x-"); });
  return !names_one && text_of(headers, "x-match").value_or("all").starts_with("all");
}

}  // namespace

// --- names and command lines ---

std::string failed_exchange(std::string_view prefix) { return std::string(prefix) + ".failed"; }
std::string policy_name(std::string_view queue) { return "rung-" + std::string(queue); }

std::string policy_pattern(std::string_view queue) {
  std::string out = "^";
  for (const char c : queue) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "$";
}

std::string shell_quote(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_word)) return std::string(text);
  if (std::ranges::none_of(text, is_control)) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
    return out + "'";
  }
  // A terminal would lose a control character or run it as a command.
  constexpr std::string_view kOctal = "01234567";
  std::string out = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_control(c)) {
      out += '\\';
      for (const int shift : {6, 3, 0}) out += kOctal[(byte >> shift) & 7];
    } else {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "'";
}

std::string policy_command(std::string_view prefix, std::string_view vhost, std::string_view queue) {
  return policy_command(vhost, {policy_name(queue), policy_pattern(queue), "queues",
                                json{{kDeadLetterKey, failed_exchange(prefix)}}});
}

std::string policy_command(std::string_view vhost, const Policy& policy) {
  // rabbitmqctl reads its arguments in the locale's encoding: in C, a non-ASCII name would turn into another.
  const std::string definition = dump(policy.definition);
  const bool ascii = is_ascii(policy.name) && is_ascii(vhost) && is_ascii(definition);
  std::string out = ascii ? "" : "LC_ALL=C.UTF-8 ";
  out += "rabbitmqctl set_policy ";
  out += vhost.starts_with('-') ? "--vhost=" + shell_quote(vhost) : "-p " + shell_quote(vhost);
  if (policy.priority != 0) out += " --priority " + std::to_string(policy.priority);
  out += " --apply-to " + shell_quote(policy.apply_to) + " " + shell_quote(policy.name) + " " +
         shell_quote(policy.pattern) + " " + shell_quote(definition);
  return out;
}

std::string binding_command(std::string_view verb, std::string_view vhost, std::string_view source,
                            std::string_view type, std::string_view destination, std::string_view key) {
  const bool removes = verb == "delete";
  if (removes && key.empty()) key = "~";  // its name in the management API
  return "rabbitmqadmin -V " + shell_quote(vhost) + " " + std::string(verb) +
         " binding source=" + shell_quote(source) + " destination_type=" + std::string(type) +
         " destination=" + shell_quote(destination) + (removes ? " properties_key=" : " routing_key=") +
         shell_quote(key);
}

// --- where dead letters go ---

DeadLetters dead_letters_of(const QueueFacts& facts, const std::vector<Policy>& policies) {
  DeadLetters out{facts.dead_letter_argument, {}, facts.dead_letter_argument.has_value()};
  out.routing_key = text_of(facts.arguments, "x-dead-letter-routing-key");
  const Policy* policy = find_policy(policies, facts.policy);
  if (policy == nullptr) return out;
  if (!out.exchange) out.exchange = text_of(policy->definition, kDeadLetterKey);
  if (!out.routing_key) out.routing_key = text_of(policy->definition, "dead-letter-routing-key");
  return out;
}

bool matches_topic(std::string_view pattern, std::string_view key) {
  std::string words;  // each with a dot behind it
  for (std::size_t begin = 0, end = 0; begin <= pattern.size(); begin = end + 1) {
    end = std::min(pattern.find('.', begin), pattern.size());
    const std::string_view word = pattern.substr(begin, end - begin);
    words += word == "#" ? "(?:[^.]*\\.)*" : word == "*" ? "[^.]*\\." : RE2::QuoteMeta(word) + "\\.";
  }
  return RE2::FullMatch(key.empty() ? "" : std::string(key) + ".", RE2(words, RE2::Latin1));
}

void DeadLetterRoutes::add_binding(Binding binding, const std::string& to) {
  binding.to = to;
  exchanges_[binding.source].bindings.push_back(std::move(binding));
}

DeadLetterRoutes::Reach DeadLetterRoutes::reach(const std::string& exchange,
                                                const std::optional<std::string>& key, int depth) const {
  const auto it = exchanges_.find(exchange);
  if (it == exchanges_.end() || depth > kMostHops) return Reach::no;
  // The default exchange: messages keep the key with which they came, which is not the name of Rung's queue.
  if (exchange.empty() && !key) return Reach::no;
  Reach best = Reach::no;
  for (const Binding& binding : it->second.bindings)
    best = std::max(best, through(it->second, binding, key, depth));
  return best;
}

DeadLetterRoutes::Reach DeadLetterRoutes::through(const Exchange& exchange, const Binding& binding,
                                                  const std::optional<std::string>& key, int depth) const {
  const std::string& type = exchange.type;
  Reach one = Reach::some;  // an exchange type of a plugin
  if (type == "fanout" || (type == "topic" && binding.routing_key == "#") ||
      (type == "headers" && matches_all_headers(binding.arguments))) {
    one = Reach::all;
  } else if (key && type == "direct") {
    one = *key == binding.routing_key ? Reach::all : Reach::no;
  } else if (key && type == "topic") {
    one = matches_topic(binding.routing_key, *key) ? Reach::all : Reach::no;
  }
  return binding.to.empty() ? one : std::min(one, reach(binding.to, key, depth + 1));
}

std::vector<Binding> DeadLetterRoutes::ways(const std::string& exchange,
                                            const std::optional<std::string>& key) const {
  const auto it = exchanges_.find(exchange);
  if (it == exchanges_.end()) return {};
  std::vector<Binding> ways = it->second.bindings;
  std::erase_if(ways, [&](const Binding& one) { return through(it->second, one, key, 0) == Reach::no; });
  return ways;
}

namespace {

// The ways to <prefix>.failed. `foreign`: also through exchanges of others. Without it only whether the
// exchange <prefix>.failed is bound to its queue.
Result<DeadLetterRoutes> read_routes(QueueAdmin& admin, std::string_view prefix, bool foreign) {
  const std::string ours = failed_exchange(prefix);  // the queue has the same name
  DeadLetterRoutes routes;
  routes.add_exchange(ours, "fanout");
  routes.add_exchange("", "direct");  // the default one: it is bound to every queue by its name
  std::deque<std::string> to = {""};
  for (std::size_t seen = 0; !to.empty(); to.pop_front()) {
    const std::string target = to.front();
    auto bindings = admin.bindings(target.empty(), target.empty() ? ours : target);
    if (!bindings) return tl::unexpected(bindings.error());
    if (target.empty() && std::ranges::find(*bindings, ours, &Binding::source) == bindings->end()) {
      // A queue that does not exist has no binding either: the first sidecar declares and binds it.
      const auto queue = admin.queue(ours);
      if (!queue && queue.error().kind != Error::Kind::not_found) return tl::unexpected(queue.error());
      if (!queue) routes.add_binding({ours, ""}, "");
    }
    for (const Binding& binding : *bindings) {
      const bool known = routes.knows(binding.source);
      if (!known && (!foreign || ++seen > kMostExchanges)) continue;
      if (!known) {
        const auto exchange = admin.exchange(binding.source);
        if (!exchange && exchange.error().kind != Error::Kind::not_found)
          return tl::unexpected(exchange.error());
        routes.add_exchange(binding.source, exchange ? exchange->type : "");
        to.push_back(binding.source);
      }
      routes.add_binding(binding, target);
    }
    if (target.empty() && foreign) to.push_back(ours);
  }
  return routes;
}

}  // namespace

// --- whether they reach us ---

const Policy* find_policy(const std::vector<Policy>& policies, std::string_view name) {
  const auto it = std::ranges::find(policies, name, &Policy::name);
  return name.empty() || it == policies.end() ? nullptr : &*it;
}

const QueueFacts* Vhost::find(std::string_view queue) const {
  const auto it = std::ranges::find(queues, queue, &QueueFacts::name);
  return it == queues.end() ? nullptr : &*it;
}

AttachedAnswer Vhost::attached(const QueueFacts& facts) const {
  using Reach = DeadLetterRoutes::Reach;
  const std::string ours = failed_exchange(prefix);
  if (facts.type == "stream") return {Attached::no, "a stream does not dead-letter"};
  const DeadLetters dead = dead_letters_of(facts, policies);
  const Reach reach = dead.exchange ? routes.reach(*dead.exchange, dead.routing_key) : Reach::no;
  if (dead.exchange == ours) {
    if (reach == Reach::no)
      return {Attached::no, "the exchange " + ours + " is not bound to the queue " + ours +
                                " (a running sidecar restores that)"};
    return {dead.by_argument ? Attached::yes_by_argument : Attached::yes_by_policy,
            dead.by_argument ? "" : facts.policy};
  }
  if (reach != Reach::no)
    return {Attached::yes_by_binding, "exchange '" + *dead.exchange + "', which is bound to " + ours +
                                          (reach == Reach::some ? " for some routing keys" : "")};
  // A binding that this routing key does not match.
  const bool wrong_key = dead.exchange && dead.routing_key && routes.reach(*dead.exchange, {}) != Reach::no;
  const std::string key = wrong_key ? " with the routing key '" + *dead.routing_key +
                                          "', which its bindings to " + ours + " do not match"
                                    : "";
  if (dead.by_argument)
    return {Attached::no, "its argument x-dead-letter-exchange is '" + *dead.exchange +
                              "', which overrides any policy" + key};
  const Policy* effective = find_policy(policies, facts.policy);
  std::string detail = "nothing says where its dead letters go";
  if (dead.exchange)
    detail = "policy '" + facts.policy + "' sends its dead letters to '" + *dead.exchange + "'" + key;
  const Policy* made = find_policy(policies, policy_name(facts.name));
  if (effective != nullptr && made != nullptr && made != effective) {
    detail = "policy '" + effective->name + "' (priority " + std::to_string(effective->priority) +
             ") overrides '" + made->name + "' (priority " + std::to_string(made->priority) + "): " + detail;
  }
  return {Attached::no, detail};
}

std::string describe(const AttachedAnswer& answer) {
  if (answer.attached == Attached::yes_by_argument) return "queue argument";
  return (answer.attached == Attached::yes_by_policy ? "policy " : "") + answer.detail;
}

Result<Vhost> read_vhost(QueueAdmin& admin, std::string_view prefix, const std::vector<std::string>* only) {
  Vhost vhost{std::string(prefix)};
  if (only == nullptr) {
    auto queues = admin.queues();
    if (!queues) return tl::unexpected(queues.error());
    vhost.queues = *std::move(queues);
  }
  for (const std::string& name : only == nullptr ? std::vector<std::string>() : *only) {
    auto facts = admin.queue(name);
    if (!facts && facts.error().kind != Error::Kind::not_found) return tl::unexpected(facts.error());
    if (facts && vhost.find(name) == nullptr) vhost.queues.push_back(*std::move(facts));
  }
  auto policies = admin.policies();
  if (!policies) return tl::unexpected(policies.error());
  vhost.policies = *std::move(policies);
  const std::string ours = failed_exchange(prefix);
  const bool foreign = only != nullptr || std::ranges::any_of(vhost.queues, [&](const QueueFacts& facts) {
                         const auto exchange = dead_letters_of(facts, vhost.policies).exchange;
                         return exchange && *exchange != ours;
                       });
  auto routes = read_routes(admin, prefix, foreign);
  if (!routes) return tl::unexpected(routes.error());
  vhost.routes = *std::move(routes);
  return vhost;
}

// --- what others can set on Rung's own queues and exchanges

namespace {

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

std::optional<std::int64_t> number_of(const json& value) {
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

}  // namespace

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

namespace {

// One of Rung's own.
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
                         facts.arguments,
                         facts.effective_policy,
                         priority_of(facts.policy)};
      judge_type(queue);
      judge(queue);
    }
    for (const ExchangeFacts& facts : state_.exchanges) {
      const Policy* policy = find_policy(state_.policies, facts.policy);
      judge({false, facts.name, facts.type, facts.policy, "", facts.arguments,
             policy != nullptr ? policy->definition : json::object(), priority_of(facts.policy)});
    }
    judge_bindings();
    std::ranges::stable_sort(all_, [](const auto& a, const auto& b) { return a.harm > b.harm; });
    return std::move(all_);
  }

 private:
  int priority_of(std::string_view policy) const {
    const Policy* its = find_policy(state_.policies, policy);
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
    for (const Binding& binding : state_.return_bindings) {
      if (binding.destination_type == "queue" && binding.routing_key == binding_key(binding.destination))
        continue;
      add(fatal, exchange,
          binding.destination_type + " '" + binding.destination + "' is bound to it with the key '" +
              binding.routing_key +
              "', which Rung did not do: it gets retries of others, and such a retry counts as "
              "delivered",
          binding_command("delete", state_.vhost, exchange, binding.destination_type, binding.destination,
                          binding.routing_key));
    }
  }

  // Whether it is the operator policy that sets this value.
  bool by_operator(const Object& object, std::string_view key, const Setting& setting) const {
    if (object.operator_policy.empty()) return false;
    const Policy* policy = find_policy(state_.policies, object.policy);
    return policy == nullptr || policy->definition.value(std::string(key), json()) != setting.value;
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
           " " + shell_quote(dump(definition));
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
    const auto setting = setting_of(queue.arguments, queue.effective_policy, "delivery-limit");
    const std::int64_t limit = setting ? number_of(setting->value).value_or(-1) : kLimitOfRabbitMq4;
    if (limit >= 0 && limit < kEnoughDeliveries && limit < lowest.deliveries) lowest = {queue.name, limit};
  }
  return lowest;
}

}  // namespace rung::rabbit
