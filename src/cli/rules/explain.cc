#include "src/cli/rules/explain.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/rules/explain.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

// A failure as the options describe it.
Result<api::SupposedFailure> failure_of(const ExplainOptions& o) {
  api::SupposedFailure failure{o.queue, o.error, o.type, o.tag, o.reason, {}, o.attempt, Ms{0}};
  if (!o.age.empty()) {
    const auto age = levels::parse_duration(o.age);
    if (!age) return permanent("--age " + o.age + ": " + age.error());
    failure.age = *age;
  }
  for (const std::string& header : o.headers) {
    const auto equals = header.find('=');
    if (equals == std::string::npos || equals == 0)
      return permanent("--header " + header + ": write NAME=VALUE");
    failure.headers.emplace(header.substr(0, equals), header.substr(equals + 1));
  }
  return failure;
}

std::string to_text(const api::Explanation& explained, const RuleBook& rules) {
  const std::string& list = rules.queue(explained.before.queue).rules;
  std::string out = fmt::format("queue {}: {}\n", explained.before.queue,
                                list.empty() ? "no rules, the ladder decides" : "rules " + list);
  for (const api::Explanation::Tried& each : explained.tried) {
    out +=
        fmt::format("  {:<16} {}\n", each.rule->name,
                    each.why_not.empty() ? "matches: " + describe(each.rule->then) : "no: " + each.why_not);
  }
  if (!list.empty() && explained.match() == nullptr) out += "  no rule matches: the ladder decides\n";
  return out + "result: " + api::result_text(explained) + "\n";
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
  const auto failure = failure_of(options);
  if (!failure) return report_error(failure.error());
  const api::Explanation explained = api::explain_failure(*failure, rules);
  print(common.json ? dump(api::to_json(explained, rules)) + "\n" : lines(to_text(explained, rules), 0));
  return kSuccess;
}

}  // namespace rung::cli
