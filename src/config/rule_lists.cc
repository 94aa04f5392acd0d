// Builds the lists of `rules`, and `causes`, from the draft: checks what involves several keys, and warns of
// rules that never match.
#include <algorithm>

#include "src/config/draft.h"

namespace rung::confile {
namespace {

class ListBuilder {
 public:
  ListBuilder(const RuleListDraft& list, const Draft& draft, const RuleBook::Ladders& ladders,
              Problems& problems)
      : list_(list), draft_(draft), ladders_(ladders), problems_(problems) {}

  // nullptr on errors.
  FailureRulesPtr build() {
    const auto before = problems_.count();
    std::vector<FailureRule> rules;
    bool invalid = list_.rules.empty();
    for (std::size_t i = 0; i < list_.rules.size(); ++i) {
      const RuleDraft& draft = list_.rules[i];
      invalid = invalid || draft.invalid;
      if (!draft.invalid) check(draft, shown(i));
      rules.push_back(draft.rule);
      rules.back().name = list_.name + "[" + std::to_string(i + 1) + "]";
    }
    if (invalid || problems_.count() != before) return nullptr;
    if (draft_.reports_warnings()) warn(rules);
    auto built = std::make_shared<const FailureRules>(std::move(rules));
    const auto too_large = built->too_large();
    if (!too_large) return built;
    problems_.add(list_.rules[too_large->rule].error_mark,
                  shown(too_large->rule) + ".when.error: " + too_large->why);
    return nullptr;
  }

 private:
  std::string shown(std::size_t i) const { return "rules." + list_.name + "[" + std::to_string(i + 1) + "]"; }

  void check(const RuleDraft& draft, const std::string& path) {
    const RuleAction& then = draft.rule.then;
    if (!draft.has_then)
      problems_.add(draft.mark,
                    path + ": then is missing: write e.g. { when: { type: TimeoutError }, then: park }");
    if (then.kind == RuleAction::Kind::snooze && (then.delay || !then.ladder.empty()))
      problems_.add(draft.mark,
                    path + ".then: snooze keeps the level: it cannot be combined with delay or ladder");
    if (then.delay && !then.ladder.empty())
      problems_.add(draft.mark, path + ".then: delay and ladder cannot be combined: keep one");
    if (!then.ladder.empty())
      check_ladder({then.ladder, draft.ladder_mark, draft.ladder_substituted}, path + ".then.ladder",
                   ladders_, draft_, problems_);
    if (const std::string own = own_prefix(draft_.config, then.to); !own.empty())
      problems_.add(draft.to_mark,
                    path + ".then.to: names that begin with " + own + " are reserved for Rung");
    if (draft.rule.type_from && draft.rule.type_from->groups == 0)
      problems_.add(draft.type_from_mark, path +
                                              ".type_from: the expression has no group: write parentheses "
                                              "around the type, e.g. /^([A-Za-z.]+Error):/");
  }

  void warn(const std::vector<FailureRule>& rules) {
    for (const auto& [rule, by] : shadowed(rules)) {
      problems_.warn(list_.rules[rule].mark, shown(rule) + ": never matches, because rule " +
                                                 std::to_string(by + 1) +
                                                 " matches all of its failures first");
    }
    const bool inherited = draft_.defaults.rules == list_.name;
    std::vector<std::string> queues;
    bool any_name = inherited;  // also of queues whose names are not known here
    for (const QueueDraft& queue : draft_.queues) {
      if (queue.rules ? *queue.rules != list_.name : !inherited) continue;
      queues.push_back(queue.key.only_name().value_or(queue.name));
      any_name = any_name || !queue.key.only_name();
    }
    if (queues.empty() && !inherited)
      problems_.warn(list_.mark, "rules." + list_.name + ": not used: write rules: " + list_.name +
                                     " at a queue, or under defaults");
    if (queues.empty() || any_name) return;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const auto& patterns = rules[i].when.queues;
      const bool any = std::ranges::any_of(patterns, [&](const std::string& pattern) {
        return std::ranges::any_of(queues, [&](const auto& q) { return matches_pattern(pattern, q); });
      });
      if (!patterns.empty() && !any)
        problems_.warn(list_.rules[i].queue_mark,
                       shown(i) + ".when.queue: never matches: no queue with these rules has such a name");
    }
  }

  const RuleListDraft& list_;
  const Draft& draft_;
  const RuleBook::Ladders& ladders_;
  Problems& problems_;
};

}  // namespace

RuleBook::RuleLists build_rule_lists(const Draft& draft, const RuleBook::Ladders& ladders,
                                     Problems& problems) {
  RuleBook::RuleLists lists;
  for (const RuleListDraft& list : draft.rule_lists) {
    if (auto built = ListBuilder(list, draft, ladders, problems).build())
      lists.insert_or_assign(list.name, std::move(built));
  }
  return lists;
}

CauseRulesPtr build_cause_rules(const Draft& draft, Problems& problems) {
  std::vector<CauseRule> rules;
  for (std::size_t i = 0; i < draft.causes.size(); ++i) {
    const CauseDraft& one = draft.causes[i];
    const std::string path = "causes[" + std::to_string(i + 1) + "]";
    if (i == kMostCauseRules)
      problems.add(one.mark, path + ": too many: at most " + std::to_string(kMostCauseRules) + " entries");
    if (one.invalid) continue;
    const bool names = one.match && !one.as.empty() && !one.mask;
    if (!names && (!one.mask || one.match || !one.as.empty())) {
      problems.add(one.mark, path + ": write " + std::string(kCauseForm));
      continue;
    }
    rules.push_back({names ? *one.match : *one.mask, one.as});
  }
  return rules.empty() ? nullptr : std::make_shared<const CauseRules>(std::move(rules));
}

bool check_rules_name(const QueueDraft& queue, const std::string& section, const Draft& draft,
                      Problems& problems) {
  if (!queue.rules) return true;
  std::vector<std::string> names;
  for (const RuleListDraft& list : draft.rule_lists) names.push_back(list.name);
  if (std::ranges::find(names, *queue.rules) != names.end()) return true;
  problems.add(queue.rules_mark, section + queue.name + ".rules: there is no such list under rules" +
                                     did_you_mean(*queue.rules, names));
  return false;
}

}  // namespace rung::confile
