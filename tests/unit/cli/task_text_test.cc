#include "src/cli/shared/task_text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/api/tasks/views.h"
#include "src/core/machine/headers.h"
#include "src/core/message/message.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
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
  EXPECT_THAT(next(r),
              AllOf(HasSubstr("succeeded after 1 retry, presumed"), HasSubstr("1m after the first failure")));
  r.task.finished_by = FinishedBy::reported;
  EXPECT_THAT(next(r), HasSubstr("succeeded after 1 retry, reported"));
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
  EXPECT_EQ(next(r),
            "scheduled: the delay to exchange shop, routing key order.close, due 2026-11-21 17:35:00.123 UTC "
            "(in 30m)");
  EXPECT_EQ(destination(api::to_json(r)), "shop > order.close");
  r.task.state = State::awaiting;
  r.task.attempt = 1;
  EXPECT_THAT(
      next(r),
      HasSubstr("attempt 1 (the delay) went to exchange shop, routing key order.close; silence until"));
  EXPECT_THAT(next(r, kMeansFailure), HasSubstr("means failure, and the next level"));
  EXPECT_THAT(next(r, std::nullopt), HasSubstr("; its silence ends at 2026-"));
  r.task.state = State::parked;
  r.task.next_at.reset();
  EXPECT_THAT(next(r), HasSubstr("parked after 1 delivery; `rung redrive 42` sends it to exchange shop"));
  r.task.state = State::succeeded;
  r.task.finished_at = kShownAt;
  EXPECT_THAT(next(r), HasSubstr("59s after it was received"));
}

// The first error is what the message brought, whatever has become of it since.
TEST(FirstError, FromWhatWasTakenOff) {
  Message message;
  message.headers =
      rung::Table{{"retry-error", "boom"}, {"retry-error-type", "ValueError"}, {"mine", "stays"}};
  std::string origin;
  strip(message, &origin);
  EXPECT_EQ(first_error(origin), "ValueError: boom");

  message.headers = rung::Table{{"x-death", Array{rung::Table{{"reason", "rejected"}, {"queue", "orders"}}}}};
  const BrokerFacts facts = rabbit::take_broker_headers(message, Inlet::failed);
  strip(message, &origin, facts);
  EXPECT_EQ(first_error(origin), "dead-lettered: rejected (queue orders)");
  EXPECT_EQ(first_error(""), "");
  EXPECT_EQ(first_error("{not json"), "");
}

TEST(Json, BrokenUtf8DoesNotThrow) { EXPECT_THAT(dump(Json{{"a", "\xff"}}, false), HasSubstr("\uFFFD")); }

}  // namespace
}  // namespace rung::cli
