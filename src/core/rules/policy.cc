#include "src/core/rules/policy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/core/base/result.h"
#include "src/core/base/utf8.h"

namespace rung {
namespace {

constexpr std::string_view kBrokersOwn = "amq.";
constexpr std::string_view kReplyQueues = "amq.rabbitmq.reply-to";

}  // namespace

const QueueGroups::Group* QueueGroups::find(std::string_view name) const {
  const auto it = std::ranges::find(all, name, &Group::name);
  return it != all.end() ? &*it : nullptr;
}

const QueueGroups::Group* QueueGroups::of_queue(std::string_view queue) const {
  // A plain name contains no *: an equal entry is a plain name, unless the queue's name itself has a *.
  for (const Group& group : all) {
    if (std::ranges::find(group.queues, queue) != group.queues.end()) return &group;
  }
  for (const Group& group : all) {
    if (std::ranges::any_of(group.queues, [&](const auto& p) { return matches_pattern(p, queue); }))
      return &group;
  }
  return nullptr;
}

const QueueGroups::Group* QueueGroups::elsewhere(std::string_view queue) const {
  const Group* group = of_queue(queue);
  return group != nullptr && group->name != own ? group : nullptr;
}

std::string QueueGroups::own_prefix(std::string_view name) const {
  for (const Group& group : all) {
    if (name.starts_with(group.prefix + ".")) return group.prefix + ".";
  }
  return {};
}

std::string QueueGroups::names() const {
  std::string out;
  for (const Group& group : all) out += (out.empty() ? "" : ", ") + group.name;
  return out;
}

bool TargetRules::allows(std::string_view name) const {
  const auto matches = [&](const std::string& pattern) { return matches_pattern(pattern, name); };
  if (is_own(name) || std::ranges::any_of(deny, matches)) return false;
  if (configured.contains(name) || attached.contains(name)) return true;
  const auto by_config = [&](const QueuePattern& pattern) {
    return (!name.starts_with(kBrokersOwn) || pattern.head().starts_with(kBrokersOwn)) &&
           pattern.matches(name);
  };
  if (std::ranges::any_of(configured_patterns, by_config)) return true;
  if (name.starts_with(kBrokersOwn)) {
    return allow && std::ranges::any_of(*allow, [&](const std::string& pattern) {
             return pattern.starts_with(kBrokersOwn) && matches(pattern);
           });
  }
  return !allow || std::ranges::any_of(*allow, matches);
}

std::string not_allowed(std::string_view named_by, std::string_view name) {
  return std::string(named_by) + " names '" + clean_utf8(name, 255) +
         "', which broker.targets does not allow";
}

RuleBook::RuleBook(Ladders ladders, Queues queues, Tags tags, QueueRules defaults, TargetRules targets,
                   RuleLists rules, ErrorQueuesPtr error_queues, Patterns patterns)
    : ladders_(std::move(ladders)),
      queues_(std::move(queues)),
      tags_(std::move(tags)),
      defaults_(std::move(defaults)),
      targets_(std::move(targets)),
      rules_(std::move(rules)),
      patterns_(std::move(patterns)) {
  RUNG_REQUIRE(ladders_.contains("default"));
  targets_.error_queues = std::move(error_queues);
  std::ranges::stable_sort(patterns_, std::greater{},
                           [](const PatternRules& entry) { return entry.pattern.text().size(); });
  std::set<std::string> headers;
  for (const auto& [name, list] : rules_) {
    for (const FailureRule& rule : list->rules()) {
      for (const auto& [header, pattern] : rule.when.headers) headers.insert(header);
    }
  }
  const auto add_queue = [&](const QueueRules& queue) {
    has_gates_ = has_gates_ || !(queue.gate == GateRules{});
    limits_ = limits_ || queue.gate.limits();
    if (queue.gate.rate_by) headers.insert(queue.gate.rate_by->header);
  };
  add_queue(defaults_);
  for (const auto& [name, queue] : queues_) add_queue(queue);
  for (const PatternRules& entry : patterns_) add_queue(entry.rules);
  rule_headers_.assign(headers.begin(), headers.end());
}

const QueueRules& RuleBook::queue(std::string_view name) const {
  if (const auto it = queues_.find(name); it != queues_.end()) return it->second;
  const PatternRules* entry = pattern_of(name);
  return entry != nullptr ? entry->rules : defaults_;
}

const RuleBook::PatternRules* RuleBook::pattern_of(std::string_view name) const {
  if (patterns_.empty() || queues_.contains(name)) return nullptr;
  // A queue that is called like the pattern itself: the exact name wins.
  const auto same = [&](const PatternRules& entry) { return entry.pattern.text() == name; };
  if (const auto it = std::ranges::find_if(patterns_, same); it != patterns_.end()) return &*it;
  const auto matches = [&](const PatternRules& entry) { return entry.pattern.matches(name); };
  const auto it = std::ranges::find_if(patterns_, matches);
  return it != patterns_.end() ? &*it : nullptr;
}

bool RuleBook::watches(std::string_view name) const {
  return pattern_of(name) != nullptr && !targets_.is_own(name) && !name.starts_with("amq.") &&
         targets_.groups.elsewhere(name) == nullptr && error_queues().find(name) == nullptr;
}

const FailureRules* RuleBook::failure_rules(std::string_view queue_name) const {
  const auto it = rules_.find(queue(queue_name).rules);
  return it != rules_.end() ? it->second.get() : nullptr;
}

const TagRules* RuleBook::tag(std::string_view name) const {
  const auto it = tags_.find(name);
  return it != tags_.end() ? &it->second : nullptr;
}

bool RuleBook::only_parks(const Task& task) const {
  const ErrorQueue* entry = error_queues().find(task.error_queue);
  return entry != nullptr && !entry->retries;
}

std::shared_ptr<const RuleBook> RuleBook::with_error_queues(ErrorQueuesPtr error_queues) const {
  auto copy = std::make_shared<RuleBook>(*this);
  copy->targets_.error_queues = std::move(error_queues);
  return copy;
}

std::shared_ptr<const RuleBook> RuleBook::with_attached(TargetRules::Names queues) const {
  auto copy = std::make_shared<RuleBook>(*this);
  copy->targets_.attached = std::move(queues);
  return copy;
}

RuleHeaders rule_headers_of(const Message& message, const RuleBook& rules) {
  RuleHeaders out;
  for (const std::string& name : rules.rule_headers()) {
    if (std::string value = indexed_value(message, name); !value.empty()) out.emplace(name, std::move(value));
  }
  return out;
}

std::string own_target(const Target& target, const TargetRules& rules) {
  const Target normal = normalised(target);
  const std::string& name = normal.queue.empty() ? normal.exchange : normal.queue;
  const std::string prefix = rules.own_prefix(name);
  if (prefix.empty()) return {};
  return "'" + name + "' begins with " + prefix +
         ": those queues and exchanges are Rung's own; name one of yours";
}

std::string error_queue_target(const Target& target, const TargetRules& rules) {
  const std::string queue = normalised(target).queue;
  if (rules.error_queues == nullptr || rules.error_queues->find(queue) == nullptr) return {};
  return "'" + queue + "' is an error queue: Rung would take its messages in again and again; name another";
}

std::string refused_target(const Target& target, const TargetRules& rules) {
  if (std::string why = own_target(target, rules); !why.empty()) return why;
  if (std::string why = error_queue_target(target, rules); !why.empty()) return why;
  const std::string queue = normalised(target).queue;
  if (queue.starts_with(kReplyQueues))
    return "'" + queue + "' is no queue, but a client's direct reply: a message to it may be dropped";
  const auto* group = queue.empty() ? nullptr : rules.groups.elsewhere(queue);
  if (group == nullptr) return {};
  return "the queue '" + queue + "' belongs to the group " + group->name + ", and this is " +
         rules.groups.own + ": ask that group";
}

bool GateRules::operator==(const GateRules& other) const {
  const auto rest = [](const GateRules& g) { return std::tie(g.rate, g.rate_by, g.breaker, g.retry_after); };
  const bool same_window =
      window == nullptr || other.window == nullptr ? window == other.window : *window == *other.window;
  return same_window && rest(*this) == rest(other);
}

std::string format_rate(double per_second) {
  // The largest unit of which it is a whole number is what people write.
  constexpr double kClose = 1e-6, kMinute = 60, kHour = 3600;
  for (const auto& [seconds, unit] : {std::pair{1.0, "/s"}, {kMinute, "/m"}, {kHour, "/h"}}) {
    const double number = std::round(per_second * seconds);
    if (std::abs(per_second * seconds - number) < kClose || seconds == kHour)
      return std::to_string(static_cast<std::int64_t>(number)) + unit;
  }
  return {};
}

std::string describe_limits(const GateRules& gate) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (gate.rate > 0) add("rate " + format_rate(gate.rate));
  if (gate.rate_by)
    add("rate " + format_rate(gate.rate_by->per_second) + " for each " + gate.rate_by->header);
  return text;
}

const levels::Ladder* RuleBook::ladder(std::string_view name) const {
  const auto it = ladders_.find(name);
  return it != ladders_.end() ? &it->second : nullptr;
}

}  // namespace rung
