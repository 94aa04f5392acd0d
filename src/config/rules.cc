// Builds the rule book from ladders, queues, tags and rule lists.
#include <algorithm>

#include "levels/ready.h"
#include "src/config/draft.h"

namespace rung::confile {
namespace {

using Ladders = std::map<std::string, levels::Ladder, std::less<>>;

// Each is tried for every failure of a queue that has no entry of its own.
constexpr std::size_t kMostPatterns = 1000;

// The position of the first delay that makes the ladder invalid.
Mark first_invalid_delay(const LadderDraft& draft) {
  for (std::size_t n = 1; n <= draft.delays.size(); ++n) {
    const auto end = draft.delays.begin() + static_cast<std::ptrdiff_t>(n);
    if (!levels::Ladder::from_list({draft.delays.begin(), end})) return draft.delay_marks[n - 1];
  }
  return draft.mark;
}

Mark part(const LadderDraft& draft, std::string_view name) {
  const auto it = draft.present.find(name);
  return it != draft.present.end() ? it->second : draft.mark;
}

std::optional<levels::Ladder> list(const LadderDraft& draft, const std::string& path, Problems& problems) {
  for (const auto* extra : {"base", "factor", "max"}) {
    if (!draft.present.contains(extra)) continue;
    problems.add(part(draft, extra), path + ": levels is a list of delays, so " + extra +
                                         " has no effect: remove it, or make levels a number");
    return std::nullopt;
  }
  auto ladder = levels::Ladder::from_list(draft.delays, draft.jitter);
  if (ladder) return *ladder;
  // Values from the environment are not quoted.
  problems.add(first_invalid_delay(draft),
               path + ": " +
                   (draft.substituted
                        ? "invalid delays: 1 to 1000 of them, none zero, none shorter than the previous one"
                        : ladder.error()));
  return std::nullopt;
}

std::optional<levels::Ladder> exponential(const LadderDraft& draft, const std::string& path,
                                          Problems& problems) {
  bool complete = true;
  for (const auto* needed : {"base", "levels"}) {
    if (draft.present.contains(needed)) continue;
    complete = false;
    problems.add(draft.mark, path + ": " + needed +
                                 " is missing: write e.g. { base: 10s, factor: 2, max: 1h, levels: 12 }");
  }
  if (!complete) return std::nullopt;
  auto ladder = levels::Ladder::from_exponential(draft.spec, draft.jitter);
  if (ladder) return *ladder;
  Mark at = draft.mark;  // the error begins with the name of the invalid key
  for (const auto& [name, mark] : draft.present) {
    if (ladder.error().starts_with(name)) at = mark;
  }
  problems.add(at,
               path + ": " +
                   (draft.substituted
                        ? "invalid ladder: check base, factor (at least 1), max (not below base) and levels"
                        : ladder.error()));
  return std::nullopt;
}

std::optional<levels::Ladder> build(const LadderDraft& draft, Problems& problems) {
  if (draft.invalid) return std::nullopt;
  const std::string path = "ladders." + draft.name;
  return draft.is_list ? list(draft, path, problems) : exponential(draft, path, problems);
}

// nullopt if it is not set, or invalid. `section`: "queues." or "tags.".
std::optional<Silence> silence_of(const RulesDraft& queue, const std::string& section, Problems& problems) {
  if (!queue.success_mark || queue.success_broken) return std::nullopt;
  const std::string path = section + queue.name + ".success: ";
  if (queue.presumed_after && queue.reported_within) {
    const bool first = queue.presumed_mark.line < queue.reported_mark.line ||
                       (queue.presumed_mark.line == queue.reported_mark.line &&
                        queue.presumed_mark.column < queue.reported_mark.column);
    problems.add(first ? queue.reported_mark : queue.presumed_mark,
                 path +
                     "presumed_after (silence is success) and reported_within (silence is failure) cannot be "
                     "combined: keep one");
    return std::nullopt;
  }
  if (queue.presumed_after) return Silence{Silence::Means::success, *queue.presumed_after};
  if (queue.reported_within) return Silence{Silence::Means::failure, *queue.reported_within};
  problems.add(*queue.success_mark,
               path +
                   "write presumed_after (silence is success) or reported_within (silence is "
                   "failure)");
  return std::nullopt;
}

bool check_ladder_name(const RulesDraft& queue, const std::string& section, const Ladders& ladders,
                       const Draft& draft, Problems& problems) {
  if (!queue.ladder) return true;
  return check_ladder({*queue.ladder, queue.ladder_mark, queue.ladder_substituted},
                      section + queue.name + ".ladder", ladders, draft, problems);
}

TagRules tag_of(const TagDraft& tag, const Ladders& ladders, const Draft& draft, Problems& problems) {
  const std::string path = "tags." + tag.name;
  if (tag.queue && (tag.exchange || tag.routing_key))
    problems.add(tag.queue_mark, path + ": queue cannot be combined with exchange or routing_key");
  if (tag.routing_key && !tag.exchange && !tag.queue)
    problems.add(tag.routing_key_mark, path + ".routing_key: requires exchange; for a queue use queue");
  // A due message would return to Rung at once, as another row each time.
  if (const std::string own = own_prefix(draft.config, tag.queue.value_or("")); !own.empty())
    problems.add(tag.queue_mark, path + ".queue: names that begin with " + own + " are reserved for Rung");
  if (const std::string own = own_prefix(draft.config, tag.exchange.value_or("")); !own.empty())
    problems.add(tag.exchange_mark,
                 path + ".exchange: names that begin with " + own + " are reserved for Rung");
  TagRules rules;
  rules.target = {tag.queue.value_or(""), tag.exchange.value_or(""), tag.routing_key.value_or("")};
  if (check_ladder_name(tag, "tags.", ladders, draft, problems)) rules.ladder = tag.ladder.value_or("");
  rules.silence = silence_of(tag, "tags.", problems);
  return rules;
}

}  // namespace

const Ladders& ready_ladders() {
  static const Ladders all = [] {
    Ladders ladders;
    for (const auto name : levels::ready_ladder_names()) {
      // Parsed as if it were under `ladders:` in a config. A test proves that all of them are valid.
      Problems problems{"levels/" + std::string(name) + ".yaml"};
      Node root;
      root.kind = Node::Kind::map;
      Node ladders_key, name_key, ladders_value;
      ladders_key.kind = name_key.kind = Node::Kind::text;
      ladders_key.text = "ladders";
      name_key.text = name;
      ladders_value.kind = Node::Kind::map;
      auto ladder = parse_document(levels::ready_ladder_yaml(name), problems);
      if (!ladder) continue;
      ladders_value.entries.push_back({std::move(name_key), *std::move(ladder)});
      root.entries.push_back({std::move(ladders_key), std::move(ladders_value)});
      const Draft draft = walk(root, "", problems);
      if (draft.ladders.empty()) continue;
      if (auto built = build(draft.ladders.front(), problems)) ladders.emplace(name, *std::move(built));
    }
    return ladders;
  }();
  return all;
}

bool check_ladder(const LadderName& wanted, const std::string& path, const Ladders& ladders,
                  const Draft& draft, Problems& problems) {
  // An existing but invalid ladder is already reported.
  const auto is_it = [&](const LadderDraft& ladder) { return ladder.name == wanted.name; };
  if (ladders.contains(wanted.name) || std::ranges::any_of(draft.ladders, is_it)) return true;
  if (wanted.substituted) {
    problems.add(wanted.mark, path + ": unknown ladder: it is neither under ladders nor predefined");
    return false;
  }
  std::vector<std::string> names;
  for (const auto& [name, ladder] : ladders) names.push_back(name);
  for (const auto& invalid : draft.ladders) names.push_back(invalid.name);
  std::string list;
  for (const auto& [name, ladder] : ladders) list += (list.empty() ? "" : ", ") + name;
  problems.add(wanted.mark, path + ": unknown ladder " + in_quotes(wanted.name) +
                                did_you_mean(wanted.name, names, ": available ladders: " + list));
  return false;
}

namespace {

// The rules of queues that are not listed: `defaults`, or the deprecated `queues.default`. nullptr if the
// file has neither.
const QueueDraft* defaults_of(const Draft& draft, Problems& problems) {
  if (!draft.defaults.name.empty()) return &draft.defaults;
  const auto old = std::ranges::find_if(draft.queues, [](const auto& q) { return q.name == "default"; });
  if (old == draft.queues.end()) return nullptr;
  if (draft.reports_warnings()) {
    problems.warn(old->mark,
                  "queues.default is deprecated: move its keys to defaults: at the top level; if defaults: "
                  "exists, queues.default is the queue named default");
  }
  return &*old;
}

// broker.targets.allow restricts which queues headers may name, and every queue of this config is one.
void warn_of_wide_pattern(const QueueDraft& queue, const Draft& draft, Problems& problems) {
  if (!draft.reports_warnings() || !draft.allow || !queue.key.head().empty()) return;
  problems.warn(queue.mark, "queues." + queue.name +
                                ": headers may name every queue that matches, whatever broker.targets.allow "
                                "says: begin the pattern with a part of the name, or use defaults:");
}

TargetRules targets_of(const Draft& draft, Problems& problems) {
  TargetRules targets;
  if (!draft.config.broker.prefix.empty()) targets.own = draft.config.broker.prefix + ".";
  targets.groups = draft.config.groups;
  targets.allow = draft.allow;
  targets.deny = draft.deny;
  for (const QueueDraft& queue : draft.queues) {
    if (queue.key.only_name()) {
      targets.configured.insert(*queue.key.only_name());
    } else {
      targets.configured_patterns.push_back(queue.key);
      warn_of_wide_pattern(queue, draft, problems);
    }
  }
  // Also those of other groups: existing tasks of a queue continue when the queue moves to another group.
  for (const GroupDraft& group : draft.groups) {
    for (const std::string& queue : group.queues) {
      if (queue.find('*') == std::string::npos) targets.configured.insert(queue);
    }
  }
  for (const TagDraft& tag : draft.tags) {
    if (tag.queue) targets.configured.insert(*tag.queue);
    if (tag.exchange) targets.configured.insert(*tag.exchange);
  }
  for (const auto& [from, to] : draft.config.delays) targets.configured.insert(to);
  for (const ErrorQueueDraft& queue : draft.error_queues) {
    if (queue.to) targets.configured.insert(*queue.to);
  }
  for (const RuleListDraft& list : draft.rule_lists) {
    for (const RuleDraft& draft_rule : list.rules) {
      if (const std::string& to = draft_rule.rule.then.to; !to.empty()) targets.configured.insert(to);
    }
  }
  for (const std::string& pattern : targets.allow.value_or(TargetRules::Patterns{})) {
    if (!targets.is_own(pattern)) continue;
    problems.add(draft.mark("broker.targets.allow"),
                 "broker.targets.allow: names that begin with " + targets.own_prefix(pattern) +
                     " are reserved for Rung and never a target: remove them");
    break;
  }
  return targets;
}

}  // namespace

RuleBookPtr build_rules(const Draft& draft, Problems& problems) {
  Ladders ladders;
  for (const auto& ladder : draft.ladders) {
    if (auto built = build(ladder, problems)) ladders.insert_or_assign(ladder.name, *std::move(built));
  }
  // Predefined ladders are used if the file has none of that name: for its queues, and for the header
  // retry-ladder.
  ladders.insert(ready_ladders().begin(), ready_ladders().end());

  QueueRules base;
  base.publish_parked = draft.publish_parked;
  base.catch_up = draft.catch_up.value_or(base.catch_up);
  // nullptr while the defaults themselves are built.
  const GateDraft* gate_defaults = nullptr;
  const auto rules_of = [&](const QueueDraft& queue, const QueueRules& otherwise) {
    QueueRules rules = otherwise;
    const std::string section = &queue == &draft.defaults ? "" : "queues.";
    if (check_ladder_name(queue, section, ladders, draft, problems) && queue.ladder)
      rules.ladder = *queue.ladder;
    rules.silence = silence_of(queue, section, problems).value_or(otherwise.silence);
    rules.publish_parked = queue.publish_parked.value_or(otherwise.publish_parked);
    rules.catch_up = queue.catch_up.value_or(otherwise.catch_up);
    if (check_rules_name(queue, section, draft, problems))
      rules.rules = queue.rules.value_or(otherwise.rules);
    rules.needs_attachment = queue.needs_attachment.value_or(otherwise.needs_attachment);
    rules.late_by = queue.late_by ? queue.late_by : otherwise.late_by;
    rules.give_up.attempts = queue.give_up_attempts.value_or(otherwise.give_up.attempts);
    if (queue.give_up_after) rules.give_up.after = queue.give_up_after;
    rules.gate = build_gate(queue, gate_defaults, section, rules.silence, draft, problems);
    return rules;
  };
  RuleBook::Queues queues;
  RuleBook::Patterns patterns;
  // Keys that a queue leaves out come from the defaults, then from the key table.
  const QueueDraft* defaults = defaults_of(draft, problems);
  if (defaults != nullptr) {
    base = rules_of(*defaults, base);
    gate_defaults = &defaults->gate;
  }
  for (const auto& queue : draft.queues) {
    if (&queue == defaults) continue;
    QueueRules rules = rules_of(queue, base);
    if (!queue.key.only_name()) {
      patterns.push_back({queue.key, std::move(rules)});
    } else if (!queues.emplace(*queue.key.only_name(), std::move(rules)).second) {
      problems.add(queue.mark, "queues." + queue.name + ": the queue " + in_quotes(*queue.key.only_name()) +
                                   " has another entry: [c] stands for the character c");
    }
  }
  if (patterns.size() > kMostPatterns)
    problems.add({}, "queues: more than " + std::to_string(kMostPatterns) + " patterns");
  RuleBook::Tags tags;
  for (const TagDraft& tag : draft.tags) tags.emplace(tag.name, tag_of(tag, ladders, draft, problems));
  TargetRules targets = targets_of(draft, problems);
  RuleBook::RuleLists lists = build_rule_lists(draft, ladders, problems);
  ErrorQueuesPtr errors = build_error_queues(draft, ladders, problems);
  if (!problems.empty()) return nullptr;
  auto book = std::make_shared<const RuleBook>(std::move(ladders), std::move(queues), std::move(tags),
                                               std::move(base), std::move(targets), std::move(lists),
                                               std::move(errors), std::move(patterns));
  check_snooze_loops(draft, *book, problems);
  if (!problems.empty()) return nullptr;
  return book;
}

}  // namespace rung::confile
