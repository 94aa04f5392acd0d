// No message is taken for another: what is acked without a new row is proven to be the message in the row.
#include "src/core/message/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "src/bridge/intake/intake.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using As = Recognized;

class IdentityStory : public testing::Test {
 protected:
  IdentityStory() {
    QueueRules orders{.ladder = "default", .silence = {}};
    QueueRules invoices{.ladder = "quick", .silence = {}};
    world.rules = std::make_shared<RuleBook>(
        RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{60'000}, Ms{120'000}, Ms{240'000}})},
                          {"quick", *levels::Ladder::from_list({Ms{3000}, Ms{6000}})}},
        RuleBook::Queues{{"orders", orders}, {"invoices", invoices}}, RuleBook::Tags{}, orders);
    flow.take_shards();
  }

  // A retry as a consumer has received it, in this state of its task.
  TaskId task_in(State state, const std::string& message_id, FinishedBy by = FinishedBy::nobody) {
    return world.insert("orders", world.now() + Ms{600'000}, 5, [&](Task& task) {
      task.state = state;
      task.attempt = state == State::scheduled ? 2 : 1;
      task.level = state == State::scheduled ? 2 : 1;
      task.message_id = message_id;
      task.finished_by = by;
      task.first_failed_at = task.created_at;
      if (!is_finished(state)) return;
      task.next_at.reset();
      task.finished_at = world.now();
    });
  }
  // The headers of its first retry.
  Table headers_of(TaskId id) {
    Task task = world.row(id);
    task.attempt = 1;
    return {{std::string(header::kId), id.str()},
            {std::string(header::kAttempt), std::int64_t{1}},
            {std::string(header::kLevel), std::int64_t{1}},
            {std::string(header::kLadder), "default"},
            {std::string(header::kToken), flow.proof.token(task)}};
  }
  static Message message(const std::string& body, const std::string& id, Table headers = {}) {
    Message m{{}, std::move(headers), body};
    if (!id.empty()) m.properties.message_id = id;
    return m;
  }
  void fails(Message m, const std::string& queue = "orders", const std::string& routing_key = {}) {
    ASSERT_TRUE(flow.put_failed(queue, std::move(m), routing_key));
    world.loop.run_for(Ms{50});
    EXPECT_EQ(flow.broker.unacked(), 0U);
  }
  Task only_other(TaskId id) {
    std::vector<Task> others;
    for (const TaskRow& row : all_rows()) {
      if (row.task.id != id) others.push_back(row.task);
    }
    EXPECT_EQ(others.size(), 1U);
    return others.empty() ? Task{} : others[0];
  }
  // Also those beyond a page.
  std::vector<TaskRow> all_rows() {
    Filter filter;
    filter.limit = 1000;
    return world.eyes->list(filter);
  }
  std::int64_t count(As as) const { return flow.counts.totals.recognized[static_cast<std::size_t>(as)]; }
  MessagePtr stored(TaskId id) { return world.eyes->messages({&id, 1}).at(0).message; }

  World world;
  Flow flow{world};
};

// I1: constant message-ids and empty bodies, as event publishers have them.
TEST_F(IdentityStory, MessagesThatDifferInOneThingAreTasksOfTheirOwn) {
  std::vector<std::pair<std::string, std::function<void(Message&)>>> kinds = {
      {"plain", [](Message&) {}},
      {"a header", [](Message& m) { m.headers->emplace_back("event", "created"); }},
      {"its value", [](Message& m) { m.headers->emplace_back("event", "deleted"); }},
      {"its type", [](Message& m) { m.headers->emplace_back("event", Bytes{"created"}); }},
      {"correlation-id", [](Message& m) { m.properties.correlation_id = "c"; }},
      {"reply-to", [](Message& m) { m.properties.reply_to = "r"; }},
      {"type", [](Message& m) { m.properties.type = "t"; }},
      {"timestamp", [](Message& m) { m.properties.timestamp = 7; }},
      {"content-type", [](Message& m) { m.properties.content_type = "text/plain"; }},
      {"content-encoding", [](Message& m) { m.properties.content_encoding = "gzip"; }},
      {"priority", [](Message& m) { m.properties.priority = std::uint8_t{3}; }},
      {"app-id", [](Message& m) { m.properties.app_id = "a"; }},
      {"user-id", [](Message& m) { m.properties.user_id = "guest"; }},
      {"expiration", [](Message& m) { m.properties.expiration = "60000"; }},
  };
  for (const auto& [what, change] : kinds) {
    const std::size_t before = all_rows().size();
    Message m = message("", "constant");
    change(m);
    fails(m);
    EXPECT_EQ(all_rows().size(), before + 1) << what;
    fails(m);
    EXPECT_EQ(all_rows().size(), before + 1) << what << ", the same once more";
  }
  const std::size_t before = all_rows().size();
  fails(message("", "constant"), "orders", "order.created");
  fails(message("", "constant"), "orders", "order.deleted");
  EXPECT_EQ(all_rows().size(), before + 2) << "routing key";
  EXPECT_EQ(count(As::duplicate), static_cast<std::int64_t>(kinds.size()));
  const auto told = std::ranges::count(flow.events, "known_message_acked", &SystemEvent::kind);
  EXPECT_EQ(told, 1) << "the first time for a queue";
}

