// Builds the rule book from ladders, queues with their gates, tags and rule lists.
#include <algorithm>

#include "levels/ready.h"
#include "src/config/load.h"

namespace rung::confile {
namespace {

using Ladders = RuleBook::Ladders;

// Each is tried for every failure of a queue that has no entry of its own.
constexpr std::size_t kMostPatterns = 1000;

std::optional<levels::Ladder> ladder_of_list(const Node& node, const Node& list,
                                             const std::vector<Ms>& delays, const std::string& path,
                                             Problems& problems) {
  for (const auto* extra : {"base", "factor", "max"}) {
    if (!node.has(extra)) continue;
    problems.add(node.mark_at(extra), path + ": levels is a list of delays, so " + extra +
                                          " has no effect: remove it, or make levels a number");
    return std::nullopt;
  }
  auto ladder = levels::Ladder::from_list(delays, node.get<double>("jitter").value_or(0));
  if (ladder) return *ladder;
  Mark at = node.mark;
  for (std::size_t n = delays.size(); n > 0; --n) {  // the first delay that makes it invalid
    const auto end = delays.begin() + static_cast<std::ptrdiff_t>(n);
    if (!levels::Ladder::from_list({delays.begin(), end})) at = list.items[n - 1].mark;
  }
  // Values from the environment are not quoted.
  problems.add(at,
               path + ": " +
                   (node.is_from_environment()
                        ? "invalid delays: 1 to 1000 of them, none zero, none shorter than the previous one"
                        : ladder.error()));
  return std::nullopt;
}

std::optional<levels::Ladder> ladder_of(const Node& node, const std::string& path, Problems& problems) {
  if (node.invalid) return std::nullopt;
  const Levels levels = node.get<Levels>("levels").value_or(Levels());
  if (const auto delays = node.get<std::vector<Ms>>())
    return ladder_of_list(node, node, *delays, path, problems);
  if (const auto* delays = std::get_if<std::vector<Ms>>(&levels))
    return ladder_of_list(node, *node.find("levels"), *delays, path, problems);
  bool complete = true;
  for (const auto* needed : {"base", "levels"}) {
    if (node.has(needed)) continue;
    complete = false;
    problems.add(node.mark, path + ": " + needed +
                                " is missing: write e.g. { base: 10s, factor: 2, max: 1h, levels: 12 }");
  }
  if (!complete) return std::nullopt;
  levels::Exponential spec;
  spec.base = node.get<Ms>("base").value_or(spec.base);
  spec.factor = node.get<double>("factor").value_or(spec.factor);
  spec.max = node.get<Ms>("max").value_or(spec.max);
  spec.levels = std::get<int>(levels);
  auto ladder = levels::Ladder::from_exponential(spec, node.get<double>("jitter").value_or(0));
  if (ladder) return *ladder;
  // The error begins with the name of the invalid key.
  const std::string key = ladder.error().substr(0, ladder.error().find(' '));
  problems.add(node.mark_at(key),
               path + ": " +
                   (node.is_from_environment()
                        ? "invalid ladder: check base, factor (at least 1), max (not below base) and levels"
                        : ladder.error()));
  return std::nullopt;
}

// nullopt if it is not set, or invalid. `path`: of the queue or tag.
std::optional<Silence> silence_of(const Node& queue, const std::string& path, Problems& problems) {
  const Node* const success = queue.find("success");
  if (success == nullptr || success->kind != Node::Kind::map || success->invalid) return std::nullopt;
  const auto presumed = success->get<Ms>("presumed_after"), reported = success->get<Ms>("reported_within");
  if (presumed && !reported) return Silence{Silence::Means::success, *presumed};
  if (reported && !presumed) return Silence{Silence::Means::failure, *reported};
  problems.add(presumed ? success->entries.back().value.mark : success->mark,
               path + ".success: " +
                   (presumed ? "presumed_after (silence is success) and reported_within (silence is failure) "
                               "cannot be combined: keep one"
                             : "write presumed_after (silence is success) or reported_within (silence is "
                               "failure)"));
  return std::nullopt;
}

// From its keys, and those of the defaults.
class GateBuilder {
 public:
  GateBuilder(const Node& queue, const Node* defaults, const std::string& path, Load& load)
      : queue_(queue), defaults_(defaults), path_(path), load_(load) {}

