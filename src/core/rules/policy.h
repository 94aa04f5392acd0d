// The rules that a queue's owner sets: ladders, the meaning of silence, what happens when a ladder is
// exhausted.
// Thread: a RuleBook is immutable after construction and shared by pointer; a reload makes a new one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "levels/ladder.h"
#include "src/core/base/queue_pattern.h"
#include "src/core/base/time.h"
#include "src/core/rules/dialect.h"
#include "src/core/rules/failure_rules.h"
#include "src/core/rules/time_window.h"
#include "src/core/task/task.h"

namespace rung {

// Rung groups: several groups share one broker, each with its own prefix and database (groups: of the
// config). A queue belongs to at most one.

struct QueueGroups {
  struct Group {
    std::string name;
    std::string prefix;               // of its exchanges and queues: "rung-eu"
    std::vector<std::string> queues;  // names; * matches any run of characters
    bool operator==(const Group&) const = default;
  };
  std::vector<Group> all;  // in the order of the config; empty: the config has no groups
  std::string own;         // the name of this process's group; "" = none is chosen

  bool empty() const { return all.empty(); }
  const Group* find(std::string_view name) const;
  // The queue's group: the one that lists its exact name, else the first with a matching pattern; nullptr:
  // none.
  const Group* of_queue(std::string_view queue) const;
  // The queue's group if it is not our own; nullptr if it is, or if there is none.
  const Group* elsewhere(std::string_view queue) const;
  // "rung-eu." if the name begins with it, for any group's prefix; "" if it begins with none.
  std::string own_prefix(std::string_view name) const;
  // "eu, us": for messages.
  std::string names() const;
};

// Which queues and exchanges a message's headers may name as its target: broker.targets of the config. A
// client that may publish to <prefix>.failed or <prefix>.delay must not thereby reach every queue that Rung
// can write to.
struct TargetRules {
  using Names = std::set<std::string, std::less<>>;
  using Patterns = std::vector<std::string>;

  std::string own;                // "<prefix>.": Rung's own queues and exchanges begin with it; "" = none
  std::optional<Patterns> allow;  // none: allow every name that is not denied
  Patterns deny;                  // overrides `allow` and `configured`
  Names configured;               // queues and exchanges that the config names: allowed
  std::vector<QueuePattern> configured_patterns;  // keys under queues: that are patterns: allowed
  Names attached;  // queues that dead-letter to us, as last reported by the broker: allowed

  QueueGroups groups;  // their names are Rung's own, too

  // Rung takes the messages of these queues in. nullptr: of none.
  std::shared_ptr<const ErrorQueues> error_queues;

  // "rung." if the name is one of Rung's own, else "". Nothing may be sent there.
  std::string own_prefix(std::string_view name) const {
    return !own.empty() && name.starts_with(own) ? own : groups.own_prefix(name);
  }
  bool is_own(std::string_view name) const { return !own_prefix(name).empty(); }
  // Whether a header may name it. Names that begin with amq. are the broker's: only the config, or a pattern
  // in `allow` that begins with amq. itself, permits one.
  bool allows(std::string_view name) const;
};

// "the header retry-queue names 'x', which broker.targets does not allow". `named_by`: what names it.
std::string not_allowed(std::string_view named_by, std::string_view name);

// --- when tasks of a queue may go out: `gate` of a queue in the config, as docs/policies.md describes it

// Publishes a second for each value of a header (indexed_value()), over all instances together. Messages
// without a value share one rate.
struct RateBy {
  std::string header;
  double per_second = 0;
  bool operator==(const RateBy&) const = default;
};

// The breaker opens when `open_after` of the last `of_last` outcomes failed. It then waits, and lets `probes`
// messages at a time through; after `close_after` successful ones in a row it closes. After a failed one it
// waits again.
struct BreakerRules {
  int open_after = 20;  // REQUIRES: <= of_last
  int of_last = 100;
  std::vector<std::string> only;  // patterns of the error types that count as failures; empty = all failures
  // For how long it stays open when it opens for the first, second ... time in a row; the last one repeats.
  // REQUIRES: not empty.
  std::vector<Ms> wait{std::chrono::seconds{30}, std::chrono::minutes{2}, std::chrono::minutes{10}};
  int probes = 1;
  Ms probe_timeout{std::chrono::minutes{1}};
  int close_after = 3;
  bool operator==(const BreakerRules&) const = default;
};

// What a consumer's retry-after means.
struct RetryAfterRules {
  std::optional<Ms> cap;      // the longest that is accepted; none = the ladder's highest delay
  bool pauses_queue = false;  // it holds back the whole queue, not only the message
  Ms longest_hold{std::chrono::minutes{10}};  // the longest that it does; the message may wait longer
  bool operator==(const RetryAfterRules&) const = default;
};

struct GateRules {
  double rate = 0;  // publishes a second to this queue, over all instances together; 0 = no limit
  std::optional<RateBy> rate_by = {};
  std::shared_ptr<const TimeWindow> window = {};  // nullptr = always open
  std::optional<BreakerRules> breaker = {};
  RetryAfterRules retry_after = {};

