#include "plugin/rabbitmq/topology/dead_letter_routes.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "plugin/rabbitmq/topology/management.h"

namespace rung::rabbit {
namespace {

constexpr int kMostHops = 8;  // exchanges bound in a circle end here

std::optional<std::string> text_of(const nlohmann::json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || it == object.end()) return std::nullopt;
  return it->is_string() ? it->get<std::string>() : std::string();
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0;;) {
    const std::size_t dot = text.find('.', begin);
    words.push_back(text.substr(begin, dot == std::string_view::npos ? dot : dot - begin));
    if (dot == std::string_view::npos) return words;
    begin = dot + 1;
  }
}

using Words = std::vector<std::string_view>;

// Which prefixes of the key the pattern so far can match, word by word.
bool match_words(const Words& pattern, const Words& key) {
  std::vector<bool> reachable(key.size() + 1, false);
  reachable[0] = true;
  for (const std::string_view word : pattern) {
    std::vector<bool> next(key.size() + 1, false);
    for (std::size_t i = 0; i <= key.size(); ++i) {
      if (word == "#") {
        next[i] = reachable[i] || (i > 0 && next[i - 1]);
      } else if (i > 0 && reachable[i - 1]) {
        next[i] = word == "*" || word == key[i - 1];
      }
    }
    reachable = std::move(next);
  }
  return reachable[key.size()];
}

// A binding of a headers exchange that names no header matches every message, except with x-match: any.
bool matches_all_headers(const std::string& arguments) {
  const auto json = nlohmann::json::parse(arguments, nullptr, false);
  if (!json.is_object()) return false;
  const bool names_one = std::ranges::any_of(
      json.items(), [](const auto& entry) { return !std::string_view(entry.key()).starts_with("x-"); });
  return !names_one && text_of(json, "x-match").value_or("all").starts_with("all");
}

}  // namespace

DeadLetters dead_letters_of(const QueueFacts& facts, const std::vector<Policy>& policies) {
  DeadLetters out{facts.dead_letter_argument, {}, facts.dead_letter_argument.has_value()};
  const auto arguments = nlohmann::json::parse(facts.arguments, nullptr, false);
  out.routing_key = text_of(arguments, "x-dead-letter-routing-key");
  const auto policy = std::ranges::find(policies, facts.policy, &Policy::name);
  if (facts.policy.empty() || policy == policies.end()) return out;
  const auto definition = nlohmann::json::parse(policy->definition, nullptr, false);
  if (!out.exchange) out.exchange = text_of(definition, "dead-letter-exchange");
  if (!out.routing_key) out.routing_key = text_of(definition, "dead-letter-routing-key");
  return out;
}

bool matches_topic(std::string_view pattern, std::string_view key) {
  return match_words(words_of(pattern), key.empty() ? Words{} : words_of(key));
}

void DeadLetterRoutes::add_binding(Binding binding, const std::string& to) {
  binding.to = to;
  exchanges_[binding.source].bindings.push_back(std::move(binding));
}

DeadLetterRoutes::Reach DeadLetterRoutes::reach(const std::string& exchange,
                                                const std::optional<std::string>& key) const {
  return reach(exchange, key, 0);
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

bool any_foreign(const std::vector<QueueFacts>& queues, const std::vector<Policy>& policies,
                 std::string_view prefix) {
  const std::string ours = failed_exchange(prefix);
  return std::ranges::any_of(queues, [&](const QueueFacts& facts) {
    const auto exchange = dead_letters_of(facts, policies).exchange;
    return exchange && *exchange != ours;
  });
}

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

}  // namespace rung::rabbit