TEST_F(IdentityStory, WhatDescribesAFailureIsNoPartOfTheMessage) {
  fails(message("body", "m-1", {{"retry-error", "first text"}, {"retry-executor", "host-1"}}));
  fails(message("body", "m-1", {{"retry-error", "another text"}, {"retry-executor", "host-2"}}));
  EXPECT_EQ(all_rows().size(), 1U);
  EXPECT_EQ(count(As::duplicate), 1);
}

// I2: a consumer handles a retry and publishes its next message with the headers that it has received.
TEST_F(IdentityStory, TheNextMessageWithCopiedHeadersIsATaskOfItsOwnInEveryState) {
  struct Case {
    State state;
    FinishedBy by = FinishedBy::nobody;
  };
  for (const Case& c :
       {Case{State::scheduled}, Case{State::awaiting}, Case{State::succeeded, FinishedBy::reported},
        Case{State::succeeded, FinishedBy::presumed}, Case{State::parked}, Case{State::cancelled},
        Case{State::discarded}}) {
    for (const std::string& id : {std::string("m-1"), std::string()}) {
      for (const std::string& next_id : {id, std::string("m-2")}) {
        SCOPED_TRACE(std::string(to_word(c.state)) + ", message-id '" + id + "', then '" + next_id + "'");
        const TaskId parent = task_in(c.state, id, c.by);
        const Task before = world.row(parent);
        const std::size_t rows = all_rows().size();
        const std::string body = "the next body, " + std::to_string(rows);
        fails(message(body, next_id, headers_of(parent)));
        ASSERT_EQ(all_rows().size(), rows + 1);
        EXPECT_EQ(world.row(parent), before) << "what was handled is not delivered again";
        const auto all = all_rows();
        const auto child =
            std::ranges::find_if(all, [&](const TaskRow& row) { return row.task.parent == parent; });
        ASSERT_NE(child, all.end());
        EXPECT_EQ(child->task.state, State::scheduled);
        EXPECT_EQ(child->task.level, 2) << "it does not begin anew: that could climb for ever";
        EXPECT_EQ(child->task.first_failed_at, before.first_failed_at);
        EXPECT_EQ(std::string(stored(child->task.id)->body), body);
      }
    }
  }
  EXPECT_GT(count(As::child), 0);
  EXPECT_EQ(std::ranges::count(flow.events, "retry_headers_copied", &SystemEvent::kind), 1);
}

TEST_F(IdentityStory, TheSameBodyWithOtherHeadersIsTheSameTaskWithTheHeadersAsLastReceived) {
  const TaskId id = task_in(State::awaiting, "m-1");
  Table headers = headers_of(id);
  headers.emplace_back("retries", 1);
  fails(message("body", "m-1", headers));
  ASSERT_EQ(all_rows().size(), 1U);
  const Task task = world.row(id);
  EXPECT_EQ(task.state, State::scheduled);
  EXPECT_EQ(task.level, 2);
  EXPECT_EQ(stored(id)->headers, (Table{{"retries", 1}}));
  EXPECT_EQ(task.digest, message_digest(*stored(id)));
  EXPECT_NE(world.eyes->known({&id, 1}).at(0).origin.find("earlier content"), std::string::npos);
  EXPECT_EQ(count(As::changed), 1);
  // It crashed before the ack, and publishes it again.
  fails(message("body", "m-1", headers));
  EXPECT_EQ(all_rows().size(), 1U);
  EXPECT_EQ(count(As::repeat), 1);
}

TEST_F(IdentityStory, TheSameBodyWithOtherHeadersAfterTheTaskHasEndedIsATaskOfItsOwn) {
  const TaskId id = task_in(State::succeeded, "m-1", FinishedBy::reported);
  Table headers = headers_of(id);
  headers.emplace_back("event", "shipped");
  fails(message("body", "m-1", headers));
  EXPECT_EQ(only_other(id).level, 2);
  EXPECT_EQ(only_other(id).parent, id);
}

TEST_F(IdentityStory, TheFailureOfAnEarlierAttemptIsProvenToBeInTheRow) {
  const TaskId id = task_in(State::scheduled, "m-1");
  fails(message("body", "m-1", headers_of(id)));
  EXPECT_EQ(all_rows().size(), 1U);
  EXPECT_EQ(count(As::repeat), 1);
  ASSERT_EQ(flow.events.size(), 1U);
  EXPECT_EQ(flow.events[0].subject, "orders");
}

// Queues of which it was said: names come from messages.
TEST_F(IdentityStory, WhatWasSaidOfQueuesIsBounded) {
  for (int i = 0; i < 3000; ++i)
    flow.intake.note(As::repeat, TaskId{1}, "stranger-" + std::to_string(i), "", "");
  EXPECT_EQ(std::ranges::count(flow.events, "known_message_acked", &SystemEvent::kind), 1000);
  EXPECT_EQ(count(As::repeat), 3000);
}

// I3
TEST_F(IdentityStory, IntoAnotherQueueTheCopiedLadderIsNoWish) {
  const TaskId id = task_in(State::awaiting, "m-1");
  fails(message("the next body", "m-1", headers_of(id)), "invoices");
  const Task other = only_other(id);
  EXPECT_EQ(other.ladder, "quick");
  EXPECT_FALSE(other.ladder_pinned);
  EXPECT_EQ(other.level, 1);
  EXPECT_EQ(other.levels, 2);
  EXPECT_EQ(other.parent, id);
  EXPECT_LE(other.next_at.value() - world.now(), Ms{3000});
  EXPECT_EQ(count(As::elsewhere), 1);
  EXPECT_EQ(world.row(id).state, State::awaiting);
}

}  // namespace
}  // namespace rung::bridge
