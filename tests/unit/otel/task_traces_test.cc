// Spans of the steps of tasks.
#include "src/otel/task_traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"

namespace rung::otel {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const std::string kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr EpochMs kNow{1'790'000'000'000};

std::map<std::string, std::string> attributes(const std::vector<Attribute>& all) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : all) {
    const auto* number = std::get_if<std::int64_t>(&value);
    const bool fresh =
        out.emplace(name, number != nullptr ? std::to_string(*number) : std::get<std::string>(value)).second;
    EXPECT_TRUE(fresh) << name << " stands twice";
  }
  return out;
}

class TracesOfTasks : public testing::Test {
 protected:
  TaskTraces traces(TraceOptions options = {}) {
    return {std::move(options), [this](Span span) { spans.push_back(std::move(span)); }};
  }
  static Task task(int attempt = 0) {
    Task out;
    out.id = {4711};
    out.queue = "orders";
    out.ladder = "default";
    out.message_id = "m1";
    out.attempt = attempt;
    out.created_at = kNow;
    out.next_at = kNow + Ms{5000};
    out.body_bytes = 4;
    if (attempt > 0) out.state = State::publishing;
    return out;
  }
  static NewTask fresh(Table headers = {}) {
    Message message{{}, std::move(headers), "body"};
    message.properties.correlation_id = "c1";
    return {task(), std::make_shared<Message>(std::move(message)), "", "", {}};
  }
  static Outgoing outgoing(Table headers = {}) {
    return {0, "", "orders", Message{{}, std::move(headers), "body"}};
  }
  Span publish(TaskTraces& traces, int attempt, PublishResult::How how = PublishResult::How::confirmed,
               const std::string& reason = "") {
    traces.sent(task(attempt), outgoing({{"traceparent", kParent}}), kNow);
    traces.answered(task(attempt), {1, how, reason}, kNow + Ms{7});
    return take();
  }
  static Decision outcome(rung::Outcome how, const std::string& error = "", int attempt = 1) {
    Decision decision;
    decision.verdict = Decision::Verdict::applied;
    decision.task = task(attempt);
    decision.task.state = how == rung::Outcome::succeeded ? State::succeeded : State::scheduled;
    Attempt row;
    row.task = decision.task.id;
    row.attempt = attempt;
    row.level = 2;
    row.outcome = how;
    row.error = error;
    row.due_at = kNow + Ms{400};
    row.outcome_at = kNow + Ms{400};
    decision.attempt = row;
    decision.awaited_since = kNow + Ms{7};
    return decision;
  }
  Span take() {
    EXPECT_THAT(spans, SizeIs(1));
    Span span = spans.empty() ? Span{} : std::move(spans.back());
    spans.clear();
    return span;
  }

  std::vector<Span> spans;
};

// printf %s rung/rung/4711/1 | sha256sum
TEST_F(TracesOfTasks, IdsAreDigestsThatAnybodyCanCompute) {
  const SpanContext context = attempt_context({}, {4711}, 1);
  EXPECT_EQ(context.trace + context.span, "5f5e3ce45579cfc4fadb8694411a1c903c422a8854bfb41c");
  EXPECT_NE(attempt_context({}, {4711}, 2).trace, context.trace);
  EXPECT_NE(attempt_context({}, {4712}, 1).trace, context.trace);
  EXPECT_NE(attempt_context({.service = "shop"}, {4711}, 1).trace, context.trace);
  EXPECT_NE(attempt_context({.prefix = "eu"}, {4711}, 1).trace, context.trace);
}

