// Finds rules that move a message between queues in a circle by snoozes: since a snoozed attempt is not
// counted, no ladder ends it.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/config/draft.h"

namespace rung::confile {
namespace {

class SnoozeLoops {
 public:
  SnoozeLoops(const Draft& draft, const RuleBook& rules, Problems& problems)
      : draft_(draft), rules_(rules), problems_(problems) {}

  void check() {
    std::set<std::string> queues;
    for (const auto& [name, queue] : rules_.queues()) queues.insert(name);
    for (const auto& [name, list] : rules_.rule_lists()) {
      for (const FailureRule& rule : list->rules()) {
        if (!rule.then.to.empty()) queues.insert(rule.then.to);
      }
    }
    for (const std::string& queue : queues) {
      if (!seen_.contains(queue)) follow(queue);
    }
  }

 private:
  // A move from one queue to the next, by rule number `rule` of the first one's list.
  struct Move {
    std::string from, to;
    std::size_t rule = 0;
  };
  struct Step {
    std::string queue;
    std::vector<Move> moves;
    std::size_t next = 0;  // of `moves`
  };

  std::vector<Move> moves_from(const std::string& queue) const {
    std::vector<Move> out;
    const FailureRules* list = rules_.failure_rules(queue);
    if (list == nullptr) return out;
    for (std::size_t i = 0; i < list->rules().size(); ++i) {
      const FailureRule& rule = list->rules()[i];
      if (rule.then.kind == RuleAction::Kind::snooze && !rule.then.to.empty() && rule.then.to != queue &&
          may_match(rule, queue))
        out.push_back({queue, rule.then.to, i});
    }
    return out;
  }

  static bool may_match(const FailureRule& rule, const std::string& queue) {
    const auto& patterns = rule.when.queues;
    return patterns.empty() || std::ranges::any_of(patterns, [&](const auto& pattern) {
             return matches_pattern(pattern, queue);
           });
  }

  // Depth first. A move to a queue of the path closes a circle.
  void follow(const std::string& first) {
    std::vector<Step> path;
    const auto enter = [&](const std::string& queue) {
      seen_.insert(queue);
      path.push_back({queue, moves_from(queue)});
    };
    enter(first);
    while (!path.empty()) {
      Step& last = path.back();
      if (last.next == last.moves.size()) {
        path.pop_back();
        continue;
      }
      const std::string to = last.moves[last.next++].to;
      const auto begin = std::ranges::find(path, to, &Step::queue);
      if (begin != path.end()) {
        report({begin, path.end()});
      } else if (!seen_.contains(to)) {
        enter(to);
      }
    }
  }

  void report(const std::vector<Step>& circle) {
    std::string shown;
    bool certain = true;
    for (const Step& step : circle) {
      if (rules_.queue(step.queue).give_up.after) return;  // it ends
      shown += step.queue + " -> ";
      certain = certain && always_matches(step.moves[step.next - 1]);
    }
    shown += circle.front().queue;
    const Move& closing = circle.back().moves[circle.back().next - 1];
    const std::string& name = rules_.queue(closing.from).rules;
    const auto list = std::ranges::find(draft_.rule_lists, name, &RuleListDraft::name);
    if (list == draft_.rule_lists.end() || !told_.emplace(name, closing.rule).second) return;
    const std::string text = "rules." + name + "[" + std::to_string(closing.rule + 1) +
                             "].then.to: snoozes move a message in a circle (" + shown +
                             "), and a snoozed attempt is not counted: remove one of these rules, or set "
                             "give_up.after for one of the queues";
    const Mark& mark = list->rules[closing.rule].to_mark;
    if (certain) {
      problems_.add(mark, text);
    } else if (draft_.reports_warnings()) {
      problems_.warn(mark, text + ". Rung parks it after 100 uncounted attempts");
    }
  }

  // Whatever the failure is, this rule decides.
  bool always_matches(const Move& move) const {
    const auto& rules = rules_.failure_rules(move.from)->rules();
    for (std::size_t i = 0; i < move.rule; ++i) {
      if (may_match(rules[i], move.from)) return false;
    }
    RuleConditions others = rules[move.rule].when;
    others.queues.clear();
    return others.empty();
  }

  const Draft& draft_;
  const RuleBook& rules_;
  Problems& problems_;
  std::set<std::string> seen_;
  std::set<std::pair<std::string, std::size_t>> told_;  // list and rule that were reported
};

}  // namespace

void check_snooze_loops(const Draft& draft, const RuleBook& rules, Problems& problems) {
  SnoozeLoops(draft, rules, problems).check();
}

}  // namespace rung::confile
