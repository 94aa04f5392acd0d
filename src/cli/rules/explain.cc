#include "src/cli/rules/explain.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "levels/duration.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/machine/climb.h"
#include "src/core/machine/machine.h"
#include "src/core/task/origin.h"

namespace rung::cli {
namespace {

using levels::format_duration;

constexpr EpochMs kNow{1'700'000'000'000};  // any time: only differences are shown
constexpr int kNode = 1;

// A task whose attempt has just failed, as the state machine has it before it decides.
Result<Task> failed_task(const ExplainOptions& o, const RuleBook& rules) {
  Task task;
  task.id = {1};
  task.queue = o.queue;
  task.tag = o.tag;
  task.attempt = o.attempt;
  task.node = kNode;
  task.ladder = rules.queue(o.queue).ladder;
  task.levels = rules.ladder(task.ladder)->levels();
  task.level = std::min(o.attempt, task.levels);
  task.first_failed_at = kNow;
  if (!o.age.empty()) {
    const auto age = levels::parse_duration(o.age);
    if (!age) return permanent("--age " + o.age + ": " + age.error());
    task.first_failed_at = kNow - *age;
  }
  for (const std::string& header : o.headers) {
    const auto equals = header.find('=');
    if (equals == std::string::npos || equals == 0)
      return permanent("--header " + header + ": write NAME=VALUE");
    task.rule_headers.emplace(header.substr(0, equals), header.substr(equals + 1));
  }
  task.error_type = o.type;
  task.last_error = o.error;
  if (o.reason == "returned") task.error_type = "returned";
  if (o.reason == "silent") task.error_type = "timed_out";
  const bool by_broker = o.reason == "expired" || o.reason == "maxlen" || o.reason == "delivery_limit";
  if (by_broker) task.last_error = "dead-lettered: " + o.reason + " (queue " + o.queue + ")";
  if (task.last_error.empty()) task.last_error = "failed (no retry-error was given)";
  return task;
}

// What the state machine makes of it.
Decision decide_failure(Task task, const ExplainOptions& o, const RuleBook& rules) {
  if (o.attempt == 0) {
    begin(task, {}, rules, kNow, 0.0);
    Decision begun;
    begun.verdict = Decision::Verdict::applied;
    begun.task = std::move(task);
    return begun;
  }
  Circumstances at;
  at.now = kNow;
  at.node = kNode;
  task.state = State::publishing;
  if (o.reason == "returned")
    return decide(task, event::Returned{task.attempt, kNow, task.last_error}, rules, at);
  task.state = State::awaiting;
  task.next_at = kNow;
  if (o.reason == "silent") return decide(task, event::SilenceOver{}, rules, at);
  return decide(task, event::Failed{task.attempt, task.last_error, task.error_type, {}}, rules, at);
}

// `action`: of the rule that matches, if one does.
std::string result_of(const Task& before, const Task& after, RuleAction::Kind action) {
  const std::string by = after.rule.empty() ? "" : fmt::format(" (rule {})", after.rule);
  if (after.state == State::succeeded)
    return "succeeded: for this queue, silence after a retry means success";
  if (after.state != State::scheduled) {
    const bool spent = action == RuleAction::Kind::retry && after.rule != "give_up";
    return std::string(to_word(after.state)) + (spent ? ": the ladder has no more levels" : by);
  }
  std::string text = fmt::format("retry in {}", format_duration(*after.next_at - kNow));
  if (after.level == before.level) {
    text += fmt::format(", still level {}; the attempt is not counted", after.level);
  } else {
    text += fmt::format(", level {} of {} of ladder {}", after.level, after.levels, after.ladder);
  }
  if (after.queue != before.queue) text += ", in queue " + after.queue;
  return text + by;
}

struct Tried {
  const FailureRule* rule;
  std::string why_not;
};

// The rules in their order, up to the one that matches.
std::vector<Tried> tried(const Task& task, const RuleBook& rules) {
  std::vector<Tried> out;
  const FailureRules* list = rules.failure_rules(task.queue);
  if (list == nullptr) return out;
  for (const FailureRule& rule : list->rules()) {
    out.push_back({&rule, list->why_not(rule, failure_case(task, kNow))});
    if (out.back().why_not.empty()) break;
  }
  return out;
}

RuleAction::Kind action_of(const std::vector<Tried>& all) {
  const bool matched = !all.empty() && all.back().why_not.empty();
  return matched ? all.back().rule->then.kind : RuleAction::Kind::retry;
}

Json to_json(const Task& before, const Task& after, const std::vector<Tried>& all) {
  Json rules = Json::array();
  for (const Tried& each : all) {
    rules.push_back({{"rule", each.rule->name},
                     {"matches", each.why_not.empty()},
                     {"why_not", each.why_not.empty() ? Json() : Json(each.why_not)},
                     {"action", describe(each.rule->then)}});
  }
  const bool waits = after.state == State::scheduled;
  return {{"rules", rules},
          {"rule", after.rule.empty() ? Json() : Json(after.rule)},
          {"state", to_word(after.state)},
          {"level", after.level},
          {"levels", after.levels},
          {"ladder", after.ladder},
          {"queue", after.queue},
          {"error_type", after.error_type.empty() ? Json() : Json(after.error_type)},
          {"delay_ms", waits ? Json((*after.next_at - kNow).count()) : Json()},
          {"counts", after.level != before.level},
          {"result", result_of(before, after, action_of(all))}};
}

std::string to_text(const Task& before, const Task& after, const std::vector<Tried>& all,
                    const RuleBook& rules) {
  const std::string& list = rules.queue(before.queue).rules;
  std::string out = fmt::format("queue {}: {}\n", before.queue,
                                list.empty() ? "no rules, the ladder decides" : "rules " + list);
  for (const Tried& each : all) {
    out +=
        fmt::format("  {:<16} {}\n", each.rule->name,
                    each.why_not.empty() ? "matches: " + describe(each.rule->then) : "no: " + each.why_not);
  }
  const bool matched = !all.empty() && all.back().why_not.empty();
  if (!list.empty() && !matched) out += "  no rule matches: the ladder decides\n";
  return out + "result: " + result_of(before, after, action_of(all)) + "\n";
}

}  // namespace

void add_explain_options(CLI::App& check, ExplainOptions& o) {
  CLI::Option* explain =
      check.add_flag("--explain", o.explain, "Print what would happen to a failure, and which rule decides");
  const std::vector<CLI::Option*> all = {
      check.add_option(
          "--queue", o.queue,
          "Print which entry of the config this queue follows; with --explain: where the message failed"),
      check.add_option("--error", o.error, "Error text (header retry-error)"),
      check.add_option("--type", o.type, "Error type (header retry-error-type)"),
      check.add_option("--reason", o.reason, "rejected, expired, maxlen, delivery_limit, returned or silent")
          ->check(CLI::IsMember(failure_reasons())),
      check.add_option("--header", o.headers, "NAME=VALUE; may be repeated"),
      check.add_option("--tag", o.tag, "Tag of the message (property type)"),
      check.add_option("--attempt", o.attempt, "Which retry failed; 0: the first delivery")
          ->check(CLI::Range(0, 1'000'000)),
      check.add_option("--age", o.age, "Time since the first failure, e.g. 2h"),
  };
  // Alone, --queue says which entry the queue follows.
  for (CLI::Option* option : all) {
    if (option != all.front()) option->needs(explain);
  }
  explain->needs(all.front());
}

int explain_queue(const Common& common, const ExplainOptions& options) {
  Config config;
  if (const int code = load(common, config, ConfigFor::check, options.queue); code != kSuccess) return code;
  if (!common.json) {
    print(lines(describe_queue(config, options.queue), 0));
    return kSuccess;
  }
  const RuleBook& rules = *config.rules;
  const auto* by_pattern = rules.pattern_of(options.queue);
  const bool own = rules.queues().contains(options.queue);
  print(dump({{"queue", options.queue},
              {"follows", by_pattern != nullptr ? "pattern"
                          : own                 ? "name"
                                                : "defaults"},
              {"pattern", by_pattern != nullptr ? Json(by_pattern->pattern.text()) : Json()},
              {"ladder", rules.queue(options.queue).ladder}}) +
        "\n");
  return kSuccess;
}

int explain(const Common& common, const ExplainOptions& options) {
  Config config;
  if (const int code = load(common, config, ConfigFor::check, options.queue); code != kSuccess) return code;
  const RuleBook& rules = *config.rules;
  const auto task = failed_task(options, rules);
  if (!task) return report_error(task.error());
  const std::vector<Tried> all = tried(*task, rules);
  const Decision decision = decide_failure(*task, options, rules);
  print(common.json ? dump(to_json(*task, decision.task, all)) + "\n"
                    : lines(to_text(*task, decision.task, all, rules), 0));
  return kSuccess;
}

}  // namespace rung::cli
