// Builds the lists of `rules`, and `causes`: checks what involves several keys, and warns of rules that never
// match.
#include <algorithm>
#include <functional>

#include "src/config/load.h"

namespace rung::confile {
namespace {

using Ladders = RuleBook::Ladders;

std::string rule_place(const std::string& list, std::size_t rule) {
  return "rules." + list + "[" + std::to_string(rule + 1) + "]";
}

RuleConditions conditions_of(const Node& node) {
  RuleConditions when;
  when.types = node.texts_at("when.type");
  when.error = node.get<RuleRegex>("when.error");
  when.reasons = node.texts_at("when.reason");
  when.headers = node.get<RuleHeaders>("when.header").value_or(RuleHeaders());
  when.tags = node.texts_at("when.tag");
  when.queues = node.texts_at("when.queue");
  when.attempts_above = node.get<int>("when.attempts_above");
  when.age_above = node.get<Ms>("when.age_above");
  return when;
}

FailureRule rule_of(const Node& node, const std::string& path, const Ladders& ladders, Load& load) {
  FailureRule rule;
  rule.name = path.substr(path.find('.') + 1);
  rule.when = conditions_of(node);
  RuleAction& then = rule.then;
  const auto word = node.get<std::string>("then");
  const auto snooze = node.get<Ms>("then.snooze");
  then.kind = snooze              ? RuleAction::Kind::snooze
              : word == "park"    ? RuleAction::Kind::park
              : word == "discard" ? RuleAction::Kind::discard
                                  : RuleAction::Kind::retry;
  then.snooze = snooze.value_or(then.snooze);
  then.delay = node.get<Ms>("then.delay");
  then.ladder = ladder_at(node, "then.ladder", path + ".then.ladder", ladders, load);
  then.to = node.text_at("then.to");
  rule.type_from = node.get<RuleRegex>("type_from");
  const auto problem = [&](std::string_view key, const std::string& what) {
    load.problems.add(node.mark_at(key), path + what);
  };
  if (!word && node.entries_at("then").empty())
    problem("", ": then is missing: write e.g. { when: { type: TimeoutError }, then: park }");
  if (snooze && (then.delay || node.has("then.ladder")))
    problem("", ".then: snooze keeps the level: it cannot be combined with delay or ladder");
  if (then.delay && node.has("then.ladder"))
    problem("", ".then: delay and ladder cannot be combined: keep one");
  refuse_own(node, "then.to", path + ".then.to", load);
  if (rule.type_from && rule.type_from->groups == 0)
    problem("type_from",
            ".type_from: the expression has no group: write parentheses around the type, e.g. "
            "/^([A-Za-z.]+Error):/");
  return rule;
}

bool may_match(const FailureRule& rule, const std::string& queue) {
  const auto& patterns = rule.when.queues;
  return patterns.empty() ||
         std::ranges::any_of(patterns, [&](const auto& pattern) { return matches_pattern(pattern, queue); });
}

void warn_of_useless(const Entry& entry, const std::vector<FailureRule>& rules, Load& load) {
  const auto& [key_node, list] = entry;
  const std::string& name = key_node.text;
  for (const auto& [rule, by] : shadowed(rules))
    load.problems.warn(list.items[rule].mark, rule_place(name, rule) + ": never matches, because rule " +
                                                  std::to_string(by + 1) +
                                                  " matches all of its failures first");
  const bool inherited = load.root.get<std::string>("defaults.rules") == name;
  Texts queues;
  bool any_name = inherited;  // also of queues whose names are not known here
  for (const auto& [key, queue] : load.root.entries_at("queues")) {
    const auto its = queue.get<std::string>("rules");
    if (its ? its != name : !inherited) continue;
    const QueuePattern pattern(key.text);
    queues.push_back(pattern.only_name().value_or(key.text));
    any_name = any_name || !pattern.only_name();
  }
  if (queues.empty() && !inherited)
    load.problems.warn(key_node.mark, "rules." + name + ": not used: write rules: " + name +
                                          " at a queue, or under defaults");
  if (queues.empty() || any_name) return;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (std::ranges::none_of(queues, [&](const auto& queue) { return may_match(rules[i], queue); }))
      load.problems.warn(
          list.items[i].mark_at("when.queue"),
          rule_place(name, i) + ".when.queue: never matches: no queue with these rules has such a name");
  }
}

// nullptr on errors.
FailureRulesPtr build_list(const Entry& entry, const Ladders& ladders, Load& load) {
  const auto& [key, list] = entry;
  const auto before = load.problems.count();
  std::vector<FailureRule> rules;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (!list.items[i].invalid)
      rules.push_back(rule_of(list.items[i], rule_place(key.text, i), ladders, load));
  }
  if (list.invalid || load.problems.count() != before) return nullptr;
  if (load.reports_warnings()) warn_of_useless(entry, rules, load);
  return std::make_shared<const FailureRules>(std::move(rules));
}

}  // namespace

