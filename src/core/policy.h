// What a queue's owner decided: ladders, what silence means, what becomes of a spent ladder.
// Thread: a RuleBook is immutable after construction and shared by pointer; a reload makes a new one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "levels/ladder.h"
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
  // REQUIRES: ladders has "default"; each ladder that a queue or a tag names is in it. `queues` may hold
  // "default", which serves every queue that is not named.
  RuleBook(Ladders ladders, Queues queues, Tags tags = {});

  const QueueRules& queue(std::string_view name) const;
  // nullptr where there is none of that name.
  const TagRules* tag(std::string_view name) const;
  // nullptr where there is none of that name.
  const levels::Ladder* ladder(std::string_view name) const;
  const Ladders& ladders() const { return ladders_; }
  const Queues& queues() const { return queues_; }
  const Tags& tags() const { return tags_; }

 private:
  Ladders ladders_;
  Queues queues_;
  Tags tags_;
  QueueRules fallback_;
};
using RuleBookPtr = std::shared_ptr<const RuleBook>;

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