  // Publishing needs a token (TokenBucket).
  bool limits() const { return rate > 0 || rate_by; }
  bool operator==(const GateRules& other) const;
};

// "200/s", "30/m" or "1/h".
std::string format_rate(double per_second);
// Its rates: "rate 200/s, rate 5/s for each tenant".
std::string describe_limits(const GateRules& gate);

// --- the rules of a queue

// When a task is parked although its ladder has more levels. Whichever comes first.
struct GiveUp {
  int attempts = 0;  // counted retries; 0 = no limit
  // Since the first failure, without the time behind a gate. A retry that would be due later is not made.
  std::optional<Ms> after = {};
  bool operator==(const GiveUp&) const = default;
};

struct QueueRules {
  std::string ladder = "default";
  Silence silence;
  bool publish_parked = false;  // publish a copy of each parked task to the exchange <prefix>.parked
  int catch_up = 1000;          // maximum rate for overdue tasks: tasks a second
  std::string rules = {};       // one of RuleBook::rule_lists(); "" = none
  GiveUp give_up = {};
  GateRules gate = {};
  // Silence is a success only while the queue is attached, if it ever was. False: its consumer publishes its
  // failures itself.
  bool needs_attachment = true;
  // The promise of lateness: a delivery is confirmed within this after its due time. None: nothing is
  // promised.
  std::optional<Ms> late_by = {};
  bool operator==(const QueueRules&) const = default;
};

// Defaults for tasks with this tag: target, ladder and silence if the submitter gives none: tags.* of the
// config.
struct TagRules {
  Target target;       // is_set() or not
  std::string ladder;  // "" = its queue's
  std::optional<Silence> silence;
  bool operator==(const TagRules&) const = default;
};

class RuleBook {
 public:
  using Ladders = std::map<std::string, levels::Ladder, std::less<>>;
  using Queues = std::map<std::string, QueueRules, std::less<>>;
  // An entry of `queues:` that names queues by a pattern.
  struct PatternRules {
    QueuePattern pattern;
    QueueRules rules;
  };
  using Patterns = std::vector<PatternRules>;
  using Tags = std::map<std::string, TagRules, std::less<>>;
  using RuleLists = std::map<std::string, FailureRulesPtr, std::less<>>;
  // REQUIRES: ladders has "default"; it has every ladder that the others name, and `rules` every list that
  // the queues or `defaults` name. `defaults`: the rules of every queue that is in neither `queues` nor
  // `patterns`. Among `patterns` the longest that matches decides; of equal length, the first.
  RuleBook(Ladders ladders, Queues queues, Tags tags = {}, QueueRules defaults = {}, TargetRules targets = {},
           RuleLists rules = {}, ErrorQueuesPtr error_queues = std::make_shared<const ErrorQueues>(),
           Patterns patterns = {});

  const QueueRules& queue(std::string_view name) const;
  // The pattern whose rules are the queue's; nullptr: it has an entry of its own, or the defaults.
  const PatternRules* pattern_of(std::string_view name) const;
  // Whether its dead letters should come to us because it matches a pattern: it is no queue of Rung or of
  // another group, and no error queue.
  bool watches(std::string_view name) const;
  // nullptr if there is none of that name.
  const TagRules* tag(std::string_view name) const;
  // nullptr if there is none of that name.
  const levels::Ladder* ladder(std::string_view name) const;
  const Ladders& ladders() const { return ladders_; }
  const Queues& queues() const { return queues_; }        // without patterns
  const Patterns& patterns() const { return patterns_; }  // in the order in which they are tried
  const Tags& tags() const { return tags_; }
  const QueueRules& defaults() const { return defaults_; }
  const TargetRules& targets() const { return targets_; }
  // The rules for failures in this queue; nullptr if it has none.
  const FailureRules* failure_rules(std::string_view queue) const;
  const RuleLists& rule_lists() const { return rules_; }
  // The headers that rules and gates (rate_by) name. A new task keeps their values (Task::rule_headers).
  const std::vector<std::string>& rule_headers() const { return rule_headers_; }
  // A queue has any gate; a rate or another limit (GateRules::limits()).
  bool has_gates() const { return has_gates_; }
  bool limits() const { return limits_; }
  const ErrorQueues& error_queues() const { return *targets_.error_queues; }
  const ErrorQueuesPtr& error_queues_ptr() const { return targets_.error_queues; }
  // The same rules with these error queues.
  std::shared_ptr<const RuleBook> with_error_queues(ErrorQueuesPtr error_queues) const;
  // Whether its error queue only takes messages in (ladder: none): each failure parks it.
  bool only_parks(const Task& task) const;
  // A copy with these attached queues, which only the broker knows.
  std::shared_ptr<const RuleBook> with_attached(TargetRules::Names queues) const;

 private:
  Ladders ladders_;
  Queues queues_;
  Tags tags_;
  QueueRules defaults_;
  TargetRules targets_;
  RuleLists rules_;
  Patterns patterns_;
  std::vector<std::string> rule_headers_;
  bool has_gates_ = false, limits_ = false;
};
using RuleBookPtr = std::shared_ptr<const RuleBook>;

// Why nothing may be sent to `target`: it is one of Rung's own queues or exchanges. "" if it may.
std::string own_target(const Target& target, const TargetRules& rules);

// Why nothing may be sent to `target`: it is an error queue, whose messages Rung would take in again and
// again. "" if it may.
std::string error_queue_target(const Target& target, const TargetRules& rules);

// Why `target` is refused for a new task or for one that is redirected: it is Rung's own, an error queue, or
// a queue of another group, whose dead letters would go to that group, which does not know the task. "" if it
// is allowed. Existing tasks continue when their queue moves to another group: only the functions above
// apply.
std::string refused_target(const Target& target, const TargetRules& rules);

// The values of those headers, for Task::rule_headers.
RuleHeaders rule_headers_of(const Message& message, const RuleBook& rules);

// Instructions that a consumer may attach to a failure, by header (headers.h reads them).
struct Directives {
  std::optional<Ms> retry_after;  // instead of the level's delay; capped by the queue's gate, or at the
                                  // ladder's highest delay
  std::string ladder;             // retry-ladder; "" = the queue's
  int max_attempts = 0;           // retry-max-attempts; 0 = not given
  bool never = false;             // retry-never: park at once
  // Instructions that could not be understood, for the row and the log; the rest still applies.
  std::string complaint;
};

}  // namespace rung
