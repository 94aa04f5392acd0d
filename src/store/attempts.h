// Collects what one apply() writes to attempts: several events may concern the same attempt.
// Thread: values.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/core/task/task.h"

namespace rung {

// Merges `said` into `row` as machine.h defines it: unset fields (nullopt, pending, "") leave the value
// unchanged; level and due_at are written once, when the attempt begins.
inline void merge_attempt(Attempt& row, const Attempt& said) {
  if (said.published_at) row.published_at = said.published_at;
  if (said.outcome != Outcome::pending) row.outcome = said.outcome;
  if (said.outcome_at) row.outcome_at = said.outcome_at;
  if (!said.error.empty()) row.error = said.error;
  if (said.node != 0) row.node = said.node;
  if (!said.executor.empty()) row.executor = said.executor;
  if (!said.rule.empty()) row.rule = said.rule;
  if (said.epoch != 0) row.epoch = said.epoch;
}

class AttemptChanges {
 public:
  using Key = std::pair<TaskId, int>;

  void add(const Attempt& said, bool drop) {
    Change& change = changes_[{said.task, said.attempt}];
    if (drop) {
      change.drop = true;
      change.empty = true;
      return;
    }
    if (change.empty) {
      change.row = said;
    } else {
      merge_attempt(change.row, said);
    }
    change.empty = false;
  }

  // Rows to delete before kept() is written.
  std::vector<Key> dropped() const {
    std::vector<Key> keys;
    for (const auto& [key, change] : changes_) {
      if (change.drop) keys.push_back(key);
    }
    return keys;
  }
  // Rows to upsert, by task and attempt.
  std::vector<Attempt> kept() const {
    std::vector<Attempt> rows;
    for (const auto& [key, change] : changes_) {
      if (!change.empty) rows.push_back(change.row);
    }
    return rows;
  }

 private:
  struct Change {
    Attempt row;
    bool drop = false;
    bool empty = true;  // nothing to upsert
  };
  std::map<Key, Change> changes_;
};

}  // namespace rung
