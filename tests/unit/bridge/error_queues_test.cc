// Messages of error queues, through the whole flow: taken in, retried, parked, returned.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "src/core/machine/headers.h"
#include "src/core/rules/dialect.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

// A framework that publishes failures to QUEUE_error, with the error in headers of its own.
DialectPtr framework() {
  Dialect dialect;
  dialect.name = "framework";
  dialect.queue = {{.from = Reading::From::header, .name = "failed-in"},
                   {.from = Reading::From::queue_name, .pattern = compile_regex("(.+)_error").value()}};
  dialect.error = {{.name = "failure"}};
  dialect.error_type = {{.name = "failure-type"}};
  dialect.remove = {"fail*"};
  return std::make_shared<const Dialect>(dialect);
}

QueueRules publishing() { return {.ladder = "default", .silence = {}, .publish_parked = true}; }

class ErrorQueueStory : public testing::Test {
 protected:
  void start(ErrorQueue entry, TargetRules targets = {}, const QueueRules& defaults = {}) {
    entry.dialect = framework();
    errors_ = std::make_shared<const ErrorQueues>(std::vector{std::move(entry)});
    BrokerOptions options;
    options.error_queues = errors_;
    broker_ = std::make_unique<MemoryBroker>(options, MemoryBroker::Pace::by_hand, world_.clock);
    for (const char* queue : {"orders", "orders_error", "rung.parked"}) broker_->declare(queue);
    rules_ = std::make_shared<RuleBook>(
        RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}, Ms{2000}})}}, RuleBook::Queues{},
        RuleBook::Tags{}, defaults, std::move(targets), RuleBook::RuleLists{}, errors_);
    whole_ = std::make_unique<Whole>(world_, *broker_, rules_, Whole::Options{});
    ASSERT_TRUE(bridge().start());
    ASSERT_TRUE(until([&] { return bridge().vitals().shards == kShards; }));
  }
  Bridge& bridge() { return *whole_->bridge; }
  bool until(const std::function<bool()>& condition, Ms most = Ms{30'000}) {
    return world_.loop.run_until(condition, most);
  }

  // The consumer fails a message: the framework publishes it to the error queue.
  void fail(Message message, const std::string& id = {}) {
    if (!id.empty()) message.properties.message_id = id;
    if (!message.headers) message.headers.emplace();
    message.headers->emplace_back("failure", "no card");
    message.headers->emplace_back("failure-type", "CardError");
    ASSERT_TRUE(broker_->put("orders_error", message));
  }
  // Where no queue is allowed: a message whose headers name one.
  void fail_naming_another(ErrorQueue entry, const std::vector<const char*>& headers) {
    TargetRules targets;
    targets.allow.emplace();  // nothing
    start(std::move(entry), targets);
    Message message = order();
    for (const char* header : headers) message.headers->emplace_back(header, "secret");
    bridge().attachments_found(
        {.queues = {}, .attached = std::set<std::string, std::less<>>{}, .asked_at = {}});
    fail(message);
  }
  // A consumer publishes its failure to rung.failed.
  static Message with_queue(const std::string& queue, const std::string& id) {
    Message message;
    message.properties.message_id = id;
    message.headers = Table{{"retry-queue", queue}};
    return message;
  }
  static Message order() {
    Message message;
    message.headers = Table{{"tenant", "eu"},
                            {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
                            {"tracestate", "vendor=a:1,other=b"}};
    message.body = "order 4711";
    return message;
  }
  std::optional<Message> delivered(const std::string& queue = "orders") {
    std::optional<Message> got;
    until([&] { return (got = broker_->take(queue)).has_value(); });
    return got;
  }
  std::vector<TaskRow> rows() { return world_.eyes->list({.limit = 5000}); }
  bool parks() {
    return until([&] {
      const auto all = rows();
      return all.size() == 1 && all[0].task.state == State::parked;
    });
  }
  World world_;
  ErrorQueuesPtr errors_;
  RuleBookPtr rules_;
  std::unique_ptr<MemoryBroker> broker_;
  std::unique_ptr<Whole> whole_;
};

// The message as the framework first received it: without its headers and ours.
Message without_ours(const Message& message) {
  Message out = strip(message, nullptr);
  out.properties = {};
  return out;
}

TEST_F(ErrorQueueStory, AFailureClimbsAndComesBackAsItWasReceived) {
  start({.from = "orders_error"});
  fail(order(), "m1");
  const auto first = delivered();
  ASSERT_TRUE(first);
  EXPECT_EQ(without_ours(*first), order());
  EXPECT_EQ(find(first->headers, "retry-attempt")->as_int(), 1);
  fail(*first);
  const auto second = delivered();
  ASSERT_TRUE(second);
  EXPECT_EQ(without_ours(*second), order());
  EXPECT_EQ(find(second->headers, "retry-attempt")->as_int(), 2);
  fail(*second);
  ASSERT_TRUE(parks());
  const Task task = rows()[0].task;
  EXPECT_EQ(task.attempt, 2);
  EXPECT_EQ(task.queue, "orders");
  EXPECT_EQ(task.error_queue, "orders_error");
  EXPECT_EQ(task.last_error, "no card");
  EXPECT_EQ(task.error_type, "CardError");
  EXPECT_EQ(broker_->depth("orders_error"), 0U) << "the row is the parking lot";
  EXPECT_TRUE(until([&] { return broker_->unacked() == 0; }));
}

TEST_F(ErrorQueueStory, LadderNoneParksAtOnce) {
  start({.from = "orders_error", .retries = false});
  fail(order());
  ASSERT_TRUE(parks());
  EXPECT_EQ(rows()[0].task.last_error, "no card");
  EXPECT_EQ(rows()[0].task.attempt, 0);
  EXPECT_EQ(rows()[0].task.queue, "orders") << "a redrive sends it there";
}

TEST_F(ErrorQueueStory, AFailureOrADelayForAnErrorQueueIsParked) {
  start({.from = "*_error"});
  ASSERT_TRUE(broker_->put("rung.failed", with_queue("orders_error", "failure")));
  Message delay = with_queue("orders_error", "delay");
  delay.headers->emplace_back("retry-after", "1s");
  ASSERT_TRUE(broker_->put("rung.delay", delay));
  ASSERT_TRUE(until([&] {
    const auto all = rows();
    return all.size() == 2 &&
           std::ranges::all_of(all, [](const TaskRow& row) { return row.task.state == State::parked; });
  }));
  for (const TaskRow& row : rows())
    EXPECT_NE(row.task.last_error.find("is an error queue"), std::string::npos) << row.task.last_error;
  EXPECT_EQ(broker_->depth("orders_error"), 0U);
}

TEST_F(ErrorQueueStory, ATaskWhoseQueueBecomesAnErrorQueueIsParkedInsteadOfPublished) {
  start({.from = "orders_error"});
  fail(order(), "a");
  ASSERT_TRUE(until([&] { return rows().size() == 1; }));
  ASSERT_EQ(rows()[0].task.state, State::scheduled);
  const auto now_one = std::make_shared<const ErrorQueues>(
      std::vector{ErrorQueue{.from = "orders_error", .dialect = framework()},
                  ErrorQueue{.from = "orders", .dialect = framework(), .to = "elsewhere"}});
  bridge().reload(rules_->with_error_queues(now_one), std::nullopt);
  ASSERT_TRUE(parks());
  EXPECT_NE(rows()[0].task.last_error.find("'orders' is an error queue"), std::string::npos)
      << rows()[0].task.last_error;
  EXPECT_EQ(broker_->depth("orders"), 0U);
}

TEST_F(ErrorQueueStory, AHeaderNamesOnlyAllowedQueuesTheConfigAnyone) {
  fail_naming_another({.from = "orders_error", .to = "orders"}, {"failed-in", "retry-queue"});
  ASSERT_TRUE(delivered("orders")) << "to: of the config";
}

TEST_F(ErrorQueueStory, WithoutToAHeaderNamesOnlyAllowedQueues) {
  fail_naming_another({.from = "orders_error"}, {"failed-in"});
  ASSERT_TRUE(parks());
  EXPECT_NE(rows()[0].task.last_error.find("does not allow"), std::string::npos) << rows()[0].task.last_error;
}

// A home-made consumer publishes the body and the message-id, and nothing of ours.
TEST_F(ErrorQueueStory, AFailureOfARetryWithoutOurHeadersIsTakenIn) {
  start({.from = "orders_error"});
  fail(order(), "m1");
  ASSERT_TRUE(delivered());
  ASSERT_TRUE(until([&] { return rows()[0].task.state == State::awaiting; }));
  fail(order(), "m1");
  ASSERT_TRUE(until([&] { return rows().size() == 2; })) << "acked as a duplicate: the message would be lost";
  EXPECT_TRUE(delivered());
}

// Regression: they were tried again each second for ever, and many of them held up the copies of all queues.
TEST_F(ErrorQueueStory, CopiesForADeletedQueueWaitLongerAndLongerAndAreAProblem) {
  start({.from = "orders_error"}, {}, publishing());
  broker_->remove("rung.parked");
  fail(order(), "m-1");
  fail(*delivered());
  fail(*delivered());
  const auto is_problem = [&] {
    const auto problem = whole_->problem("parked_copies");
    return problem && problem->detail.find("rung.parked") != std::string::npos;
  };
  ASSERT_TRUE(until(is_problem));
  world_.loop.run_for(Ms{3'600'000});
  EXPECT_TRUE(is_problem());
  EXPECT_EQ(rows()[0].task.state, State::parked);
  EXPECT_GE(*rows()[0].task.next_at - *rows()[0].task.finished_at, Ms{3'000'000}) << "it is owed still";
  EXPECT_LT(broker_->published().size(), 30U);
  broker_->declare("rung.parked");
  ASSERT_TRUE(until([&] { return broker_->depth("rung.parked") == 1; }, Ms{1'200'000}));
  ASSERT_TRUE(until([&] { return !is_problem(); }));
}

TEST(Dialect, NeverRemovesOurHeaders) {
  Dialect greedy;
  greedy.remove = {"*"};
  EXPECT_TRUE(removes(greedy, "failure"));
  EXPECT_FALSE(removes(greedy, "retry-id"));
  EXPECT_TRUE(removes(greedy, "retry-count")) << "a framework's own";
}

// A backlog in an error queue waits for the database; a fresh dead letter goes before all that is not in a
// batch yet.
TEST_F(ErrorQueueStory, AFreshDeadLetterGoesBeforeTheBacklogOfAnErrorQueue) {
  start({.from = "orders_error"});
  constexpr int kBacklog = 900;
  whole_->jobs->by_hand(Lane::flow);
  for (int i = 0; i < kBacklog; ++i) {
    Message message = order();
    message.body = std::string(64 * 1024, 'x');
    fail(message, "old-" + std::to_string(i));
  }
  ASSERT_TRUE(until([&] { return broker_->unacked() == std::size_t{kBacklog}; }));
  ASSERT_TRUE(broker_->put("rung.failed", "orders", with_queue("orders", "fresh")));
  ASSERT_TRUE(until([&] { return broker_->unacked() == std::size_t{kBacklog + 1}; }));
  whole_->jobs->by_itself(Lane::flow);
  const auto is_fresh = [](const TaskRow& row) { return row.task.message_id == "fresh"; };
  ASSERT_TRUE(until([&] { return std::ranges::any_of(rows(), is_fresh); }));
  EXPECT_LT(std::ssize(rows()), kBacklog / 2);
  ASSERT_TRUE(until([&] { return std::ssize(rows()) == kBacklog + 1; }));
}

}  // namespace
}  // namespace rung::bridge
