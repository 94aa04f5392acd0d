// Anything may happen to a task at any time. Random walks, under rule books that reloads exchange.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/support/seed.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

class Walk {
 public:
  explicit Walk(unsigned seed) : dice_(seed) {
    for (const auto& l : {ladder({seconds(5), seconds(30), minutes(1)}), ladder({seconds(1)}),
                          ladder({Ms(10), Ms(10), Ms(10), Ms(10), Ms(10), Ms(10), Ms(10)}, 1.0)}) {
      books_.push_back(rules_with_default(l));
    }
  }

  void begin_task() {
    task_ = Task{};
    history_ = History{};
    held_ = false;
    task_.id = {1 + pick(1'000'000)};
    task_.queue = std::vector<std::string>{"orders", "invoices", "billed", "shaky", "unknown"}[index(5)];
    task_.created_at = now_;
    if (pick(3) == 0) {
      if (pick(2) == 0) {  // by an exchange
        task_.queue.clear();
        task_.exchange = "shop";
        task_.routing_key = "created";
      }
      if (pick(4) == 0) task_.silence = Silence{Silence::Means::failure, Ms{pick(5000)}};
      begin_delay(task_, directives(), book(), now_, now_ + Ms{pick(100'000) - 10'000});
    } else {
      task_.first_failed_at = now_;
      begin(task_, directives(), book(), now_, random());
    }
    expect_sound(task_, "at the start");
  }

  void step() {
    if (pick(10) == 0) book_ = index(books_.size());
    pass_time();
    const Happening what = happening();
    Circumstances c = at(now_, pick(8) == 0 ? 0 : epoch_ + static_cast<std::uint64_t>(pick(3)));
    c.node = pick(4) == 0 ? kOther : kUs;
    c.random = random();
    if (pick(3) == 0) c.home_shard = pick(kShards);
    const Task before = task_;
    const Decision d = decide(task_, what, book(), c);
    task_ = d.task;
    const auto* silence = std::get_if<event::SilenceOver>(&what);
    if (silence != nullptr && d.verdict == Verdict::applied) held_ = !silence->held.empty();
    held_ = held_ && task_.state == State::awaiting;
    expect_sound(task_, "", held_);
    check(before, what, d);
    check_history(d);
    epoch_ = std::max(epoch_, task_.epoch);
  }

  const Task& task() const { return task_; }

 private:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(dice_); }
  std::size_t index(std::size_t below) { return static_cast<std::size_t>(pick(static_cast<int>(below))); }
  double random() { return std::uniform_real_distribution<double>(0.0, 1.0)(dice_); }
  const RuleBook& book() const { return books_[book_]; }