  GateRules build(const Silence& silence) const {
    GateRules out;
    set("rate", out.rate);
    if (complete("rate_by", "header", "rate", "{ header: tenant, rate: 5/s }"))
      out.rate_by = RateBy{*get<std::string>("rate_by.header"), *get<double>("rate_by.rate")};
    if (complete("window", "allow", "zone", "{ allow: \"Mon-Fri 08:00-18:00\", zone: Europe/Berlin }"))
      out.window = window();
    if (at("breaker") != nullptr) out.breaker = breaker(silence);
    out.retry_after.cap = get<Ms>("retry_after.cap");
    out.retry_after.pauses_queue = get<std::string>("retry_after.pauses") == "queue";
    set("retry_after.max", out.retry_after.longest_hold);
    if (at("retry_after.max") != nullptr && !out.retry_after.pauses_queue && concerns("retry_after"))
      problem("retry_after",
              "max limits how long the whole queue is held back, and pauses: message holds back none: "
              "write pauses: queue, or remove max");
    return out;
  }

 private:
  // The queue's, else that of the defaults; nullptr: neither has it, without errors.
  const Node* at(const std::string& key) const {
    for (const Node* of : {&queue_, defaults_}) {
      if (of != nullptr && of->valid("gate." + key)) return of->find("gate." + key);
    }
    return nullptr;
  }
  template <typename T>
  std::optional<T> get(const std::string& key) const {
    const Node* const node = at(key);
    return node != nullptr ? node->get<T>() : std::nullopt;
  }
  template <typename T>
  void set(const std::string& key, T& out) const {
    if (auto value = get<T>(key)) out = *std::move(value);
  }
  // An error in what comes from the defaults alone is reported there.
  bool concerns(const std::string& section) const {
    return defaults_ == nullptr || queue_.valid("gate." + section);
  }
  void problem(const std::string& key, const std::string& what) const {
    load_.problems.add(at(key)->mark, path_ + ".gate." + key + ": " + what);
  }

  // Whether the section is there with both keys; reports the one that is missing.
  bool complete(const std::string& section, const std::string& first, const std::string& second,
                const std::string& example) const {
    if (at(section) == nullptr) return false;
    const bool has_first = at(section + "." + first) != nullptr;
    const bool has_second = at(section + "." + second) != nullptr;
    if (has_first && has_second) return true;
    const std::string missing = has_first    ? second + " is"
                                : has_second ? first + " is"
                                             : first + " and " + second + " are";
    if (concerns(section)) problem(section, missing + " missing: write " + example);
    return false;
  }

  std::shared_ptr<const TimeWindow> window() const {
    auto parsed = TimeWindow::parse(*get<Texts>("window.allow"), *get<std::string>("window.zone"));
    if (parsed) return std::make_shared<const TimeWindow>(*std::move(parsed));
    // Both parts were accepted alone; the system's database may have gone away since.
    problem("window", parsed.error().message);
    return nullptr;
  }

  BreakerRules breaker(const Silence& silence) const {
    BreakerRules out;
    set("breaker.open_after", out.open_after);
    set("breaker.of_last", out.of_last);
    set("breaker.only", out.only);
    set("breaker.wait", out.wait);
    set("breaker.probes", out.probes);
    set("breaker.probe_timeout", out.probe_timeout);
    set("breaker.close_after", out.close_after);
    if (out.open_after > out.of_last && concerns("breaker")) {
      const std::string of_last = std::to_string(out.of_last);
      problem("breaker", "open_after (" + std::to_string(out.open_after) + ") is more than of_last (" +
                             of_last + "), so it would never open: write open_after: " + of_last +
                             " or less, or a larger of_last");
    }
    // Once for all queues that have both from the defaults.
    if (load_.reports_warnings() && silence.means == Silence::Means::success &&
        (concerns("breaker") || queue_.has("success")))
      load_.problems.warn(at("breaker")->mark, path_ + ".gate.breaker: a delivery without an answer for " +
                                                   levels::format_duration(silence.after) +
                                                   " counts as a success: set success.reported_within if "
                                                   "consumers report their results");
    return out;
  }

