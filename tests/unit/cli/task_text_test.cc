#include "src/cli/shared/task_text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/api/tasks/tasks.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr EpochMs kShownAt{1'795'280'700'123};

constexpr auto kMeansFailure = Silence::Means::failure;

TaskRow row(State state) {
  TaskRow r;
  r.task.id = TaskId{42};
  r.task.state = state;
  r.task.queue = "orders";
  r.task.attempt = 1;
  r.task.level = 2;
  r.task.levels = 9;
  r.task.first_failed_at = kShownAt - 60s;
  r.task.created_at = kShownAt - 59s;
  return r;
}

// As the API answers.
std::string next(const TaskRow& r, std::optional<Silence::Means> silence = Silence::Means::success) {
  Json task = api::to_json(r);
  if (silence) task["silence"] = api::to_json(Silence{*silence, 5min});
  return what_next(task, kShownAt);
}

TEST(WhatNext, AwaitingSaysWhatSilenceMeans) {
  TaskRow r = row(State::awaiting);
  r.task.next_at = kShownAt + 5min;
  EXPECT_THAT(next(r), HasSubstr("(in 5m) means success"));
  EXPECT_THAT(next(r, kMeansFailure), HasSubstr("means failure, and the next level"));
}

TEST(WhatNext, SucceededTellsPresumedFromReported) {
  TaskRow r = row(State::succeeded);
  r.task.finished_at = kShownAt;
  r.task.finished_by = FinishedBy::presumed;
  EXPECT_THAT(
      next(r),
      HasSubstr("succeeded: level 2 of 9, attempt 1, presumed, at 2026-11-21 17:05:00.123 UTC (now)"));
  r.task.finished_by = FinishedBy::reported;
  EXPECT_THAT(next(r), HasSubstr("attempt 1, reported, at "));
}

TEST(WhatNext, ParkedSaysHowToGoOn) {
  EXPECT_THAT(next(row(State::parked)), HasSubstr("`rung redrive 42`"));
  TaskRow lost = row(State::parked);
  lost.task.queue.clear();
  EXPECT_THAT(next(lost), HasSubstr("its queue is unknown"));
}

TaskRow delay() {
  TaskRow r = row(State::scheduled);
  r.task.kind = Kind::delay;
  r.task.queue.clear();
  r.task.exchange = "shop";
  r.task.routing_key = "order.close";
  r.task.by_exchange = true;
  r.task.level = 0;
  r.task.attempt = 0;
  r.task.first_failed_at = {};
  r.task.next_at = kShownAt + 30min;
  return r;
}

TEST(WhatNext, ADelayGoesToItsTarget) {
  TaskRow r = delay();
  EXPECT_EQ(next(r), "scheduled: the delay to shop > order.close, due 2026-11-21 17:35:00.123 UTC (in 30m)");
  EXPECT_EQ(destination(api::to_json(r)), "shop > order.close");
  r.task.state = State::awaiting;
  r.task.attempt = 1;
  EXPECT_THAT(next(r), HasSubstr("awaiting: the delay, attempt 1 to shop > order.close; silence until"));
  EXPECT_THAT(next(r, kMeansFailure), HasSubstr("means failure, and the next level"));
  EXPECT_THAT(next(r, std::nullopt), HasSubstr("(in 30m) ends it"));
  r.task.state = State::parked;
  r.task.next_at.reset();
  EXPECT_THAT(next(r), HasSubstr("; `rung redrive 42` sends it to shop > order.close again"));
}

TEST(Json, BrokenUtf8DoesNotThrow) { EXPECT_THAT(dump(Json{{"a", "\xff"}}, false), HasSubstr("\uFFFD")); }

}  // namespace
}  // namespace rung::cli
