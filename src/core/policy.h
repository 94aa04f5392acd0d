// What a queue's owner decided: ladders, what silence means, what becomes of a spent ladder.
// Thread: a RuleBook is immutable after construction and shared by pointer; a reload makes a new one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "levels/ladder.h"
#include "src/core/target_rules.h"
#include "src/core/task.h"
#include "src/core/time.h"

namespace rung {

struct QueueRules {
  std::string ladder = "default";
  Silence silence;
  bool publish_parked = false;  // a copy of what is parked goes to the exchange <prefix>.parked
  int catch_up = 1000;          // what is overdue goes out at most at this rate: tasks a second
  bool operator==(const QueueRules&) const = default;
};

// Where a task with this tag goes, and how it climbs, where whoever submits it doesn't say: tags.* of the
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
  using Tags = std::map<std::string, TagRules, std::less<>>;
  // REQUIRES: ladders has "default"; each ladder that `queues`, `tags` or `defaults` name is in it.
  // `defaults`: the rules of every queue that is not in `queues`.
  RuleBook(Ladders ladders, Queues queues, Tags tags = {}, QueueRules defaults = {},
           TargetRules targets = {});

  const QueueRules& queue(std::string_view name) const;
  // nullptr where there is none of that name.
  const TagRules* tag(std::string_view name) const;
  // nullptr where there is none of that name.
  const levels::Ladder* ladder(std::string_view name) const;
  const Ladders& ladders() const { return ladders_; }
  const Queues& queues() const { return queues_; }
  const Tags& tags() const { return tags_; }
  const QueueRules& defaults() const { return defaults_; }
  const TargetRules& targets() const { return targets_; }
  // The same with these attached queues, which only the broker can tell.
  std::shared_ptr<const RuleBook> with_attached(TargetRules::Names queues) const;

 private:
  Ladders ladders_;
  Queues queues_;
  Tags tags_;
  QueueRules defaults_;
  TargetRules targets_;
};
using RuleBookPtr = std::shared_ptr<const RuleBook>;

// Why nothing is sent to `target`, whoever asks: it is one of Rung's own queues or exchanges. "" where it is
// not.
std::string own_target(const Target& target, const TargetRules& rules);

// Why nobody may name `target` for a new task, or for one that is sent elsewhere: it is Rung's own, or a
// queue of another group. Its dead letters would go to that group, which does not know the task. "" where it
// may. What is on its way already goes on when its queue moves to another group: own_target() alone judges
// that.
std::string refused_target(const Target& target, const TargetRules& rules);

// What a consumer may say with a failure, by header (headers.h reads it).
struct Directives {
  std::optional<Ms> retry_after;  // instead of the level's delay; capped by the ladder's highest
  std::string ladder;             // retry-ladder; "" = the queue's
  int max_attempts = 0;           // retry-max-attempts; 0 = not said
  bool never = false;             // retry-never: park at once
  // What was said but could not be understood, for the row and the log; the rest still holds.
  std::string complaint;
};

}  // namespace rung
