// Builds the rule book from ladders, queues with their gates, tags and lists of rules, and `causes`: checks
// what involves several keys, and warns of rules that never match. Where messages come from besides failed
// ones: `delays`, from an exchange that Rung declares to one that it only publishes to, and `error_queues`,
// from queues to which a framework publishes failures, both without loops.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "levels/ready.h"
#include "src/config/load.h"

namespace rung::confile {
namespace {

using Ladders = RuleBook::Ladders;

// Each is tried for every failure of a queue that has no entry of its own.
constexpr std::size_t kMostPatterns = 1000;
constexpr std::string_view kNoLadder = "none", kDefaultDialect = "plain";

std::optional<levels::Ladder> ladder_of(const Node& node, Load& load) {
  if (node.invalid) return std::nullopt;
  const auto problem = [&](const Mark& at, const std::string& what) {
    load.problems.add(at, node.path + ": " + what);
    return std::nullopt;
  };
  const double jitter = node.get<double>("jitter").value_or(0);
  const Levels levels = node.get<Levels>("levels").value_or(Levels());
  const auto* const in_levels = std::get_if<std::vector<Ms>>(&levels);
  if (const auto delays = in_levels != nullptr ? *in_levels : node.get<std::vector<Ms>>()) {
    for (const std::string extra : {"base", "factor", "max"}) {
      if (node.has(extra))
        return problem(node.mark_at(extra), "levels is a list of delays, so " + extra +
                                                " has no effect: remove it, or make levels a number");
    }
    const auto ladder = levels::Ladder::from_list(*delays, jitter);
    if (ladder) return *ladder;
    Mark at = node.mark;
    for (std::size_t n = delays->size(); n > 0; --n) {  // the first delay that makes it invalid
      const auto end = delays->begin() + static_cast<std::ptrdiff_t>(n);
      if (!levels::Ladder::from_list({delays->begin(), end}))
        at = (in_levels != nullptr ? *node.find("levels") : node).items[n - 1].mark;
    }
    return problem(at, ladder.error());
  }
  bool complete = true;
  for (const std::string needed : {"base", "levels"}) {
    if (node.has(needed)) continue;
    complete = false;
    load.wrong(node, "", needed + " is missing: write e.g. { base: 10s, factor: 2, max: 1h, levels: 12 }");
  }
  if (!complete) return std::nullopt;
  levels::Exponential spec;
  fill(node, spec);
  spec.levels = std::get<int>(levels);
  const auto ladder = levels::Ladder::from_exponential(spec, jitter);
  if (ladder) return *ladder;
  // The error begins with the name of the invalid key.
  return problem(node.mark_at(ladder.error().substr(0, ladder.error().find(' '))), ladder.error());
}

// The value of a key that names one of `known`, which are of a `kind`; "" if it names none, or one that is
// not among them, which is reported.
std::string known_name(const Node& node, std::string_view key, const std::string& kind, const Texts& known,
                       Load& load) {
  const auto wanted = node.get<std::string>(key);
  if (!wanted || std::ranges::find(known, *wanted) != known.end()) return wanted.value_or("");
  const std::string all = known.empty() ? ": there are none" : ": available " + kind + "s: " + joined(known);
  load.wrong(
      node, key,
      "unknown " + kind +
          (node.find(key)->substituted ? all : " " + in_quotes(*wanted) + did_you_mean(*wanted, known, all)));
  return {};
}

// The same for a ladder.
std::string ladder_at(const Node& node, std::string_view key, Load& load) {
  return known_name(node, key, "ladder", names_of(load.ladders), load);
}

// Reports a queue or an exchange that is one of Rung's own, where the key names it.
void refuse_own(const Node& node, std::string_view key, Load& load) {
  const std::string name = node.text_at(key), prefix = load.config.broker.prefix + ".";
  const std::string own =
      prefix.size() > 1 && name.starts_with(prefix) ? prefix : load.config.groups.own_prefix(name);
  if (!own.empty()) load.wrong(node, key, "names that begin with " + own + " are reserved for Rung");
}

// Silence means one of two things.
void check_silence(const Node& queue_or_tag, Load& load) {
  const Node* const success = queue_or_tag.find("success");
  if (success == nullptr || success->kind != Node::Kind::map || success->invalid) return;
  const bool presumed = success->has("presumed_after");
  if (presumed != success->has("reported_within")) return;
  load.problems.add(
      presumed ? success->entries.back().value.mark : success->mark,
      success->path + (presumed ? ": presumed_after (silence is success) and reported_within (silence is "
                                  "failure) cannot be combined: keep one"
                                : ": write presumed_after (silence is success) or reported_within "
                                  "(silence is failure)"));
}

// What the queue's keys make of the gate of the defaults.
GateRules gate_of(const Node& queue, const GateRules& otherwise, const Silence& silence, Load& load) {
  GateRules gate = otherwise;
  fill(queue, gate);
  fill(queue, gate.retry_after);
  const auto wrong = [&](const std::string& section, const std::string& what) {
    load.wrong(queue, "gate." + section, what);
  };
  if (queue.valid("gate.rate_by")) {
    RateBy& by = gate.rate_by ? *gate.rate_by : gate.rate_by.emplace();
    fill(queue, by);
    if (by.header.empty() || by.per_second == 0)
      wrong("rate_by", std::string(by.header.empty() ? "header" : "rate") +
                           " is missing: write { header: tenant, rate: 5/s }");
  }
  if (queue.valid("gate.window")) {
    const TimeWindow* const old = gate.window.get();
    const Texts allow =
        queue.get<Texts>("gate.window.allow").value_or(old != nullptr ? old->allow() : Texts());
    const std::string zone =
        queue.get<std::string>("gate.window.zone").value_or(old != nullptr ? old->zone() : "");
    if (allow.empty() || zone.empty()) {
      wrong("window", std::string(allow.empty() ? "allow" : "zone") +
                          " is missing: write { allow: \"Mon-Fri 08:00-18:00\", zone: Europe/Berlin }");
    } else if (auto parsed = TimeWindow::parse(allow, zone)) {
      gate.window = std::make_shared<const TimeWindow>(*std::move(parsed));
    } else {  // both were accepted alone; the system's database may have gone away since
      wrong("window", parsed.error().message);
    }
  }
  if (queue.valid("gate.retry_after.max") && !gate.retry_after.pauses_queue)
    wrong("retry_after",
          "max limits how long the whole queue is held back, and pauses: message holds back none: write "
          "pauses: queue, or remove max");
  if (queue.valid("gate.breaker")) {
    BreakerRules& breaker = gate.breaker ? *gate.breaker : gate.breaker.emplace();
    fill(queue, breaker);
    const std::string of_last = std::to_string(breaker.of_last);
    if (breaker.open_after > breaker.of_last)
      wrong("breaker", "open_after (" + std::to_string(breaker.open_after) + ") is more than of_last (" +
                           of_last + "), so it would never open: write open_after: " + of_last +
                           " or less, or a larger of_last");
  }
  // Once for all queues that have both from the defaults.
  if (gate.breaker && silence.means == Silence::Means::success &&
      (queue.valid("gate.breaker") || queue.has("success")))
    load.warn(queue, "gate.breaker",
              "a delivery without an answer for " + levels::format_duration(silence.after) +
                  " counts as a success: set success.reported_within if consumers report their results");
  return gate;
}

// `otherwise`: of the keys that it leaves out.
QueueRules rules_of(const Node& queue, const QueueRules& otherwise, Load& load) {
  QueueRules rules = otherwise;
  fill(queue, rules);
  fill(queue, rules.give_up);
  if (auto ladder = ladder_at(queue, "ladder", load); !ladder.empty()) rules.ladder = std::move(ladder);
  Texts lists;
  for (const Entry& list : load.root.entries_at("rules")) lists.push_back(list.key.text);
  if (auto list = known_name(queue, "rules", "list", lists, load); !list.empty())
    rules.rules = std::move(list);
  check_silence(queue, load);
  rules.gate = gate_of(queue, otherwise.gate, rules.silence, load);
  return rules;
}

TagRules tag_of(const Node& tag, Load& load) {
  if (tag.has("queue") && (tag.has("exchange") || tag.has("routing_key")))
    load.problems.add(tag.mark_at("queue"),
                      tag.path + ": queue cannot be combined with exchange or routing_key");
  if (tag.has("routing_key") && !tag.has("exchange") && !tag.has("queue"))
    load.wrong(tag, "routing_key", "requires exchange; for a queue use queue");
  check_silence(tag, load);
  TagRules rules;
  fill(tag, rules);
  fill(tag, rules.target);
  rules.ladder = ladder_at(tag, "ladder", load);
  return rules;
}

TargetRules targets_of(Load& load) {
  const Node& root = load.root;
  TargetRules targets;
  if (!load.config.broker.prefix.empty()) targets.own = load.config.broker.prefix + ".";
  targets.groups = load.config.groups;
  fill(root, targets);
  std::vector<ErrorQueue> sources;
  for (const Node& one : root.items_at("error_queues")) {
    if (auto from = one.get<std::string>("from")) sources.push_back({.from = *std::move(from)});
  }
  const ErrorQueues errors(std::move(sources));
  // Where the config itself sends messages. From a queue of Rung's, and from an error queue, also another
  // group's, they would come back at once, as another row each time.
  const auto add = [&](const Node& node, std::string_view key) {
    const std::string to = node.text_at(key);
    if (to.empty()) return;
    targets.configured.insert(to);
    refuse_own(node, key, load);
    if (key != "exchange" && errors.find(to) != nullptr)
      load.wrong(node, key,
                 in_quotes(to) + " is an error queue: Rung would take its messages in again and again");
  };
  for (const auto& [key, queue] : root.entries_at("queues")) {
    const QueuePattern pattern(key.text);
    if (pattern.only_name()) {
      targets.configured.insert(*pattern.only_name());
      continue;
    }
    targets.configured_patterns.push_back(pattern);
    // broker.targets.allow restricts which queues headers may name, and every queue of this config is one.
    if (targets.allow && pattern.head().empty())
      load.warn(queue, "",
                "headers may name every queue that matches, whatever broker.targets.allow says: begin the "
                "pattern with a part of the name, or use defaults:");
  }
  // Also those of other groups: existing tasks of a queue continue when the queue moves to another group.
  for (const QueueGroups::Group& group : groups_of(load).all) {
    std::ranges::copy_if(group.queues, std::inserter(targets.configured, targets.configured.end()),
                         [](const std::string& queue) { return queue.find('*') == std::string::npos; });
  }
  for (const auto& [key, tag] : root.entries_at("tags")) {
    add(tag, "queue");
    add(tag, "exchange");
  }
  for (const auto& [from, to] : load.config.delays) targets.configured.insert(to);
  for (const Node& queue : root.items_at("error_queues")) add(queue, "to");
  for (const auto& [key, list] : root.entries_at("rules")) {
    for (const Node& rule : list.items) add(rule, "then.to");
  }
  const Texts allowed = targets.allow.value_or(Texts());
  const auto own =
      std::ranges::find_if(allowed, [&](const auto& pattern) { return targets.is_own(pattern); });
  if (own != allowed.end())
    load.problem("broker.targets.allow", "names that begin with " + targets.own_prefix(*own) +
                                             " are reserved for Rung and never a target: remove them");
  return targets;
}

// The rules of queues that are not listed: `defaults`, or the deprecated `queues.default`. nullptr if the
// file has neither.
const Node* defaults_of(Load& load) {
  if (const Node* const defaults = load.root.find("defaults")) return defaults;
  const Node* const old = load.root.find("queues.default");
  if (old != nullptr && load.reports_warnings())
    load.problems.warn(
        old->mark,
        "queues.default is deprecated: move its keys to defaults: at the top level; if defaults: "
        "exists, queues.default is the queue named default");
  return old;
}

FailureRule rule_of(const Node& node, Load& load) {
  FailureRule rule;
  rule.name = node.path.substr(node.path.find('.') + 1);
  fill(node, rule);
  fill(node, rule.when);
  RuleAction& then = rule.then;
  fill(node, then);
  const bool snoozes = node.has("then.snooze"), climbs = node.has("then.ladder");
  if (snoozes) then.kind = RuleAction::Kind::snooze;
  then.ladder = ladder_at(node, "then.ladder", load);
  // Where the rule begins.
  const auto problem = [&](const std::string& what) { load.problems.add(node.mark, node.path + what); };
  if (!node.get<RuleAction::Kind>("then") && node.entries_at("then").empty())
    problem(": then is missing: write e.g. { when: { type: TimeoutError }, then: park }");
  if (snoozes && (then.delay || climbs))
    problem(".then: snooze keeps the level: it cannot be combined with delay or ladder");
  if (then.delay && climbs) problem(".then: delay and ladder cannot be combined: keep one");
  if (rule.type_from && rule.type_from->groups == 0)
    load.wrong(node, "type_from",
               "the expression has no group: write parentheses around the type, e.g. "
               "/^([A-Za-z.]+Error):/");
  return rule;
}

bool may_match(const FailureRule& rule, const std::string& queue) {
  const auto& patterns = rule.when.queues;
  return patterns.empty() ||
         std::ranges::any_of(patterns, [&](const auto& pattern) { return matches_pattern(pattern, queue); });
}

void warn_of_useless(const Entry& entry, const std::vector<FailureRule>& rules, Load& load) {
  const std::string& name = entry.key.text;
  const std::vector<Node>& items = entry.value.items;
  for (const auto& [rule, by] : shadowed(rules))
    load.warn(items[rule], "",
              "never matches, because rule " + std::to_string(by + 1) + " matches all of its failures first");
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
    load.warn(entry.key, "", "not used: write rules: " + name + " at a queue, or under defaults");
  if (queues.empty() || any_name) return;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (std::ranges::none_of(queues, [&](const auto& queue) { return may_match(rules[i], queue); }))
      load.warn(items[i], "when.queue", "never matches: no queue with these rules has such a name");
  }
}

// Whether the entry names a group, if there are any, or none. Reports it if not.
bool fits_groups(const Node& one, const std::string& what, Load& load) {
  const QueueGroups& groups = load.config.groups;
  const auto group = one.get<std::string>("group");
  if (groups.empty() ? !group : group && groups.find(*group) != nullptr) return true;
  load.wrong(one, "group",
             groups.empty() ? "the config has no groups: remove it"
                            : "set the group that " + what + ": " + groups.names());
  return false;
}

// Whether an entry that fits is for this process.
bool is_ours(const Node& one, const QueueGroups& groups) {
  return groups.empty() || groups.own.empty() || one.get<std::string>("group") == groups.own;
}

void check_names(const Node& one, Load& load) {
  const std::string from = one.text_at("from");
  refuse_own(one, "from", load);
  if (from.find_first_not_of('*') == std::string::npos) {
    load.wrong(one, "from", "matches every queue: write a part of the error queues' names, like \"*_error\"");
  } else {
    // The config gives rules for the retries of these: they have consumers.
    const bool pattern = from.find('*') != std::string::npos;
    for (const Entry& queue : load.root.entries_at("queues")) {
      // An error queue may match a pattern of queues: it has no consumer of its own.
      const std::string name = QueuePattern(queue.key.text).only_name().value_or(queue.key.text);
      if (from == name || (pattern && matches_pattern(from, name)))
        load.wrong(one, "from",
                   (pattern ? "matches" : "is") + (" the queue " + in_quotes(queue.key.text)) +
                       " of queues:, whose messages are for its consumer");
    }
  }
  if (one.text_at("to").find('*') != std::string::npos)
    load.wrong(one, "to", "must name one queue: only from may be a pattern");
}

// nullptr: there is no such dialect, which is reported; or it is a user's, whose file this command does not
// read.
DialectPtr dialect_of(const Node& one, Load& load) {
  const auto name = one.get<std::string>("dialect").value_or(std::string(kDefaultDialect));
  const auto found = load.config.dialects.find(name);
  if (found != load.config.dialects.end()) return found->second;
  if (load.root.valid("dialects") || load.reads_files_of("dialects"))
    known_name(one, "dialect", "dialect", names_of(load.config.dialects), load);
  return nullptr;
}

void add_error_queue(const Node& one, std::vector<ErrorQueue>& all, Load& load) {
  ErrorQueue queue;
  fill(one, queue);
  queue.retries = one.get<std::string>("ladder") != kNoLadder;
  if (queue.retries) queue.ladder = ladder_at(one, "ladder", load);
  queue.dialect = dialect_of(one, load);
  if (queue.dialect == nullptr) return;
  if (queue.dialect->name == kDefaultDialect && queue.to.empty() && !queue.is_pattern())
    load.warn(one, "",
              "without `to`, a message goes back to the queue that its x-death or its header retry-queue "
              "names; one that has neither is parked");
  all.push_back(std::move(queue));
}

// `error_queues`, those of this process's group.
ErrorQueuesPtr build_error_queues(Load& load) {
  std::vector<ErrorQueue> queues;
  std::set<std::string> seen;
  for (const Node& one : load.root.items_at("error_queues")) {
    if (one.invalid) continue;
    if (!one.has("from")) {
      load.wrong(one, "", "from is missing: write " + std::string(kErrorQueueForm));
      continue;
    }
    check_names(one, load);
    if (!seen.insert(one.text_at("from")).second) load.wrong(one, "from", "duplicate entry");
    if (fits_groups(one, "takes these messages in", load) && is_ours(one, load.config.groups))
      add_error_queue(one, queues, load);
  }
  return std::make_shared<const ErrorQueues>(std::move(queues));
}

// nullptr on errors.
FailureRulesPtr build_list(const Entry& entry, Load& load) {
  const auto before = load.problems.count();
  std::vector<FailureRule> rules;
  for (const Node& item : entry.value.items) {
    if (!item.invalid) rules.push_back(rule_of(item, load));
  }
  if (entry.value.invalid || load.problems.count() != before) return nullptr;
  warn_of_useless(entry, rules, load);
  return std::make_shared<const FailureRules>(std::move(rules));
}

// Finds rules that move a message between queues in a circle by snoozes: since a snoozed attempt is not
// counted, no ladder ends it.
void check_snooze_loops(const RuleBook& book, Load& load) {
  struct Move {
    std::string from;
    const FailureRule* rule = nullptr;  // of the list of `from`
  };
  std::set<std::string> seen, told;
  std::vector<Move> path;
  // Whatever the failure is, this rule decides.
  const auto always_matches = [&](const Move& move) {
    RuleConditions others = move.rule->when;
    others.queues.clear();
    return others.empty() && std::none_of(book.failure_rules(move.from)->rules().data(), move.rule,
                                          [&](const auto& rule) { return may_match(rule, move.from); });
  };
  const auto report = [&](auto circle) {
    std::string shown;
    bool certain = true;
    for (; circle != path.end(); ++circle) {
      if (book.queue(circle->from).give_up.after) return;  // it ends
      shown += circle->from + " -> ";
      certain = certain && always_matches(*circle);
    }
    const FailureRule& closing = *path.back().rule;
    if (!told.insert(closing.name).second) return;
    const std::string text = "snoozes move a message in a circle (" + shown + closing.then.to +
                             "), and a snoozed attempt is not counted: remove one of these rules, or set "
                             "give_up.after for one of the queues";
    for (const auto& [key, list] : load.root.entries_at("rules")) {
      const auto node = std::ranges::find(list.items, "rules." + closing.name, &Node::path);
      if (node == list.items.end()) continue;
      if (certain) {
        load.wrong(*node, "then.to", text);
      } else {
        load.warn(*node, "then.to", text + ". Rung parks it after 100 uncounted attempts");
      }
    }
  };
  // Depth first. A move to a queue of the path closes a circle.
  const std::function<void(const std::string&)> follow = [&](const std::string& queue) {
    const FailureRules* const list = book.failure_rules(queue);
    if (queue.empty() || !seen.insert(queue).second || list == nullptr) return;
    for (const FailureRule& rule : list->rules()) {
      const std::string& to = rule.then.to;
      if (rule.then.kind != RuleAction::Kind::snooze || to.empty() || to == queue || !may_match(rule, queue))
        continue;
      path.push_back({queue, &rule});
      const auto begin = std::ranges::find(path, to, &Move::from);
      if (begin != path.end()) {
        report(begin);
      } else {
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
  for (const std::string& queue : queues) follow(queue);
}

}  // namespace

const Ladders& ready_ladders() {
  static const Ladders all = [] {
    Ladders ladders;
    for (const auto& [name, yaml] : levels::ready_ladders()) {
      // Parsed as if it were under `ladders:` in a config. A test proves that all of them are valid.
      Problems problems{"levels/" + std::string(name) + ".yaml"};
      auto root = parse_document(fmt::format("{{ ladders: {{ {}: {} }} }}", name, yaml), problems);
      if (!root) continue;
      Load load{problems};
      load.root = *std::move(root);
      walk(load);
      for (const auto& [key, node] : load.root.entries_at("ladders")) {
        if (auto built = ladder_of(node, load)) ladders.emplace(name, *std::move(built));
      }
    }
    return ladders;
  }();
  return all;
}

void complete_delays(Load& load) {
  Config& config = load.config;
  const std::vector<Node>& all = load.root.items_at("delays");
  std::set<std::string> delayed, seen;
  for (const Node& one : all) delayed.insert(one.text_at("from"));
  for (const Node& one : all) {
    if (one.invalid) continue;
    const std::string from = one.text_at("from"), to = one.text_at("to");
    const auto before = load.problems.count();
    if (from.empty() || to.empty())
      load.wrong(one, "",
                 std::string(from.empty() ? "from" : "to") + " is missing: write " + std::string(kDelayForm));
    else if (from.starts_with("amq."))
      load.wrong(one, "from", "names that begin with amq. are reserved for the broker");
    else if (from == to)
      load.wrong(one, "to", "the same as from: messages would loop");
    else if (delayed.contains(to))
      load.wrong(one, "to", "another entry delays this exchange: write the final exchange");
    else if (!seen.insert(from).second)
      load.wrong(one, "from", "duplicate entry");
    refuse_own(one, "from", load);
    refuse_own(one, "to", load);
    const bool fits = fits_groups(one, "receives these messages", load);
    if (fits && load.problems.count() == before && is_ours(one, config.groups))
      config.delays.emplace(from, to);
  }
  for (const auto& [from, to] : config.delays) config.broker.rabbitmq.delay_exchanges.push_back(from);
}

RuleBookPtr build_rules(Load& load) {
  for (const auto& [key, node] : load.root.entries_at("ladders")) {
    // Instead of an invalid one, which is reported, any other: who names it is right.
    load.ladders.insert_or_assign(key.text, ladder_of(node, load).value_or(ready_ladders().begin()->second));
  }
  // Predefined ladders are used if the file has none of that name: for its queues, and for the header
  // retry-ladder.
  load.ladders.insert(ready_ladders().begin(), ready_ladders().end());

  // Keys that a queue leaves out come from the defaults, then from the top level, then from the key table.
  QueueRules base;
  base.publish_parked = load.root.get<bool>("parked").value_or(base.publish_parked);
  base.catch_up = load.root.get<int>("catch_up").value_or(base.catch_up);
  const Node* const defaults = defaults_of(load);
  if (defaults != nullptr) base = rules_of(*defaults, base, load);
  RuleBook::Queues queues;
  RuleBook::Patterns patterns;
  for (const auto& [key, queue] : load.root.entries_at("queues")) {
    if (&queue == defaults) continue;
    QueuePattern pattern(key.text);
    QueueRules rules = rules_of(queue, base, load);
    if (!pattern.only_name()) {
      patterns.push_back({std::move(pattern), std::move(rules)});
    } else if (!queues.emplace(*pattern.only_name(), std::move(rules)).second) {
      load.wrong(queue, "",
                 "the queue " + in_quotes(*pattern.only_name()) +
                     " has another entry: [c] stands for the character c");
    }
  }
  if (patterns.size() > kMostPatterns)
    load.problems.add({}, "queues: more than " + std::to_string(kMostPatterns) + " patterns");
  RuleBook::Tags tags;
  for (const auto& [key, tag] : load.root.entries_at("tags")) tags.emplace(key.text, tag_of(tag, load));
  TargetRules targets = targets_of(load);
  RuleBook::RuleLists lists;
  for (const Entry& entry : load.root.entries_at("rules")) {
    if (auto built = build_list(entry, load)) lists.insert_or_assign(entry.key.text, std::move(built));
  }
  ErrorQueuesPtr errors = build_error_queues(load);
  if (!load.problems.empty()) return nullptr;
  auto book = std::make_shared<const RuleBook>(load.ladders, std::move(queues), std::move(tags),
                                               std::move(base), std::move(targets), std::move(lists),
                                               std::move(errors), std::move(patterns));
  check_snooze_loops(*book, load);
  return load.problems.empty() ? book : nullptr;
}

CauseRulesPtr build_cause_rules(Load& load) {
  std::vector<CauseRule> rules;
  const std::vector<Node>& items = load.root.items_at("causes");
  if (items.size() > kMostCauseRules)
    load.wrong(items[kMostCauseRules], "",
               "too many: at most " + std::to_string(kMostCauseRules) + " entries");
  for (const Node& item : items) {
    if (item.invalid) continue;
    const auto match = item.get<RuleRegex>("match"), mask = item.get<RuleRegex>("mask");
    const auto as = item.get<std::string>("as");
    if (match ? as && !mask : mask && !as) {
      rules.push_back({match ? *match : *mask, as.value_or("")});
    } else {
      load.wrong(item, "", "write " + std::string(kCauseForm));
    }
  }
  return rules.empty() ? nullptr : std::make_shared<const CauseRules>(std::move(rules));
}

}  // namespace rung::confile