  const Node& queue_;
  const Node* const defaults_;  // nullptr: the queue is the defaults
  const std::string& path_;     // "queues.orders"
  Load& load_;
};

// The list that the queue names; "": none, or one that is not there, which is reported.
std::string rules_at(const Node& queue, const std::string& path, Load& load) {
  const auto wanted = queue.get<std::string>("rules");
  Texts known;
  for (const Entry& list : load.root.entries_at("rules")) known.push_back(list.key.text);
  if (!wanted || std::ranges::find(known, *wanted) != known.end()) return wanted.value_or("");
  load.problems.add(queue.mark_at("rules"),
                    path + ".rules: there is no such list under rules" + did_you_mean(*wanted, known));
  return {};
}

// `otherwise`: of the keys that it leaves out. `defaults`: nullptr while the defaults themselves are built.
QueueRules rules_of(const Node& queue, const std::string& path, const QueueRules& otherwise,
                    const Node* defaults, const Ladders& ladders, Load& load) {
  QueueRules rules = otherwise;
  if (auto ladder = ladder_at(queue, "ladder", path + ".ladder", ladders, load); !ladder.empty())
    rules.ladder = std::move(ladder);
  if (auto list = rules_at(queue, path, load); !list.empty()) rules.rules = std::move(list);
  rules.silence = silence_of(queue, path, load.problems).value_or(otherwise.silence);
  if (const auto parked = queue.get<std::string>("parked")) rules.publish_parked = parked == "publish";
  rules.catch_up = queue.get<int>("catch_up").value_or(otherwise.catch_up);
  if (const auto word = queue.get<std::string>("attachment")) rules.needs_attachment = word == "required";
  if (const auto late_by = queue.get<Ms>("late_by")) rules.late_by = late_by;
  rules.give_up.attempts = queue.get<int>("give_up.attempts").value_or(otherwise.give_up.attempts);
  if (const auto after = queue.get<Ms>("give_up.after")) rules.give_up.after = after;
  rules.gate = GateBuilder(queue, defaults, path, load).build(rules.silence);
  return rules;
}

TagRules tag_of(const Node& tag, const std::string& path, const Ladders& ladders, Load& load) {
  if (tag.has("queue") && (tag.has("exchange") || tag.has("routing_key")))
    load.problems.add(tag.mark_at("queue"), path + ": queue cannot be combined with exchange or routing_key");
  if (tag.has("routing_key") && !tag.has("exchange") && !tag.has("queue"))
    load.problems.add(tag.mark_at("routing_key"),
                      path + ".routing_key: requires exchange; for a queue use queue");
  // A due message would return to Rung at once, as another row each time.
  for (const std::string key : {"queue", "exchange"}) refuse_own(tag, key, path + "." + key, load);
  return {{tag.text_at("queue"), tag.text_at("exchange"), tag.text_at("routing_key")},
          ladder_at(tag, "ladder", path + ".ladder", ladders, load),
          silence_of(tag, path, load.problems)};
}

TargetRules targets_of(Load& load) {
  const Node& root = load.root;
  TargetRules targets;
  if (!load.config.broker.prefix.empty()) targets.own = load.config.broker.prefix + ".";
  targets.groups = load.config.groups;
  targets.allow = root.get<Texts>("broker.targets.allow");
  targets.deny = root.texts_at("broker.targets.deny");
  const auto add = [&](const Node& node, std::string_view key) {
    if (auto name = node.get<std::string>(key)) targets.configured.insert(*std::move(name));
  };
  for (const auto& [key, queue] : root.entries_at("queues")) {
    const QueuePattern pattern(key.text);
    if (pattern.only_name()) {
      targets.configured.insert(*pattern.only_name());
      continue;
    }
    targets.configured_patterns.push_back(pattern);
    // broker.targets.allow restricts which queues headers may name, and every queue of this config is one.
    if (load.reports_warnings() && targets.allow && pattern.head().empty())
      load.problems.warn(queue.mark, "queues." + key.text +
                                         ": headers may name every queue that matches, whatever "
                                         "broker.targets.allow says: begin the pattern with a part of the "
                                         "name, or use defaults:");
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

}  // namespace

const Ladders& ready_ladders() {
  static const Ladders all = [] {
    Ladders ladders;
    for (const auto& [name, yaml] : levels::ready_ladders()) {
      // Parsed as if it were under `ladders:` in a config. A test proves that all of them are valid.
      Problems problems{"levels/" + std::string(name) + ".yaml"};
      const auto within = [](std::string_view key_text, Node value) {
        Node key, map;
        key.kind = Node::Kind::text;
        key.text = key_text;
        map.kind = Node::Kind::map;
        map.entries.push_back({std::move(key), std::move(value)});
        return map;
      };
      auto ladder = parse_document(yaml, problems);
      if (!ladder) continue;
      Load load{problems};
      load.root = within("ladders", within(name, *std::move(ladder)));
      walk(load);
      for (const Entry& entry : load.root.entries_at("ladders")) {
        if (auto built = ladder_of(entry.value, "", problems)) ladders.emplace(name, *std::move(built));
      }
    }
    return ladders;
  }();
  return all;
}

std::string ladder_at(const Node& node, std::string_view key, const std::string& path, const Ladders& ladders,
                      Load& load) {
  const auto wanted = node.get<std::string>(key);
  if (!wanted || ladders.contains(*wanted)) return wanted.value_or("");
  Texts known;
  std::string list;
  for (const auto& [name, ladder] : ladders) {
    known.push_back(name);
    list += (list.empty() ? "" : ", ") + name;
  }
  for (const Entry& ladder : load.root.entries_at("ladders")) {
    if (ladder.key.text == *wanted) return {};  // it is invalid, which is reported
    known.push_back(ladder.key.text);
  }
  load.problems.add(
      node.mark_at(key),
      path + ": unknown ladder" +
          (node.find(key)->substituted
               ? ": it is neither under ladders nor predefined"
               : " " + in_quotes(*wanted) + did_you_mean(*wanted, known, ": available ladders: " + list)));
  return {};
}

RuleBookPtr build_rules(Load& load) {
  Problems& problems = load.problems;
  Ladders ladders;
  for (const auto& [key, node] : load.root.entries_at("ladders")) {
    if (auto ladder = ladder_of(node, "ladders." + key.text, problems))
      ladders.insert_or_assign(key.text, *std::move(ladder));
  }
  // Predefined ladders are used if the file has none of that name: for its queues, and for the header
  // retry-ladder.
  ladders.insert(ready_ladders().begin(), ready_ladders().end());

  // Keys that a queue leaves out come from the defaults, then from the top level, then from the key table.
  QueueRules base;
  base.publish_parked = load.root.get<std::string>("parked") == "publish";
  base.catch_up = load.root.get<int>("catch_up").value_or(base.catch_up);
  const Node* const defaults = defaults_of(load);
  if (defaults != nullptr)
    base = rules_of(*defaults, defaults == load.root.find("defaults") ? "defaults" : "queues.default", base,
                    nullptr, ladders, load);
  RuleBook::Queues queues;
  RuleBook::Patterns patterns;
  for (const auto& [key, queue] : load.root.entries_at("queues")) {
    if (&queue == defaults) continue;
    QueuePattern pattern(key.text);
    const std::string path = "queues." + key.text;
    QueueRules rules = rules_of(queue, path, base, defaults, ladders, load);
    if (!pattern.only_name()) {
      patterns.push_back({std::move(pattern), std::move(rules)});
    } else if (!queues.emplace(*pattern.only_name(), std::move(rules)).second) {
      problems.add(queue.mark, path + ": the queue " + in_quotes(*pattern.only_name()) +
                                   " has another entry: [c] stands for the character c");
    }
  }
  if (patterns.size() > kMostPatterns)
    problems.add({}, "queues: more than " + std::to_string(kMostPatterns) + " patterns");
  RuleBook::Tags tags;
  for (const auto& [key, tag] : load.root.entries_at("tags"))
    tags.emplace(key.text, tag_of(tag, "tags." + key.text, ladders, load));
  TargetRules targets = targets_of(load);
  RuleBook::RuleLists lists = build_rule_lists(ladders, load);
  ErrorQueuesPtr errors = build_error_queues(ladders, load);
  if (!problems.empty()) return nullptr;
  auto book = std::make_shared<const RuleBook>(std::move(ladders), std::move(queues), std::move(tags),
                                               std::move(base), std::move(targets), std::move(lists),
                                               std::move(errors), std::move(patterns));
  check_snooze_loops(*book, load);
  if (!problems.empty()) return nullptr;
  return book;
}

}  // namespace rung::confile