TEST_F(TracesOfTasks, Receive) {
  TaskTraces t = traces({.server = "mq1", .port = 5672});
  NewTask taken = fresh({{"traceparent", kParent}, {"tracestate", "a=1"}});
  taken.task.error_type = "Timeout";
  t.received(taken, kNow + Ms{12});
  const Span span = take();
  EXPECT_EQ(span.name, "receive rung.failed");
  EXPECT_EQ(span.kind, SpanKind::consumer);
  EXPECT_EQ(span.start, kNow);
  EXPECT_EQ(span.end, kNow + Ms{12});
  EXPECT_EQ(span.context.trace, attempt_context({}, {4711}, 0).trace);
  EXPECT_FALSE(span.parent);
  EXPECT_FALSE(span.error);
  ASSERT_THAT(span.links, SizeIs(1));
  EXPECT_EQ(span.links[0].to.trace, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(span.links[0].to.span, "b7ad6b7169203331");
  EXPECT_EQ(span.links[0].to.state, "a=1");
  EXPECT_EQ(attributes(span.links[0].attributes).at("rung.link"), "origin");
  EXPECT_EQ(attributes(span.attributes),
            (std::map<std::string, std::string>{{"messaging.system", "rabbitmq"},
                                                {"messaging.operation.name", "receive"},
                                                {"messaging.operation.type", "receive"},
                                                {"messaging.destination.name", "rung.failed"},
                                                {"messaging.message.id", "m1"},
                                                {"messaging.message.conversation_id", "c1"},
                                                {"messaging.message.body.size", "4"},
                                                {"server.address", "mq1"},
                                                {"server.port", "5672"},
                                                {"rung.retry_id", "4711"},
                                                {"rung.attempt", "0"},
                                                {"rung.kind", "retry"},
                                                {"rung.ladder", "default"},
                                                {"rung.destination", "orders"},
                                                {"rung.level", "1"},
                                                {"rung.state", "scheduled"},
                                                {"rung.error_type", "Timeout"},
                                                {"rung.due_at", "2026-09-21T14:13:25.000Z"}}));
}

TEST_F(TracesOfTasks, PublishLinksToTheOriginAndToTheAttemptBefore) {
  TaskTraces t = traces();
  const Span span = publish(t, 2);
  EXPECT_EQ(span.name, "publish orders");
  EXPECT_EQ(span.kind, SpanKind::producer);
  EXPECT_EQ(span.start, kNow);
  EXPECT_EQ(span.end, kNow + Ms{7});
  EXPECT_EQ(span.context.trace, attempt_context({}, {4711}, 2).trace);
  EXPECT_EQ(span.context.span, attempt_context({}, {4711}, 2).span);
  EXPECT_FALSE(span.parent);
  EXPECT_FALSE(span.error);
  ASSERT_THAT(span.links, SizeIs(2));
  EXPECT_EQ(attributes(span.links[0].attributes).at("rung.link"), "origin");
  EXPECT_EQ(span.links[0].to.span, "b7ad6b7169203331");
  EXPECT_EQ(attributes(span.links[1].attributes).at("rung.link"), "previous");
  EXPECT_EQ(span.links[1].to.trace, attempt_context({}, {4711}, 1).trace);
  EXPECT_EQ(span.links[1].to.span, attempt_context({}, {4711}, 1).span);
  const auto all = attributes(span.attributes);
  EXPECT_EQ(all.at("messaging.operation.name"), "publish");
  EXPECT_EQ(all.at("messaging.operation.type"), "send");
  EXPECT_EQ(all.at("messaging.destination.name"), "orders");
  EXPECT_EQ(all.at("messaging.rabbitmq.destination.routing_key"), "orders");
  EXPECT_EQ(all.at("rung.attempt"), "2");
  EXPECT_EQ(all.count("server.address"), 0U);
}

TEST_F(TracesOfTasks, ARoutingKeyIsNotPartOfTheSpansName) {
  TaskTraces t = traces();
  t.sent(task(1), {0, "shop", "order.4711", {}}, kNow);
  t.answered(task(1), {}, kNow);
  Span span = take();
  EXPECT_EQ(span.name, "publish shop");
  EXPECT_EQ(attributes(span.attributes).at("messaging.destination.name"), "shop:order.4711");
  EXPECT_THAT(span.links, SizeIs(1)) << "no traceparent, no origin";
  Outgoing one{0, "", "order.4711", {}};
  one.queue = "orders";
  t.sent(task(1), one, kNow);
  t.answered(task(1), {}, kNow);
  span = take();
  EXPECT_EQ(span.name, "publish orders");
  EXPECT_EQ(attributes(span.attributes).at("messaging.destination.name"), "orders");
  EXPECT_EQ(attributes(span.attributes).at("messaging.rabbitmq.destination.routing_key"), "order.4711");
}

TEST_F(TracesOfTasks, RefusedPublishes) {
  using How = PublishResult::How;
  TaskTraces t = traces();
  const std::string own = attempt_context({}, {4711}, 1).span;
  for (const auto& [how, type, keeps_id] : {std::tuple{How::returned, "returned", true},
                                            {How::rejected, "rejected", true},
                                            {How::nacked, "nacked", false},
                                            {How::lost, "lost", false}}) {
    const Span span = publish(t, 1, how, "because");
    EXPECT_EQ(span.error, "because");
    EXPECT_EQ(attributes(span.attributes).at("error.type"), type);
    EXPECT_EQ(span.context.trace, attempt_context({}, {4711}, 1).trace);
    EXPECT_EQ(span.context.span == own, keeps_id)
        << type << ": the repeat under the same number has the id of the attempt";
  }
  EXPECT_EQ(publish(t, 1, How::lost).error, "lost");
  t.sent(task(1), outgoing(), kNow);
  t.answered(task(1), {1, How::fenced, ""}, kNow);
  EXPECT_THAT(spans, IsEmpty()) << "it was not sent";
  t.answered(task(1), {0, How::rejected, "its body is not in the database"}, kNow);
  const Span unsent = take();
  EXPECT_EQ(unsent.name, "publish orders");
  EXPECT_EQ(unsent.error, "its body is not in the database");
  EXPECT_EQ(unsent.start, unsent.end);
}

TEST_F(TracesOfTasks, TheOutcomeIsAChildOfThePublish) {
  TaskTraces t = traces();
  const Span sent = publish(t, 1);
  Decision decision = outcome(rung::Outcome::failed, "no funds");
  decision.task.error_type = "CardException";
  decision.attempt->rule = "payments[1]";
  decision.attempt->executor = "10.0.0.7";
  t.decided(decision);
  const Span span = take();
  EXPECT_EQ(span.name, "settle orders");
  EXPECT_EQ(span.kind, SpanKind::internal);
  EXPECT_EQ(span.context.trace, sent.context.trace);
  EXPECT_EQ(span.parent, sent.context.span);
  EXPECT_NE(span.context.span, sent.context.span);
  EXPECT_EQ(span.start, kNow + Ms{7});
  EXPECT_EQ(span.end, kNow + Ms{400});
  EXPECT_EQ(span.error, "no funds");
  EXPECT_THAT(span.links, IsEmpty());
  const auto all = attributes(span.attributes);
  EXPECT_EQ(all.at("messaging.operation.type"), "settle");
  EXPECT_EQ(all.at("error.type"), "CardException");
  EXPECT_EQ(all.at("rung.outcome"), "failed");
  EXPECT_EQ(all.at("rung.state"), "scheduled");
  EXPECT_EQ(all.at("rung.level"), "2");
  EXPECT_EQ(all.at("rung.rule"), "payments[1]");
  EXPECT_EQ(all.at("rung.executor"), "10.0.0.7");
  EXPECT_EQ(all.at("rung.next_due_at"), "2026-09-21T14:13:25.000Z");
}

TEST_F(TracesOfTasks, OutcomesOfAllKinds) {
  TaskTraces t = traces();
  std::set<std::string> ids;
  const auto settled = [&](Decision decision) {
    t.decided(decision);
    Span span = take();
    EXPECT_TRUE(ids.insert(span.context.span).second) << "a late success is another span";
    return span;
  };
  Span span = settled(outcome(rung::Outcome::timed_out, "no word within 1m"));
  EXPECT_EQ(attributes(span.attributes).at("error.type"), "timed_out");
  span = settled(outcome(rung::Outcome::succeeded));
  EXPECT_FALSE(span.error);
  EXPECT_EQ(attributes(span.attributes).at("rung.outcome"), "succeeded");
  EXPECT_EQ(attributes(span.attributes).at("rung.state"), "succeeded");
  Decision presumed = outcome(rung::Outcome::succeeded);
  presumed.task.finished_by = FinishedBy::presumed;
  span = settled(presumed);
  EXPECT_EQ(attributes(span.attributes).at("rung.outcome"), "presumed");
  Decision parked = outcome(rung::Outcome::failed, "the last rung");
  parked.task.state = State::parked;
  parked.failed_in = "before";
  span = settled(parked);
  EXPECT_EQ(span.name, "settle before");
  EXPECT_EQ(attributes(span.attributes).at("rung.state"), "parked");
  EXPECT_EQ(attributes(span.attributes).count("rung.next_due_at"), 0U);
}

TEST_F(TracesOfTasks, AnAttemptWhoseOutcomeWasLost) {
  TaskTraces t = traces();
  Decision decision = outcome(rung::Outcome::succeeded, "", 3);
  Attempt lost = *outcome(rung::Outcome::failed, "how it ended was lost", 2).attempt;
  decision.overtaken = lost;
  t.decided(decision);
  ASSERT_THAT(spans, SizeIs(2));
  EXPECT_EQ(spans[0].context.trace, attempt_context({}, {4711}, 2).trace);
  EXPECT_EQ(spans[0].error, "how it ended was lost");
  EXPECT_EQ(spans[1].context.trace, attempt_context({}, {4711}, 3).trace);
  EXPECT_FALSE(spans[1].error);
}

TEST_F(TracesOfTasks, LongAndForeignTexts) {
  TaskTraces t = traces();
  t.decided(outcome(rung::Outcome::failed, std::string(100'000, 'x')));
  EXPECT_LE(take().error->size(), 256U);
  NewTask one = fresh();
  Message message = *one.message;
  message.properties.correlation_id = "\xff\xfe";
  one.message = std::make_shared<Message>(message);
  t.received(one, kNow);
  for (const auto& [name, text] : attributes(take().attributes)) EXPECT_TRUE(is_utf8(text)) << name;
}

TEST_F(TracesOfTasks, SamplingTakesAllOfATaskOrNothing) {
  const auto count = [&](double share) {
    TaskTraces t = traces({.sample = share});
    int sampled = 0;
    for (int i = 0; i < 1000; ++i) {
      NewTask one = fresh();
      Task later = task(1);
      one.task.id = later.id = {(std::int64_t{1'700'000'000 + i} << 22) + (7 << 12)};  // one each ms
      t.received(one, kNow);
      const std::size_t first = spans.size();
      EXPECT_LE(first, 1U);
      t.sent(later, outgoing(), kNow);
      t.answered(later, {}, kNow);
      Decision decision = outcome(rung::Outcome::failed);
      decision.task.id = later.id;
      t.decided(decision);
      EXPECT_EQ(spans.size(), first * 3) << "all attempts of a task, or none";
      sampled += static_cast<int>(first);
      spans.clear();
    }
    return sampled;
  };
  EXPECT_EQ(count(0.0), 0);
  EXPECT_EQ(count(1.0), 1000);
  const int tenth = count(0.1);
  EXPECT_GT(tenth, 60);
  EXPECT_LT(tenth, 140);
}

}  // namespace
}  // namespace rung::otel