RuleBook::RuleLists build_rule_lists(const Ladders& ladders, Load& load) {
  RuleBook::RuleLists lists;
  for (const Entry& entry : load.root.entries_at("rules")) {
    if (auto built = build_list(entry, ladders, load))
      lists.insert_or_assign(entry.key.text, std::move(built));
  }
  return lists;
}

// Rules that move a message between queues in a circle by snoozes: since a snoozed attempt is not counted, no
// ladder ends it.
void check_snooze_loops(const RuleBook& book, Load& load) {
  struct Move {
    std::string from, to;
    std::size_t rule = 0;  // of the list of `from`
  };
  std::set<std::string> seen, told;
  std::vector<Move> path;
  // Whatever the failure is, this rule decides.
  const auto always_matches = [&](const Move& move) {
    const auto& rules = book.failure_rules(move.from)->rules();
    const auto end = rules.begin() + static_cast<std::ptrdiff_t>(move.rule);
    RuleConditions others = end->when;
    others.queues.clear();
    return others.empty() &&
           std::none_of(rules.begin(), end, [&](const auto& rule) { return may_match(rule, move.from); });
  };
  const auto report = [&](auto circle) {
    std::string shown;
    bool certain = true;
    for (; circle != path.end(); ++circle) {
      if (book.queue(circle->from).give_up.after) return;  // it ends
      shown += circle->from + " -> ";
      certain = certain && always_matches(*circle);
    }
    const Move& closing = path.back();
    const std::string list = book.queue(closing.from).rules;
    const std::string place = rule_place(list, closing.rule) + ".then.to";
    if (!told.insert(place).second) return;
    const std::string text = place + ": snoozes move a message in a circle (" + shown + closing.to +
                             "), and a snoozed attempt is not counted: remove one of these rules, or set "
                             "give_up.after for one of the queues";
    for (const auto& [key, rules] : load.root.entries_at("rules")) {
      if (key.text != list) continue;
      const Mark mark = rules.items[closing.rule].mark_at("then.to");
      if (certain) {
        load.problems.add(mark, text);
      } else if (load.reports_warnings()) {
        load.problems.warn(mark, text + ". Rung parks it after 100 uncounted attempts");
      }
    }
  };
  // Depth first. A move to a queue of the path closes a circle.
  const std::function<void(const std::string&)> follow = [&](const std::string& queue) {
    seen.insert(queue);
    const FailureRules* const list = book.failure_rules(queue);
    for (std::size_t i = 0; list != nullptr && i < list->rules().size(); ++i) {
      const FailureRule& rule = list->rules()[i];
      const std::string& to = rule.then.to;
      if (rule.then.kind != RuleAction::Kind::snooze || to.empty() || to == queue || !may_match(rule, queue))
        continue;
      path.push_back({queue, to, i});
      const auto begin = std::ranges::find(path, to, &Move::from);
      if (begin != path.end()) {
        report(begin);
      } else if (!seen.contains(to)) {
        follow(to);
      }
      path.pop_back();
    }
  };
  std::set<std::string> queues;
  for (const auto& [name, queue] : book.queues()) queues.insert(name);
  for (const auto& [name, list] : book.rule_lists()) {
    for (const FailureRule& rule : list->rules()) queues.insert(rule.then.to);
  }
  for (const std::string& queue : queues) {
    if (!queue.empty() && !seen.contains(queue)) follow(queue);
  }
}

CauseRulesPtr build_cause_rules(Load& load) {
  std::vector<CauseRule> rules;
  const std::vector<Node>& items = load.root.items_at("causes");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path = "causes[" + std::to_string(i + 1) + "]";
    if (i == kMostCauseRules)
      load.problems.add(items[i].mark,
                        path + ": too many: at most " + std::to_string(kMostCauseRules) + " entries");
    if (items[i].invalid) continue;
    const auto match = items[i].get<RuleRegex>("match"), mask = items[i].get<RuleRegex>("mask");
    const auto as = items[i].get<std::string>("as");
    if (match ? as && !mask : mask && !as) {
      rules.push_back({match ? *match : *mask, as.value_or("")});
    } else {
      load.problems.add(items[i].mark, path + ": write " + std::string(kCauseForm));
    }
  }
  return rules.empty() ? nullptr : std::make_shared<const CauseRules>(std::move(rules));
}

}  // namespace rung::confile