  void pass_time() {
    const bool to_the_point = task_.next_at && pick(2) == 0;
    if (to_the_point) {
      now_ = std::max(now_, *task_.next_at);
    } else {
      now_ = now_ + Ms(pick(20'000));
    }
  }

  Directives directives() {
    Directives d;
    if (pick(6) == 0) d.retry_after = Ms(pick(200'000));
    if (pick(6) == 0) d.ladder = std::vector<std::string>{"slow", "default", "shaky", "nosuch"}[index(4)];
    if (pick(12) == 0) d.max_attempts = 1 + pick(6);
    if (pick(12) == 0) d.never = true;
    if (pick(12) == 0) d.complaint = "not understood";
    return d;
  }

  int some_attempt() {
    const int near = task_.attempt - 2 + pick(4);
    return pick(2) == 0 ? task_.attempt : near;
  }

  Happening happening() {
    switch (pick(14)) {
      case 0:
      case 1:
      case 2:
        return event::Claim{};
      case 3:
      case 4:
        return event::Confirmed{some_attempt(), now_ - Ms(pick(3))};
      case 5:
        return event::Returned{some_attempt(), now_, "no queue"};
      case 6:
        return event::Deferred{some_attempt(), Ms(pick(5000)), "full"};
      case 7:
      case 8:
        return failed(some_attempt(), directives(), std::string(static_cast<std::size_t>(pick(20'000)), 'e'));
      case 9:
        return event::Succeeded{some_attempt()};
      case 10:
        return event::SilenceOver{pick(3) == 0 ? "its queue was detached" : ""};
      case 11:
        return event::ParkedCopySent{};
      case 12:
        return by_hand();
      default:
        return event::Finish{pick(2) == 0, ""};
    }
  }

  Happening by_hand() {
    switch (pick(6)) {
      case 0:
        return event::Cancel{};
      case 1:
        return event::Reschedule{std::nullopt, Ms{pick(100'000)}};
      case 2:
        return event::Reschedule{now_ + Ms{pick(100'000) - 50'000}, Ms{0}};
      case 3:
        return event::Fire{};
      case 4:
        return event::Redrive{pick(2) == 0 ? Target{"elsewhere", "", ""} : Target{"", "shop", "elsewhere"}};
      default:
        return event::Redrive{};
    }
  }

  void check(const Task& before, const Happening& what, const Decision& d) {
    if (d.verdict != Verdict::applied) {
      EXPECT_EQ(d.task, before);
      EXPECT_FALSE(d.attempt);
      EXPECT_FALSE(d.reason.empty());
      return;
    }
    const bool deferred = std::holds_alternative<event::Deferred>(what);
    const bool claimed = std::holds_alternative<event::Claim>(what);
    EXPECT_EQ(d.drop_attempt, deferred);
    EXPECT_EQ(task_.attempt,
              before.attempt + (claimed && before.state == State::scheduled ? 1 : 0) - (deferred ? 1 : 0));
    if (before.state == State::cancelled || before.state == State::discarded) {
      EXPECT_EQ(task_, before) << "the end is the end";
    }
    if (before.state == State::succeeded && before.finished_by == FinishedBy::reported) {
      EXPECT_EQ(task_, before);
    }
    if (claimed && before.state == State::scheduled) {
      EXPECT_LE(before.next_at->ms, now_.ms) << "early";
    }
    const bool parks = before.state != State::parked && task_.state == State::parked;
    if (parks) {
      EXPECT_EQ(task_.next_at.has_value(), book().queue(task_.queue).publish_parked);
    }
    // Climbing sets the level by the ladder of the day; nothing else but a redrive moves it.
    if (task_.level != before.level) {
      const bool redriven = std::holds_alternative<event::Redrive>(what);
      EXPECT_TRUE(task_.level == before.level + 1 || (task_.level == 1 && redriven));
      EXPECT_LE(task_.level, task_.levels);
      EXPECT_EQ(task_.levels, book().ladder(task_.ladder)->levels());
    }
    EXPECT_NE(book().ladder(task_.ladder), nullptr);
  }

  void check_history(const Decision& d) {
    const History before = history_;
    history_.write(d);
    for (const auto& [attempt, row] : history_.rows()) {
      EXPECT_LE(attempt, task_.attempt) << "an attempt that never was";
      EXPECT_EQ(row.outcome == Outcome::pending, !row.outcome_at);
      if (before.has(attempt)) {
        EXPECT_EQ(row.due_at, before.row(attempt).due_at);
      } else {
        EXPECT_EQ(d.task.state, State::publishing) << "only a claim begins a row";
        EXPECT_EQ(row.due_at, *d.task.next_at);
        EXPECT_EQ(row.level, d.task.level);
      }
    }
    EXPECT_EQ(history_.rows().size(), static_cast<std::size_t>(task_.attempt)) << "a row an attempt";
    const bool under_way = task_.state == State::publishing || task_.state == State::awaiting;
    if (under_way) {
      EXPECT_EQ(history_.row(task_.attempt).outcome, Outcome::pending);
    }
  }

  std::mt19937 dice_;
  std::vector<RuleBook> books_;
  std::size_t book_ = 0;
  bool held_ = false;  // its silence is held open
  Task task_;
  History history_;
  EpochMs now_ = kNow;
  std::uint64_t epoch_ = 1;
};

TEST(MachineWalk, WhateverHappensTheTaskStaysSound) {
  Walk walk(test::seed());
  for (int life = 0; life < 400; ++life) {
    walk.begin_task();
    for (int i = 0; i < 100; ++i) {
      walk.step();
      ASSERT_FALSE(::testing::Test::HasFailure())
          << "life " << life << ", step " << i << ", now " << to_word(walk.task().state);
    }
  }
}

// Whatever state a task is in, somebody can bring it to an end.
TEST(MachineWalk, EveryLifeCanBeEnded) {
  Walk walk(test::seed());
  for (int life = 0; life < 200; ++life) {
    walk.begin_task();
    for (int i = 0; i < life % 30; ++i) walk.step();
    const Decision d = decide(walk.task(), event::Finish{true, ""}, rules(), at());
    EXPECT_TRUE(is_finished(d.task.state)) << to_word(walk.task().state);
  }
}

}  // namespace
}  // namespace rung
