// Names, patterns and command lines of policies, and how a queue's policies affect its dead letters.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugin/rabbitmq/topology/management.h"

namespace rung::rabbit {
namespace {

using nlohmann::json;

constexpr const char* kDeadLetterKey = "dead-letter-exchange";

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-_./:@%+=,").find(c) != std::string_view::npos;
}
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

AttachedAnswer judge_attached(std::string_view prefix, const QueueFacts& facts,
                              const std::vector<Policy>& policies, const DeadLetterRoutes& routes) {
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
  const auto find = [&](std::string_view name) -> const Policy* {
    const auto it = std::ranges::find(policies, name, &Policy::name);
    return name.empty() || it == policies.end() ? nullptr : &*it;
  };
  const Policy* effective = find(facts.policy);
  std::string detail = "nothing says where its dead letters go";
  if (dead.exchange)
    detail = "policy '" + facts.policy + "' sends its dead letters to '" + *dead.exchange + "'" + key;
  const Policy* made = find(policy_name(facts.name));
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

AttachedLook look_at_attached(QueueAdmin& admin, std::string_view prefix,
                              const std::vector<std::string>& queues,
                              const std::function<bool(const std::string& queue)>& also) {
  const auto all_unknown = [&](const Error& error) {
    AttachedLook none;
    none.queues = queues;
    none.answers.assign(queues.size(), {Attached::unknown, error.message});
    none.facts.resize(queues.size());
    return none;
  };
  auto facts = admin.queues();
  if (!facts) return all_unknown(facts.error());
  auto policies = admin.policies();
  if (!policies) return all_unknown(policies.error());
  auto routes = read_routes(admin, prefix, any_foreign(*facts, *policies, prefix));
  if (!routes) return all_unknown(routes.error());
  AttachedLook look;
  look.queues = queues;
  for (const QueueFacts& queue : *facts) {
    if (!also || look.queues.size() >= queues.size() + kMostOthers) break;
    const bool asked = std::ranges::find(queues, queue.name) != queues.end();
    if (!asked && !queue.exclusive && queue.type != "stream" && also(queue.name))
      look.queues.push_back(queue.name);
  }
  for (const std::string& queue : look.queues) {
    const auto it = std::ranges::find(*facts, queue, &QueueFacts::name);
    look.facts.push_back(it == facts->end() ? std::nullopt : std::optional(*it));
    look.answers.push_back(it == facts->end()
                               ? AttachedAnswer{Attached::no_such_queue, "no queue '" + queue + "'"}
                               : judge_attached(prefix, *it, *policies, *routes));
  }
  look.all.emplace();
  for (const QueueFacts& queue : *facts) {
    if (is_attached(judge_attached(prefix, queue, *policies, *routes).attached))
      look.all->push_back(queue.name);
  }
  look.policies = *std::move(policies);
  return look;
}

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

std::string policy_definition(std::string_view prefix) {
  return json{{kDeadLetterKey, failed_exchange(prefix)}}.dump(-1, ' ', false, json::error_handler_t::replace);
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
  return policy_command(vhost,
                        {policy_name(queue), policy_pattern(queue), "queues", policy_definition(prefix)});
}

std::string policy_command(std::string_view vhost, const Policy& policy) {
  // rabbitmqctl reads its arguments in the locale's encoding: in C, a non-ASCII name would turn into another.
  const bool ascii = is_ascii(policy.name) && is_ascii(vhost) && is_ascii(policy.definition);
  std::string out = ascii ? "" : "LC_ALL=C.UTF-8 ";
  out += "rabbitmqctl set_policy ";
  out += vhost.starts_with('-') ? "--vhost=" + shell_quote(vhost) : "-p " + shell_quote(vhost);
  if (policy.priority != 0) out += " --priority " + std::to_string(policy.priority);
  out += " --apply-to " + shell_quote(policy.apply_to) + " " + shell_quote(policy.name) + " " +
         shell_quote(policy.pattern) + " " + shell_quote(policy.definition);
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

}  // namespace rung::rabbit
