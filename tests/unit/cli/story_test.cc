#include "src/cli/story.h"

#include <gmock/gmock.h>

#include "src/core/headers.h"
#include "src/core/message_json.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr EpochMs kNow{1'795'280'700'123};

RuleBook rules(Silence::Means silence) {
  QueueRules orders;
  orders.silence.means = silence;
  return {{{"default", *levels::Ladder::from_list({5s, 30s})}}, {{"orders", orders}}};
}

TaskRow row(State state) {
  TaskRow r;
  r.task.id = TaskId{42};
  r.task.state = state;
  r.task.queue = "orders";
  r.task.attempt = 1;
  r.task.level = 2;
  r.task.levels = 9;
  r.task.first_failed_at = kNow - 60s;
  r.task.created_at = kNow - 59s;
  return r;
}

TEST(WhatNext, Scheduled) {
  TaskRow r = row(State::scheduled);
  r.task.next_at = kNow + 9min;
  EXPECT_EQ(what_next(r, rules(Silence::Means::success), kNow),
            "scheduled: level 2 of 9, due 2026-11-21 17:14:00.123 UTC (in 9m)");
}

TEST(WhatNext, AwaitingSaysWhatSilenceMeans) {
  TaskRow r = row(State::awaiting);
  r.task.next_at = kNow + 5min;
  EXPECT_THAT(what_next(r, rules(Silence::Means::success), kNow), HasSubstr("(in 5m) means success"));
  EXPECT_THAT(what_next(r, rules(Silence::Means::failure), kNow),
              HasSubstr("means failure, and the next level"));
}

TEST(WhatNext, SucceededTellsPresumedFromReported) {
  TaskRow r = row(State::succeeded);
  r.task.finished_at = kNow;
  r.task.finished_by = FinishedBy::presumed;
  EXPECT_THAT(what_next(r, rules(Silence::Means::success), kNow),
              AllOf(HasSubstr("succeeded after 1 retry, presumed"), HasSubstr("1m after the first failure")));
  r.task.finished_by = FinishedBy::reported;
  EXPECT_THAT(what_next(r, rules(Silence::Means::success), kNow),
              HasSubstr("succeeded after 1 retry, reported"));
}

TEST(WhatNext, ParkedSaysHowToGoOn) {
  EXPECT_THAT(what_next(row(State::parked), rules(Silence::Means::success), kNow),
              HasSubstr("`rung retry 42`"));
  TaskRow lost = row(State::parked);
  lost.task.queue.clear();
  EXPECT_THAT(what_next(lost, rules(Silence::Means::success), kNow),
              HasSubstr("nothing says to which queue"));
}

TEST(DueCell, ByState) {
  Task task = row(State::scheduled).task;
  EXPECT_EQ(due_cell(task, kNow), "-");
  task.next_at = kNow + 252s;
  EXPECT_EQ(due_cell(task, kNow), "in 4m12s");
  task.next_at = kNow - 3s;
  EXPECT_EQ(due_cell(task, kNow), "3s late");
  task.state = State::awaiting;
  task.next_at = kNow + 2min;
  EXPECT_EQ(due_cell(task, kNow), "silence in 2m");
  task.state = State::parked;
  EXPECT_EQ(due_cell(task, kNow), "-");
}

// The first error is what the message brought, whatever has become of it since.
TEST(FirstError, FromWhatWasTakenOff) {
  Message message;
  message.headers = Table{{"retry-error", "boom"}, {"retry-error-type", "ValueError"}, {"mine", "stays"}};
  std::string origin;
  strip(message, &origin);
  EXPECT_EQ(first_error(origin), "ValueError: boom");

  message.headers = Table{{"x-death", Array{Table{{"reason", "rejected"}, {"queue", "orders"}}}}};
  strip(message, &origin);
  EXPECT_EQ(first_error(origin), "dead-lettered: rejected (queue orders)");
  EXPECT_EQ(first_error(""), "");
  EXPECT_EQ(first_error("{not json"), "");
}

TEST(Json, HasTheViewsColumnsInTheirOrder) {
  std::vector<std::string> names;
  const Json task = to_json(row(State::scheduled));
  for (const auto& [name, value] : task.items()) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("retry_id", "kind", "queue", "exchange", "routing_key", "tag",
                                            "message_id", "state", "attempt", "level", "levels", "ladder",
                                            "next_due_at", "first_failed_at", "created_at", "finished_at",
                                            "finished_by", "last_error", "body_bytes", "shard", "node"));
  EXPECT_EQ(task["retry_id"], "42");
  EXPECT_TRUE(task["finished_at"].is_null());
  EXPECT_EQ(task["first_failed_at"], "2026-11-21T17:04:00.123Z");

  AttemptRow attempt;
  attempt.attempt.due_at = kNow;
  attempt.attempt.published_at = kNow + 11ms;
  EXPECT_EQ(to_json(attempt)["late_ms"], 11);
}

TEST(Json, BrokenUtf8DoesNotThrow) { EXPECT_THAT(dump(Json{{"a", "\xff"}}, false), HasSubstr("\uFFFD")); }

}  // namespace
}  // namespace rung::cli
