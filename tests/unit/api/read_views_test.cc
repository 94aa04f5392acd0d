// What to_json() writes is read back as it was, object by object; and what it would not write is an error.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/api/messages/edit.h"
#include "src/api/queues/gates.h"
#include "src/api/queues/pauses.h"
#include "src/api/stats/nodes.h"
#include "src/api/stats/stats.h"
#include "src/api/tasks/bulks.h"
#include "src/api/tasks/causes.h"
#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"

namespace rung::api {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr EpochMs kThen{1'790'000'000'123}, kLater{1'790'000'060'456};

// The object of what was read is the same text.
template <typename Read>
void expect_back(const Json& json, const Read& read) {
  const auto value = read(Json::parse(dump(json)));
  ASSERT_TRUE(value.has_value()) << value.error().message << "\n" << json.dump();
  EXPECT_EQ(dump(to_json(*value)), dump(json));
}

TaskRow full_row() {
  TaskRow row;
  Task& t = row.task;
  t.id = {269741562311741440};
  t.shard = 63;
  t.state = State::awaiting;
  t.kind = Kind::delay;
  t.next_at = kLater;
  t.attempt = 3;
  t.level = 2;
  t.levels = 9;
  t.max_attempts = 12;
  t.uncounted_attempts = 1;
  t.ladder = "slow";
  t.queue = "orders.\xc3\xbc";
  t.exchange = "shop";
  t.routing_key = "order.new";
  t.tag = "close";
  t.message_id = "m-17";
  t.first_failed_at = kThen;
  t.created_at = kThen;
  t.finished_at = kLater;
  t.finished_by = FinishedBy::presumed;
  t.last_error = "no\nstock \x01";
  t.error_type = "StockError";
  t.rule = "payments[2]";
  t.error_queue = "orders_error";
  t.body_bytes = 4711;
  t.version = 4'000'000'000;
  t.silence = Silence{Silence::Means::failure, 90s};
  t.by_exchange = true;
  t.parent = {7};
  t.replaced_by = {8};
  t.cause = "9f2c41d07ab3";
  row.node = "node-1";
  row.correlation_id = "c-1";
  return row;
}

TEST(ReadViews, Tasks) {
  expect_back(to_json(full_row()), task_from_json);
  TaskRow empty;
  empty.task.id = {1};
  empty.correlation_id = "";
  expect_back(to_json(empty), task_from_json);
  empty.correlation_id.reset();
  expect_back(to_json(empty), task_from_json);
  // The state of a newer release.
  Json newer = to_json(full_row());
  newer["state"] = "sleeping";
  newer["something_new"] = {1, 2};
  EXPECT_EQ(task_from_json(newer)->task.state, State::unknown);
}

TEST(ReadViews, DetailsOfATask) {
  TaskDetails details{
      full_row(), {}, QueueGate{"orders", "paused", kThen, kLater, "deploy", "ann", 0, {}}, {}};
  details.row.task.ladder_pinned = true;
  details.silence = {Silence::Means::success, 10min};
  details.children = {{43}, {44}};
  const Json json = to_json(details);
  EXPECT_TRUE(task_from_json(json)->task.ladder_pinned);
  EXPECT_EQ(dump(gate_json(*gate_from_json(json["held"]))), dump(json["held"]));
  EXPECT_EQ(json["silence"], (Json{{"presumed_after", "10m"}}));
  EXPECT_EQ(*children_from_json(json), (std::vector<TaskId>{{43}, {44}}));
  EXPECT_TRUE(children_from_json(Json::object())->empty()) << "an older API";
  EXPECT_FALSE(children_from_json({{"children", {"x"}}}));
}

TEST(ReadViews, AttemptsAndChanges) {
  AttemptRow row;
  row.attempt = {{42},   3,         2, kThen,        kLater,   Outcome::timed_out,
                 kLater, "no word", 7, "app-3:8080", "give_up"};
  row.queue = "orders";
  row.message_id = "m";
  row.node = "node-1";
  expect_back(to_json(row), attempt_from_json);
  AttemptRow pending;
  pending.attempt.task = {42};
  pending.attempt.due_at = kThen;
  expect_back(to_json(pending), attempt_from_json);
  AuditRow change{7,
                  kThen,
                  "ann, 10.0.0.3 (http)",
                  "cancel",
                  {42},
                  R"({"state":"scheduled"})",
                  R"({"state":"cancelled","share":0.1})",
                  "paid",
                  12};
  expect_back(to_json(change), audit_from_json);
  change.before = "not json";
  change.after = change.reason = "";
  change.bulk = 0;
  expect_back(to_json(change), audit_from_json);
}

TEST(ReadViews, Bulks) {
  Bulk bulk;
  bulk.id = 12;
  bulk.action = BulkAction::redrive;
  bulk.state = BulkState::aborted;
  bulk.filter_text = R"({"queue":"orders","error":"it's","limit":"10"})";
  bulk.reason = "bank is back";
  bulk.who = "ann";
  bulk.elsewhere = {"", "shop", "new"};
  bulk.even_reported = true;
  bulk.rate = 0.1;
  bulk.total = 10;
  bulk.done = 7;
  bulk.applied = 5;
  bulk.refused = 1;
  bulk.created_at = kThen;
  bulk.finished_at = kLater;
  bulk.runner = "host:1";
  bulk.care = {3, Ms{120'000}, true, 5.5};
  bulk.stopped_because = "1 of the canary's 3 failed";
  bulk.changed_at = kLater;
  bulk.changed_by = "bob";
  bulk.changed_because = "too early";
  expect_back(to_json(bulk), bulk_from_json);
  bulk.canary_done = 3;
  expect_back(to_json(bulk), bulk_from_json);
  bulk.elsewhere = {"by-hand", "", ""};
  bulk.care = {};
  bulk.canary_done.reset();
  bulk.filter_text = "";
  expect_back(to_json(bulk), bulk_from_json);
  const Json with = to_json(bulk, Outcomes{{5, 1, 2, 1, 1, "queue orders has no consumer"},
                                           {{"orders", "breaker_open", {}, {}, "boom", "", 0, {}}}});
  EXPECT_EQ(dump(to_json(*bulk_from_json(with), *outcomes_from_json(with))), dump(with));
  const Json without = to_json(bulk, std::nullopt);
  EXPECT_FALSE(outcomes_from_json(without)->has_value());
  const Json one = {{"queue", "orders"}, {"after_ms", 3'600'000}, {"tasks", 7}};
  const Expired expired = expired_from_json({{"expired", Json::array({one})}})->front();
  EXPECT_EQ(expired.queue, "orders");
  EXPECT_EQ(expired.after, Ms{3'600'000});
  EXPECT_EQ(expired.tasks, 7);
  EXPECT_TRUE(expired_from_json(Json::object())->empty());
}

TEST(ReadViews, Counts) {
  const CountBy by{"queue"};
  const TaskCounts counts{12, {{"orders", 7}, {"", 3}}, 2};
  const Json json = to_json(counts, by, 100);
  EXPECT_EQ(to_json(*counts_from_json(json), by, 100), json);
  EXPECT_FALSE(counts_from_json(Json::object()));
}

TEST(ReadViews, QueuesAndPauses) {
  const QueueGate gate{"orders", "breaker_open", kThen, kLater, "20 failed", "", 7, kLater};
  expect_back(to_json(gate), gate_from_json);
  expect_back(to_json(QueueGate{"q", "flowing", {}, {}, "", "", 0, {}, 3}), gate_from_json);
  expect_back(to_json(Pause{"orders", kThen, kLater, "ann", "deploy", "", false}), pause_from_json);
  const Pause ended{"orders", kThen, kLater, "ann", "deploy", "bob", true};
  const Pause hold{"orders", kThen, kLater, "retry-after", "task 4711 asked for 10m", "bob", true};
  for (const Resumed& what : {Resumed{ended, hold}, Resumed{ended, {}}, Resumed{{}, hold}, Resumed{}})
    expect_back(
        to_json(ResumedQueue{"orders", what, false, what.any() ? "" : "outside its window", "flowing"}),
        resumed_from_json);
  const auto both = resumed_from_json(to_json(ResumedQueue{"orders", {ended, hold}, false, "", "flowing"}));
  EXPECT_EQ(both->ended.retry_after->reason, hold.reason);
}

TEST(ReadViews, Causes) {
  CauseRow cause;
  cause.id = "9f2c41d07ab3";
  cause.queue = "orders";
  cause.error_type = "CardError";
  cause.sample = "card\ndeclined";
  cause.first_seen = kThen;
  cause.last_seen = kLater;
  cause.scheduled = 1;
  cause.parked = 2;
  cause.succeeded = 3;
  cause.total = 6;
  cause.last_hour = 4;
  cause.trend.assign(kCauseBuckets, 0);
  cause.state = CauseState::ignored;
  cause.owner = "alice";
  cause.note = "expected";
  cause.link = "https://t/1";
  cause.worse_at = kLater;
  expect_back(to_json(cause), cause_from_json);
  expect_back(to_json(rung::api::Causes{{cause}, "50"}), causes_from_json);
  expect_back(to_json(rung::api::Causes{}), causes_from_json);
}

TEST(ReadViews, NodesAndStats) {
  Stats stats;
  stats.tasks = {{{"orders", State::scheduled, 7, kThen, 2}, {"", State::parked, 1, {}, 0}}, kThen};
  NodeRow one;
  one.id = 1;
  one.name = "node-1";
  one.started_at = kThen;
  one.seen_at = kLater;
  one.expires_at = kLater + 1h;
  one.version = "1.0";
  one.address = "host:1";
  one.config = "0123456789abcdef";
  one.problems = {{"broker", "away", kThen}};
  NodeRow other = one;
  other.id = 2;
  other.config = "fedcba9876543210";
  other.problems.clear();
  NodeRow third = one;
  third.id = 3;
  stats.nodes.rows = {one, other, third};
  stats.nodes.config = one.config;
  stats.nodes.differ = true;
  stats.nodes.held[2] = {{3, 4}, kThen, 5, kThen};
  stats.nodes.unowned = {{7}, {}, 1, kThen};
  stats.promises = {{"orders", {90, 5, 2}, {900, 50, 20}}, {"(other)", {}, {0, 0, 1}}};
  stats.late = {3, {4711}, kThen};
  const Json json = to_json(stats, kLater);
  const auto back = stats_from_json(Json::parse(dump(json)), kLater);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump(to_json(*back, kLater)), dump(json));
  for (const char* name : {"by_queue", "oldest_overdue_ms"}) {
    Json odd = Json::parse(dump(json));
    odd[name] = INT64_MIN;
    EXPECT_FALSE(stats_from_json(odd, kLater)) << name;
    odd["by_queue"] = nullptr;
    EXPECT_FALSE(stats_from_json(odd, kLater)) << name;
  }

  stats.nodes.hidden = 2;
  const Json page = nodes_page(stats.nodes, kLater, whole_list());
  Nodes nodes;
  ASSERT_TRUE(add_nodes(page, kLater, nodes));
  done_nodes(nodes, kLater);
  EXPECT_EQ(dump(nodes_page(nodes, kLater, whole_list())), dump(page));
}

TEST(ReadViews, Messages) {
  Original original;
  original.row = full_row();
  auto message = std::make_shared<Message>();
  message->body = std::string("\xff\x00[\x1b", 4);
  message->properties.content_type = "application/json";
  message->properties.priority = 5;
  message->headers = Table{{"tenant", "acme"}, {"tries", std::int32_t{3}}, {"share", 0.1}};
  original.message = message;
  EXPECT_EQ(**message_from_json(Json::parse(dump(to_json(original)))), *message);
  message->headers.reset();
  message->body = "";
  EXPECT_EQ(**message_from_json(Json::parse(dump(to_json(original)))), *message);
}

TEST(ReadViews, WhatIsNotSoWrittenIsAnError) {
  const auto wrong = [](const char* name, const Json& value) {
    Json json = to_json(full_row());
    json[name] = value;
    const auto row = task_from_json(json);
    EXPECT_FALSE(row.has_value()) << name;
    EXPECT_THAT(row ? "" : row.error().message, HasSubstr(std::string("task.") + name));
  };
  wrong("retry_id", "x");
  wrong("retry_id", nullptr);
  wrong("kind", "other");
  wrong("queue", 5);
  wrong("attempt", "3");
  wrong("attempt", 18446744073709551615U);
  wrong("attempt", 2147483648);
  wrong("attempt", -1);
  wrong("version", 4294967296);
  wrong("body_bytes", INT64_MAX);
  wrong("next_due_at", "soon");
  wrong("by_exchange", 1);
  wrong("success", Json::object());
  for (const Json& json : {Json(), Json(5), Json("x"), Json::array()}) {
    EXPECT_FALSE(task_from_json(json));
    EXPECT_FALSE(attempt_from_json(json));
    EXPECT_FALSE(audit_from_json(json));
    EXPECT_FALSE(bulk_from_json(json));
    EXPECT_FALSE(gate_from_json(json));
    EXPECT_FALSE(cause_from_json(json));
    EXPECT_FALSE(causes_from_json(json));
    EXPECT_FALSE(message_from_json(json));
    EXPECT_FALSE(stats_from_json(json, kThen));
    Nodes nodes;
    EXPECT_FALSE(add_nodes(json, kThen, nodes));
  }
}

}  // namespace
}  // namespace rung::api
