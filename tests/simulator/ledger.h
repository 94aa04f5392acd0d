// What producers, consumers and people know: the judge's own record, independent of what the program reports
// about itself. Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/core/task/task.h"
#include "tests/simulator/events.h"

namespace rung::sim {

inline constexpr std::int64_t kNever = INT64_MAX;

// One message: what its producer knows.
struct Entry {
  bool has_id = false;      // it has a message-id: taken in twice, it makes one row
  bool accepted = false;    // the broker, or Rung, has accepted it
  std::int64_t due_us = 0;  // earliest time of its first delivery, by the database's clock
  std::vector<TaskId> tasks;
  int may_have = 1;  // so many tasks: one, and what became of edits and of its parked copies' failures
  // Of its parked copies: the tokens of those whose failure was acked; how often one has reopened its task.
  std::set<std::string> failed_copies;
  int reopened = 0;
};

// One task: what its consumers and the people who changed it know.
struct Facts {
  struct Write {
    std::string node;
    std::uint64_t connection = 0;
    Us at = 0;
  };
  struct Arrival {
    Us at = 0;
    int level = 0;
    std::string ladder;
  };
  struct Claim {
    Us at = 0;
    int attempt = 0, node = 0;
    std::uint64_t epoch = 0;
  };

  int message = 0;
  std::string body;                              // that it is delivered with
  State state = State::scheduled;                // as of the last commit
  std::map<int, std::vector<Write>> writes;      // by attempt
  std::map<int, std::vector<Arrival>> arrivals;  // by attempt
  // By attempt: the earliest time that it may be published, by the database's clock; no entry: it must not
  // exist.
  std::map<int, std::int64_t> may_be;
  std::map<int, bool> failed_word, dropped_word, succeeded_word, returned;  // by attempt
  // Its copies in rung.parked, by retry-token: since one has failed, when the task may come again.
  std::map<std::string, std::optional<std::int64_t>> copies;
  std::vector<Claim> claims;
  std::vector<std::int64_t> by_hand_us;  // the due times that people gave it
  bool failed_by_hand = false, succeeded_by_hand = false, given_up = false, replaced = false;
  std::optional<Us> cancelled_at;  // according to an answer, or a commit

  void cause(int attempt, std::int64_t due_us) {
    const auto [at, fresh] = may_be.try_emplace(attempt, due_us);
    if (!fresh && due_us < at->second) at->second = due_us;
  }
};

// A redrive that is to look at its own outcome: what was made due, in steps that were committed.
struct CarefulRedrive {
  std::int64_t canary = 0;
  bool ramp = false;
  std::vector<std::pair<TaskId, int>> sent;  // the canary: with the attempt that shows how it went
  std::vector<Us> others;                    // when each of them was made due
};

}  // namespace rung::sim
