// The output of `rung check`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "src/config/config.h"
#include "src/config/load.h"
#include "src/core/base/utf8.h"

namespace rung {
namespace {

using levels::format_duration;

using Row = std::vector<std::string>;

// Characters, not bytes: queue names can be in any script.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Columns as wide as their content, without those in which no row says anything.
std::string table(const std::vector<Row>& rows, bool right = false) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const auto says = [&](const Row& row) { return !row[i].empty() && row[i] != "-"; };
    if (std::none_of(rows.begin() + 1, rows.end(), says)) continue;
    for (const Row& row : rows) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
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
    rows.push_back({std::to_string(level), format_duration(ladder.delay(level)),
                    jitter ? format_duration(most) : "", format_duration(ladder.since_first(level)),
                    jitter ? format_duration(latest) : ""});
  }
  return out + "\n" + table(rows, true);
}

std::string give_up_text(const GiveUp& limit) {
  std::string out = limit.attempts > 0 ? fmt::format("{} retries", limit.attempts) : "";
  if (limit.after) out += (out.empty() ? "" : " or ") + format_duration(*limit.after);
  return out.empty() ? "-" : "after " + out;
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

// In a column; the keys of the config say the rest.
std::string gates_text(const GateRules& gate) {
  std::vector<std::string> all;
  if (gate.limits()) all.push_back(escape_controls(describe_limits(gate)));
  if (gate.window != nullptr) all.push_back("window " + gate.window->describe());
  if (gate.breaker)
    all.push_back(fmt::format("breaker {} of {}", gate.breaker->open_after, gate.breaker->of_last));
  if (gate.retry_after.cap) all.push_back("retry-after at most " + format_duration(*gate.retry_after.cap));
  if (gate.retry_after.pauses_queue) all.push_back("retry-after holds the queue");
  return all.empty() ? "-" : fmt::format("{}", fmt::join(all, "; "));
}

std::string queue_table(const Config& config, const std::vector<QueueEntry>& entries) {
  const bool groups = !config.groups.empty();
  std::vector<Row> rows = {{"queue", "group", "ladder", "silence after a retry", "parked", "rules",
                            "gives up", "late by", "gates"}};
  for (const auto& [name, rules, pattern] : entries) {
    // A group's pattern that matches the text of this one matches every queue that this one matches.
    const auto* group = config.groups.of_queue(name);
    rows.push_back(
        {name.empty() ? "(any other)" : escape_controls(name),
         group != nullptr          ? group->name
         : name.empty() || !groups ? ""
         : pattern                 ? "by queue"
                                   : "none",
         rules.ladder, silence_text(rules.silence),
         rules.publish_parked ? "publish to " + (groups ? "PREFIX" : config.broker.prefix) + ".parked"
                              : "keep",
         rules.rules.empty() ? "-" : rules.rules, give_up_text(rules.give_up),
         rules.late_by ? "at most " + format_duration(*rules.late_by) : "-", gates_text(rules.gate)});
  }
  return table(rows);
}

std::string describe_queues(const Config& config) {
  std::string out = "queues\n" + queue_table(config, entries_of(*config.rules));
  if (!config.rules->patterns().empty())
    out +=
        "  (names with * ? [ ] are patterns: a queue without a line of its own follows the first that "
        "matches)\n";
  return out;
}

// "": it has no rows.
std::string titled(const std::string& title, const std::vector<Row>& rows) {
  return rows.size() == 1 ? "" : "\n" + title + "\n" + table(rows);
}

std::string joined(const TargetRules::Patterns& patterns) {
  return escape_controls(confile::joined(patterns));
}

std::string describe_groups(const Config& config) {
  std::vector<Row> rows = {{"group", "prefix", "queues"}};
  for (const QueueGroups::Group& group : config.groups.all)
    rows.push_back({group.name, group.prefix, joined(group.queues)});
  return rows.size() == 1 ? "" : "groups\n" + table(rows) + "\n";
}

std::string describe_delays(const Config& config) {
  std::vector<Row> rows = {{"published to", "forwarded to"}};
  for (const auto& [from, to] : config.delays) rows.push_back({escape_controls(from), escape_controls(to)});
  return titled("delayed exchanges", rows);
}

std::string describe_error_queues(const Config& config) {
  std::vector<Row> rows = {{"error queue", "dialect", "goes back to", "ladder"}};
  for (const ErrorQueue& queue : config.rules->error_queues().all()) {
    const std::string to =
        queue.to.empty() && !queue.is_pattern() ? target_by_name(queue, queue.from) : queue.to;
    rows.push_back({escape_controls(queue.from), queue.dialect->name,
                    to.empty() ? "as the message says" : escape_controls(to),
                    !queue.retries         ? "none: parked at once"
                    : queue.ladder.empty() ? "from its queue"
                                           : queue.ladder});
  }
  return titled("error queues", rows);
}

std::string describe_targets(const TargetRules& targets) {
  if (!targets.allow)
    return "\ntargets: message headers may name any queue or exchange; broker.targets.allow restricts this\n";
  return "\ntargets: message headers may name targets in this config" +
         (targets.allow->empty() ? std::string() : " and " + joined(*targets.allow)) + "\n";
}

std::string describe_results(const Config& config) {
  return config.require_token ? "results: retry-token is required\n"
                              : "results: accepted without retry-token, from anyone who may publish them\n";
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
  return "queue " + escape_controls(queue) + " follows " + escape_controls(entry) + "\n" +
         queue_table(config, one);
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
  return out + describe_groups(config) + describe_queues(config) + describe_delays(config) +
         describe_error_queues(config) + describe_targets(rules.targets()) + describe_results(config);
}

}  // namespace rung
