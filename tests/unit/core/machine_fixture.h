// The fixture of the state machine's tests: a rule book with round numbers, tasks in every state, a clock.
// Thread: one test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "src/core/machine/machine.h"

namespace rung::testing {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

inline constexpr EpochMs kNow{1'800'000'000'000};
inline constexpr int kUs = 3;  // the instance that calls decide()
inline constexpr int kOther = 4;
inline constexpr std::uint64_t kEpoch = 7;  // of our lease

inline levels::Ladder ladder(std::vector<Ms> delays, double jitter = 0.0) {
  return levels::Ladder::from_list(std::move(delays), jitter).value();
}

// orders: silence is success. invoices: silence is failure. billed: parked tasks are copied. shaky: jitter.
// All others: queues.default if it exists, else the ladder `default`.
inline RuleBook rules() {
  using Means = Silence::Means;
  return RuleBook({{"default", ladder({seconds(5), seconds(30), minutes(1)})},
                   {"slow", ladder({minutes(10), hours(1)})},
                   {"shaky", ladder({seconds(10), seconds(20)}, 0.5)}},
                  {{"orders", {"default", {Means::success, minutes(10)}, false}},
                   {"invoices", {"default", {Means::failure, minutes(5)}, false}},
                   {"billed", {"default", {Means::success, minutes(10)}, true}},
                   {"shaky", {"shaky", {Means::success, minutes(10)}, false}}});
}

// The same, with another ladder `default`, as after a reload.
inline RuleBook rules_with_default(const levels::Ladder& changed) {
  const RuleBook before = rules();
  auto ladders = before.ladders();
  ladders.insert_or_assign("default", changed);
  return RuleBook(std::move(ladders), before.queues());
}

inline Circumstances at(EpochMs now = kNow, std::uint64_t epoch = kEpoch) {
  Circumstances c;
  c.now = now;
  c.node = kUs;
  c.epoch = epoch;
  return c;
}

// In the middle of a climb: the second attempt, at the second of three levels.
inline Task task_in(State state, EpochMs next_at = kNow + seconds(20)) {
  Task t;
  t.id = {4711};
  t.shard = 11;
  t.state = state;
  t.attempt = 2;
  t.level = 2;
  t.levels = 3;
  t.ladder = "default";
  t.queue = "orders";
  t.epoch = kEpoch;
  t.node = kUs;
  t.first_failed_at = kNow - hours(1);
  t.created_at = kNow - hours(1);
  t.last_error = "the error before";
  if (is_finished(state)) {
    t.finished_at = kNow - minutes(1);
  } else {
    t.next_at = next_at;
  }
  if (state == State::succeeded) t.finished_by = FinishedBy::reported;
  return t;
}

inline Task presumed_task() {
  Task t = task_in(State::succeeded);
  t.finished_by = FinishedBy::presumed;
  return t;
}

inline event::Failed failed(int attempt, Directives d = {}, std::string error = "timeout") {
  return {attempt, std::move(error), "Timeout", std::move(d)};
}

// Invariants of every task. `held`: its silence is held open, so that only an answer or a person moves it.
inline void expect_sound(const Task& t, const std::string& where = {}, bool held = false) {
  EXPECT_EQ(is_finished(t.state), t.finished_at.has_value()) << where;
  const bool moves =
      t.state == State::scheduled || t.state == State::publishing || t.state == State::awaiting;
  if (held) {
    EXPECT_TRUE(is_silence_held(t)) << where;
  } else if (moves) {
    EXPECT_TRUE(t.next_at.has_value()) << where << ": nobody would move it";
  } else if (t.state != State::parked) {
    EXPECT_FALSE(t.next_at.has_value()) << where << ": somebody would move it";
  }
  EXPECT_EQ(t.state == State::succeeded, t.finished_by != FinishedBy::nobody) << where;
  EXPECT_GE(t.attempt, t.state == State::publishing || t.state == State::awaiting ? 1 : 0) << where;
  EXPECT_GE(t.level, t.kind == Kind::delay ? 0 : 1) << where;
  EXPECT_EQ(t.level == 0 && t.first_failed_at.ms != 0 && t.state == State::scheduled, false)
      << where << ": it failed and did not climb";
  EXPECT_LE(t.last_error.size(), kErrorBytes) << where;
}

// The store's upsert, exactly as machine.h defines it.
class History {
 public:
  void write(const Decision& d) {
    if (d.verdict != Decision::Verdict::applied || !d.attempt) return;
    if (d.drop_attempt) {
      rows_.erase(d.attempt->attempt);
      return;
    }
    const auto [it, is_new] = rows_.try_emplace(d.attempt->attempt, *d.attempt);
    if (is_new) return;
    Attempt& row = it->second;
    if (d.attempt->published_at) row.published_at = d.attempt->published_at;
    if (d.attempt->outcome != Outcome::pending) row.outcome = d.attempt->outcome;
    if (d.attempt->outcome_at) row.outcome_at = d.attempt->outcome_at;
    if (!d.attempt->error.empty()) row.error = d.attempt->error;
    if (d.attempt->node != 0) row.node = d.attempt->node;
    if (!d.attempt->executor.empty()) row.executor = d.attempt->executor;
  }
  bool has(int attempt) const { return rows_.count(attempt) == 1; }
  const Attempt& row(int attempt) const { return rows_.at(attempt); }
  const std::map<int, Attempt>& rows() const { return rows_; }

 private:
  std::map<int, Attempt> rows_;
};

// A task whose first failure has just come.
inline Task begun(const Directives& d = {}, const std::string& queue = "orders", double random = 0.0) {
  Task t;
  t.id = {4711};
  t.queue = queue;
  t.first_failed_at = t.created_at = kNow;
  t.last_error = "boom";
  begin(t, d, rules(), kNow, random);
  return t;
}

// Applies, writes history, says what became of it.
struct Life {
  Task task;
  History history;
  RuleBook book = rules();

  Decision happens(const Happening& what, EpochMs now, std::uint64_t epoch = kEpoch) {
    Decision d = decide(task, what, book, at(now, epoch));
    history.write(d);
    task = d.task;
    expect_sound(task);
    return d;
  }
};

}  // namespace rung::testing
