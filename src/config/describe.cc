// The output of `rung check`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "src/config/config.h"
#include "src/config/load.h"

namespace rung {
namespace {

using levels::format_duration;

// A table with columns as wide as their content.
class Columns {
 public:
  explicit Columns(std::vector<bool> right) : right_(std::move(right)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string str() const {
    std::vector<std::size_t> widths(right_.size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line = "  ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string pad(widths[i] - width(row[i]), ' ');
        line += right_[i] ? pad + row[i] : row[i] + pad;
        line += "  ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  // Characters, not bytes: queue names can be in any script.
  static std::size_t width(const std::string& text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  }

  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

std::string describe_ladder(const std::string& name, const levels::Ladder& ladder) {
  const bool jitter = ladder.jitter() > 0.0;
  std::string out =
      fmt::format("ladder {}: {} level{}", name, ladder.levels(), ladder.levels() == 1 ? "" : "s");
  if (jitter) out += fmt::format(", jitter {:.0f}%", ladder.jitter() * 100);
  Columns table(jitter ? std::vector<bool>{true, true, true, true, true}
                       : std::vector<bool>{true, true, true});
  std::vector<std::string> head = {"level", "delay"};
  if (jitter) head.emplace_back("at most");
  head.emplace_back("since first failure");
  if (jitter) head.emplace_back("at most");
  table.row(head);
  Ms latest{0};
  for (int level = 1; level <= ladder.levels(); ++level) {
    std::vector<std::string> cells = {std::to_string(level), format_duration(ladder.delay(level))};
    const Ms most = ladder.delay(level, 1.0);
    latest += most;
    if (jitter) cells.push_back(format_duration(most));
    cells.push_back(format_duration(ladder.since_first(level)));
    if (jitter) cells.push_back(format_duration(latest));
    table.row(std::move(cells));
  }
  return out + "\n" + table.str();
}

// Keeps control characters in names off the terminal.
std::string printable(const std::string& name) {
  std::string out = name;
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return out;
}

std::string give_up_text(const GiveUp& limit) {
  std::string out = limit.attempts > 0 ? fmt::format("{} retries", limit.attempts) : "";
  if (limit.after) out += (out.empty() ? "" : " or ") + format_duration(*limit.after);
  return out.empty() ? "-" : "after " + out;
}

std::string describe_rules(const Config& config) {
  std::string out;
  for (const auto& [name, list] : config.rules->rule_lists()) {
    Columns table({false, false, false});
    table.row({"rule", "when", "then"});
    for (const FailureRule& rule : list->rules())
      table.row({rule.name, printable(describe(rule.when)), describe(rule.then)});
    out += "\nrules " + name + " (the first that matches decides; none: the ladder)\n" + table.str();
  }
  return out;
}

struct QueueRow {
  std::string name, group;
  const QueueRules& rules;
};

std::string queue_table(const Config& config, const std::vector<QueueRow>& rows, bool policies) {
  const bool groups = !config.groups.empty();
  Columns table(std::vector<bool>(8, false));
  std::vector<std::string> head = {"queue", "ladder", "silence after a retry", "parked"};
  if (groups) head.insert(head.begin() + 1, "group");
  if (policies) head.insert(head.end(), {"rules", "gives up", "late by"});
  table.row(std::move(head));
  for (const auto& [name, group, rules] : rows) {
    const bool success = rules.silence.means == Silence::Means::success;
    std::vector<std::string> cells = {
        name, rules.ladder,
        (success ? "succeeded after " : "failed after ") + format_duration(rules.silence.after),
        rules.publish_parked ? "publish to " + (groups ? "PREFIX" : config.broker.prefix) + ".parked"
                             : "keep"};
    if (groups) cells.insert(cells.begin() + 1, group);
    if (policies)
      cells.insert(cells.end(), {rules.rules.empty() ? "-" : rules.rules, give_up_text(rules.give_up),
                                 rules.late_by ? "at most " + format_duration(*rules.late_by) : "-"});
    table.row(std::move(cells));
  }
  return table.str();
}

std::string describe_queues(const Config& config) {
  const RuleBook& book = *config.rules;
  const auto has_policy = [](const QueueRules& rules) {
    return !rules.rules.empty() || rules.give_up != GiveUp{} || rules.late_by;
  };
  const bool policies =
      has_policy(book.defaults()) ||
      std::ranges::any_of(book.queues(), [&](const auto& queue) { return has_policy(queue.second); }) ||
      std::ranges::any_of(book.patterns(), [&](const auto& entry) { return has_policy(entry.rules); });
  std::vector<QueueRow> rows;
  for (const auto& [name, rules] : config.rules->queues()) {
    const auto* group = config.groups.of_queue(name);
    rows.push_back({printable(name), group != nullptr ? group->name : "none", rules});
  }
  for (const RuleBook::PatternRules& entry : book.patterns()) {
    // A group's pattern that matches the text of this one matches every queue that this one matches.
    const auto* group = config.groups.of_queue(entry.pattern.text());
    rows.push_back(
        {printable(entry.pattern.text()), group != nullptr ? group->name : "by queue", entry.rules});
  }
  rows.push_back({"(any other)", "", book.defaults()});
  std::string out = "queues\n" + queue_table(config, rows, policies);
  if (!book.patterns().empty())
    out +=
        "  (names with * ? [ ] are patterns: a queue without a line of its own follows the first that "
        "matches)\n";
  return out;
}

std::string breaker_text(const BreakerRules& breaker) {
  std::string waits;
  for (const Ms wait : breaker.wait) waits += (waits.empty() ? "" : ", ") + format_duration(wait);
  std::string out =
      fmt::format("opens when {} of the last {} outcomes are failures", breaker.open_after, breaker.of_last);
  if (!breaker.only.empty()) out += printable(fmt::format(" of type {}", fmt::join(breaker.only, " or ")));
  return out +
         fmt::format("; waits {}{}; {} {} at a time, each answered within {}; closes after {} successful",
                     waits, breaker.wait.size() > 1 ? " (the last one repeats)" : "", breaker.probes,
                     breaker.probes == 1 ? "probe" : "probes", format_duration(breaker.probe_timeout),
                     breaker.close_after);
}

// Each gate that is set, in a line.
void add_gates(const std::string& queue, const GateRules& gate, Columns& table) {
  const auto row = [&](const std::string& name, const std::string& meaning) {
    table.row({queue, name, meaning});
  };
  if (gate.rate > 0) row("rate", "at most " + format_rate(gate.rate) + " published, over all instances");
  if (gate.rate_by)
    row("rate_by", "at most " + format_rate(gate.rate_by->per_second) +
                       " published for each value of the header " + printable(gate.rate_by->header) +
                       ", over all instances");
  if (gate.window != nullptr) row("window", "open " + gate.window->describe());
  if (gate.breaker) row("breaker", breaker_text(*gate.breaker));
  if (gate.retry_after != RetryAfterRules{})
    row("retry_after", (gate.retry_after.cap ? "at most " + format_duration(*gate.retry_after.cap)
                                             : "at most the ladder's highest delay") +
                           (gate.retry_after.pauses_queue ? "; holds back the whole queue for at most " +
                                                                format_duration(gate.retry_after.longest_hold)
                                                          : "; holds back the message"));
}

std::string describe_gates(const Config& config) {
  const RuleBook& book = *config.rules;
  const auto has_gate = [](const QueueRules& rules) { return rules.gate != GateRules{}; };
  if (!has_gate(book.defaults()) &&
      std::ranges::none_of(book.queues(), [&](const auto& queue) { return has_gate(queue.second); }) &&
      std::ranges::none_of(book.patterns(), [&](const auto& entry) { return has_gate(entry.rules); }))
    return {};
  Columns table({false, false, false});
  table.row({"queue", "gate", "meaning"});
  for (const auto& [name, rules] : book.queues()) add_gates(printable(name), rules.gate, table);
  for (const RuleBook::PatternRules& entry : book.patterns())
    add_gates("each " + printable(entry.pattern.text()), entry.rules.gate, table);
  add_gates("(any other)", book.defaults().gate, table);
  return "\ngates\n" + table.str();
}

std::string joined(const TargetRules::Patterns& patterns) {
  std::string out;
  for (const std::string& pattern : patterns) out += (out.empty() ? "" : ", ") + printable(pattern);
  return out;
}

std::string describe_groups(const Config& config) {
  if (config.groups.empty()) return {};
  Columns table({false, false, false});
  table.row({"group", "prefix", "queues"});
  for (const QueueGroups::Group& group : config.groups.all)
    table.row({group.name, group.prefix, joined(group.queues)});
  return "groups\n" + table.str() + "\n";
}

std::string target_text(const Target& target) {
  if (!target.is_set()) return "set by the message";
  if (!target.queue.empty()) return "queue " + printable(target.queue);
  return "exchange " + printable(target.exchange) +
         (target.routing_key.empty() ? "" : ", routing key " + printable(target.routing_key));
}

std::string describe_tags(const Config& config) {
  if (config.rules->tags().empty()) return {};
  Columns table({false, false, false, false});
  table.row({"tag", "goes to", "ladder", "silence after a delivery"});
  for (const auto& [name, tag] : config.rules->tags()) {
    std::string silence = "from its queue";
    if (tag.silence) {
      const bool success = tag.silence->means == Silence::Means::success;
      silence = (success ? "succeeded after " : "failed after ") + format_duration(tag.silence->after);
    }
    table.row({printable(name), target_text(tag.target), tag.ladder.empty() ? "from its queue" : tag.ladder,
               silence});
  }
  return "\ntags\n" + table.str();
}

std::string describe_delays(const Config& config) {
  if (config.delays.empty()) return {};
  Columns table({false, false});
  table.row({"published to", "forwarded to"});
  for (const auto& [from, to] : config.delays) table.row({printable(from), printable(to)});
  return "\ndelayed exchanges\n" + table.str();
}

std::string describe_error_queues(const Config& config) {
  const ErrorQueues& errors = config.rules->error_queues();
  if (errors.empty()) return {};
  Columns table({false, false, false, false});
  table.row({"error queue", "dialect", "goes back to", "ladder"});
  for (const ErrorQueue& queue : errors.all()) {
    const std::string named = queue.to.empty() ? target_by_name(queue, queue.from) : queue.to;
    const std::string to = queue.is_pattern() && queue.to.empty() ? "" : named;
    table.row({printable(queue.from), queue.dialect->name, to.empty() ? "as the message says" : printable(to),
               !queue.retries         ? "none: parked at once"
               : queue.ladder.empty() ? "from its queue"
                                      : queue.ladder});
  }
  return "\nerror queues\n" + table.str();
}

std::string describe_targets(const Config& config) {
  const TargetRules& targets = config.rules->targets();
  std::string own = targets.own.empty() ? "" : targets.own + "*";
  for (const QueueGroups::Group& group : targets.groups.all) {
    if (group.prefix + "." != targets.own) own += (own.empty() ? "" : ", ") + group.prefix + ".*";
  }
  const std::string denied = own + (targets.deny.empty() ? "" : ", " + joined(targets.deny)) + " and amq.*";
  if (!targets.allow) {
    return "\ntargets: message headers may name any queue or exchange except " + denied +
           "; broker.targets.allow restricts this\n";
  }
  return "\ntargets: message headers may name targets in this config" +
         (targets.allow->empty() ? std::string() : " and " + joined(*targets.allow)) + ", never " + denied +
         "\n";
}

std::string describe_results(const Config& config) {
  return config.require_token ? "results: retry-token is required\n"
                              : "results: accepted without retry-token, from anyone who may publish them\n";
}

std::string describe_retention(const Config& config) {
  if (!config.retention) return "\nretention: off, nothing is deleted\n";
  return "\nretention: tasks are deleted " + format_duration(*config.retention) +
         " after they end; parked and unfinished tasks are kept\n";
}

std::string describe_traces(const Config& config) {
  const OtelOptions& otel = config.otel;
  if (otel.endpoint.empty()) return {};
  std::string out = fmt::format("\ntraces: of {} tasks, to {}/v1/traces as service {}",
                                otel.sample >= 1 ? "all" : fmt::format("{:g}% of the", otel.sample * 100),
                                otel.endpoint, otel.service);
  for (const auto& [name, value] : otel.headers) out += fmt::format(", {}: ***", name);
  return out + (otel.verify ? "\n" : ", any certificate is accepted\n");
}

std::string describe_api(const ApiOptions& api) {
  std::string out = "api: " + api.url;
  if (!api.token_file.empty()) out += ", token in " + api.token_file;
  if (!api.ca.empty()) out += ", verified by " + api.ca;
  return out +
         "\nonly for commands that work over HTTP, such as rung list and rung redrive: it names neither a "
         "broker "
         "nor a database\n";
}

}  // namespace

std::string describe_queue(const Config& config, const std::string& queue) {
  const RuleBook& book = *config.rules;
  const auto* by_pattern = book.pattern_of(queue);
  const std::string entry = by_pattern != nullptr ? "queues." + by_pattern->pattern.text() + ", a pattern"
                            : book.queues().contains(queue) ? "queues." + queue + ", its own name"
                                                            : "the defaults";
  const QueueRules& rules = book.queue(queue);
  const auto* group = config.groups.of_queue(queue);
  Columns gates({false, false, false});
  gates.row({"queue", "gate", "meaning"});
  add_gates(printable(queue), rules.gate, gates);
  return "queue " + printable(queue) + " follows " + printable(entry) + "\n" +
         queue_table(config, {{printable(queue), group != nullptr ? group->name : "none", rules}}, true) +
         (rules.gate == GateRules{} ? "" : "\ngates\n" + gates.str());
}

std::string describe(const Config& config) {
  if (!config.api.url.empty()) return describe_api(config.api);
  if (config.rules == nullptr) return {};
  const RuleBook& rules = *config.rules;
  std::set<std::string> used = {"default", rules.defaults().ladder};
  for (const auto& [name, queue] : rules.queues()) used.insert(queue.ladder);
  for (const RuleBook::PatternRules& entry : rules.patterns()) used.insert(entry.rules.ladder);
  for (const auto& [name, tag] : rules.tags()) used.insert(tag.ladder);
  const auto& ready = confile::ready_ladders();
  std::string out;
  for (const auto& [name, ladder] : rules.ladders()) {
    const auto same = ready.find(name);
    const bool only_ready = same != ready.end() && same->second == ladder;
    if (only_ready && !used.contains(name)) continue;
    out += describe_ladder(name, ladder) + "\n";
  }
  return out + describe_groups(config) + describe_queues(config) + describe_gates(config) +
         describe_rules(config) + describe_tags(config) + describe_delays(config) +
         describe_error_queues(config) + describe_targets(config) + describe_results(config) +
         describe_retention(config) + describe_traces(config);
}

}  // namespace rung
