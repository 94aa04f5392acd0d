// The output of `rung check`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "src/config/config.h"
#include "src/config/load.h"

namespace rung {
namespace {

using confile::printable;
using levels::format_duration;

using Row = std::vector<std::string>;

// Characters, not bytes: queue names can be in any script.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Columns as wide as their content.
std::string table(const std::vector<Row>& rows, bool right = false) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - width(row[i]), ' ');
      out += "  " + (right ? pad + row[i] : row[i] + pad);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

std::string describe_ladder(const std::string& name, const levels::Ladder& ladder) {
  const bool jitter = ladder.jitter() > 0.0;
  std::string out =
      fmt::format("ladder {}: {} level{}", name, ladder.levels(), ladder.levels() == 1 ? "" : "s");
  if (jitter) out += fmt::format(", jitter {:.0f}%", ladder.jitter() * 100);
  std::vector<Row> rows = {{"level", "delay", "at most", "since first failure", "at most"}};
  Ms latest{0};
  for (int level = 1; level <= ladder.levels(); ++level) {
    const Ms most = ladder.delay(level, 1.0);
    latest += most;
    rows.push_back({std::to_string(level), format_duration(ladder.delay(level)), format_duration(most),
                    format_duration(ladder.since_first(level)), format_duration(latest)});
  }
  for (Row& row : rows) {
    if (!jitter) row = {row[0], row[1], row[3]};
  }
  return out + "\n" + table(rows, true);
}

std::string give_up_text(const GiveUp& limit) {
  std::string out = limit.attempts > 0 ? fmt::format("{} retries", limit.attempts) : "";
  if (limit.after) out += (out.empty() ? "" : " or ") + format_duration(*limit.after);
  return out.empty() ? "-" : "after " + out;
}

std::string describe_rules(const Config& config) {
  std::string out;
  for (const auto& [name, list] : config.rules->rule_lists()) {
    std::vector<Row> rows = {{"rule", "when", "then"}};
    for (const FailureRule& rule : list->rules())
      rows.push_back({rule.name, printable(describe(rule.when)), describe(rule.then)});
    out += "\nrules " + name + " (the first that matches decides; none: the ladder)\n" + table(rows);
  }
  return out;
}

std::string silence_text(const Silence& silence) {
  return (silence.means == Silence::Means::success ? "succeeded after " : "failed after ") +
         format_duration(silence.after);
}

struct QueueEntry {
  std::string name;  // "" = the defaults
  const QueueRules& rules;
  bool pattern = false;
};

// The entries of `queues`, and the defaults.
std::vector<QueueEntry> entries_of(const RuleBook& book) {
  std::vector<QueueEntry> all;
  for (const auto& [name, rules] : book.queues()) all.push_back({name, rules});
  for (const RuleBook::PatternRules& entry : book.patterns())
    all.push_back({entry.pattern.text(), entry.rules, true});
  all.push_back({"", book.defaults()});
  return all;
}

bool has_policy(const QueueEntry& entry) {
  return !entry.rules.rules.empty() || entry.rules.give_up != GiveUp{} || entry.rules.late_by;
}

std::string queue_table(const Config& config, const std::vector<QueueEntry>& entries, bool policies) {
  const bool groups = !config.groups.empty();
  std::vector<Row> rows = {
      {"queue", "group", "ladder", "silence after a retry", "parked", "rules", "gives up", "late by"}};
  for (const auto& [name, rules, pattern] : entries) {
    // A group's pattern that matches the text of this one matches every queue that this one matches.
    const auto* group = config.groups.of_queue(name);
    rows.push_back({name.empty() ? "(any other)" : printable(name),
                    group != nullptr ? group->name
                    : name.empty()   ? ""
                    : pattern        ? "by queue"
                                     : "none",
                    rules.ladder, silence_text(rules.silence),
                    rules.publish_parked
                        ? "publish to " + (groups ? "PREFIX" : config.broker.prefix) + ".parked"
                        : "keep",
                    rules.rules.empty() ? "-" : rules.rules, give_up_text(rules.give_up),
                    rules.late_by ? "at most " + format_duration(*rules.late_by) : "-"});
  }
  for (Row& row : rows) {
    if (!policies) row.resize(row.size() - 3);
    if (!groups) row.erase(row.begin() + 1);
  }
  return table(rows);
}

std::string describe_queues(const Config& config) {
  const std::vector<QueueEntry> all = entries_of(*config.rules);
  std::string out = "queues\n" + queue_table(config, all, std::ranges::any_of(all, has_policy));
  if (!config.rules->patterns().empty())
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
void add_gates(const std::string& queue, const GateRules& gate, std::vector<Row>& rows) {
  const auto row = [&](const std::string& name, const std::string& meaning) {
    rows.push_back({queue, name, meaning});
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

// "": it has no rows.
std::string titled(const std::string& title, const std::vector<Row>& rows) {
  return rows.size() == 1 ? "" : "\n" + title + "\n" + table(rows);
}

std::string gate_table(const std::vector<QueueEntry>& entries) {
  std::vector<Row> rows = {{"queue", "gate", "meaning"}};
  for (const auto& [name, rules, pattern] : entries)
    add_gates(name.empty() ? "(any other)" : (pattern ? "each " : "") + printable(name), rules.gate, rows);
  return titled("gates", rows);
}

std::string joined(const TargetRules::Patterns& patterns) { return printable(confile::joined(patterns)); }

std::string describe_groups(const Config& config) {
  std::vector<Row> rows = {{"group", "prefix", "queues"}};
  for (const QueueGroups::Group& group : config.groups.all)
    rows.push_back({group.name, group.prefix, joined(group.queues)});
  return rows.size() == 1 ? "" : "groups\n" + table(rows) + "\n";
}

std::string target_text(const Target& target) {
  if (!target.is_set()) return "set by the message";
  if (!target.queue.empty()) return "queue " + printable(target.queue);
  return "exchange " + printable(target.exchange) +
         (target.routing_key.empty() ? "" : ", routing key " + printable(target.routing_key));
}

std::string describe_tags(const Config& config) {
  std::vector<Row> rows = {{"tag", "goes to", "ladder", "silence after a delivery"}};
  for (const auto& [name, tag] : config.rules->tags())
    rows.push_back({printable(name), target_text(tag.target),
                    tag.ladder.empty() ? "from its queue" : tag.ladder,
                    tag.silence ? silence_text(*tag.silence) : "from its queue"});
  return titled("tags", rows);
}

std::string describe_delays(const Config& config) {
  std::vector<Row> rows = {{"published to", "forwarded to"}};
  for (const auto& [from, to] : config.delays) rows.push_back({printable(from), printable(to)});
  return titled("delayed exchanges", rows);
}

std::string describe_error_queues(const Config& config) {
  std::vector<Row> rows = {{"error queue", "dialect", "goes back to", "ladder"}};
  for (const ErrorQueue& queue : config.rules->error_queues().all()) {
    const std::string to =
        queue.to.empty() && !queue.is_pattern() ? target_by_name(queue, queue.from) : queue.to;
    rows.push_back({printable(queue.from), queue.dialect->name,
                    to.empty() ? "as the message says" : printable(to),
                    !queue.retries         ? "none: parked at once"
                    : queue.ladder.empty() ? "from its queue"
                                           : queue.ladder});
  }
  return titled("error queues", rows);
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
  const std::vector<QueueEntry> one = {{queue, book.queue(queue)}};
  return "queue " + printable(queue) + " follows " + printable(entry) + "\n" +
         queue_table(config, one, true) + gate_table(one);
}

std::string describe(const Config& config) {
  if (!config.api.url.empty()) return describe_api(config.api);
  if (config.rules == nullptr) return {};
  const RuleBook& rules = *config.rules;
  std::set<std::string> used = {"default"};
  for (const QueueEntry& entry : entries_of(rules)) used.insert(entry.rules.ladder);
  for (const auto& [name, tag] : rules.tags()) used.insert(tag.ladder);
  const auto& ready = confile::ready_ladders();
  std::string out;
  for (const auto& [name, ladder] : rules.ladders()) {
    const auto same = ready.find(name);
    const bool only_ready = same != ready.end() && same->second == ladder;
    if (only_ready && !used.contains(name)) continue;
    out += describe_ladder(name, ladder) + "\n";
  }
  return out + describe_groups(config) + describe_queues(config) + gate_table(entries_of(rules)) +
         describe_rules(config) + describe_tags(config) + describe_delays(config) +
         describe_error_queues(config) + describe_targets(config) + describe_results(config) +
         describe_retention(config) + describe_traces(config);
}

}  // namespace rung
