// What is told about a quorum queue's limits, delays and time-outs, and about target queues that take a retry
// which no consumer will get.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "src/cli/attach/attach.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

rabbit::QueueFacts quorum(const json& arguments, const std::string& policy = "") {
  rabbit::QueueFacts facts{std::nullopt, policy, "quorum", "orders"};
  facts.arguments = arguments;
  return facts;
}

QueueNote note(const std::string& name, const json& arguments, std::optional<Silence> silence = std::nullopt,
               const json& policy = json::object()) {
  const std::vector<rabbit::Policy> policies = {{"p", ".*", "queues", policy, 0}};
  const auto notes = queue_notes(quorum(arguments, "p"), policies, silence);
  const auto it = std::ranges::find(notes, name, &QueueNote::name);
  return it == notes.end() ? QueueNote{"none", "", ""} : *it;
}

TEST(QueueNotes, OfOtherTypesNothingIsSaid) {
  rabbit::QueueFacts facts = quorum({{"x-delivery-limit", 3}});
  facts.type = "classic";
  EXPECT_TRUE(queue_notes(facts, {}, std::nullopt).empty());
}

TEST(QueueNotes, DeliveryLimit) {
  EXPECT_FALSE(note("limit", json::object()).fine());
  const QueueNote own = note("limit", {{"x-delivery-limit", 3}});
  EXPECT_TRUE(own.fine());
  EXPECT_THAT(own.what, AllOf(HasSubstr("delivery limit 3"), HasSubstr("basic.nack with requeue does not")));
  EXPECT_TRUE(note("limit", json::object(), std::nullopt, {{"delivery-limit", 5}}).fine());
}

TEST(QueueNotes, Strategy) {
  const QueueNote most = note("strategy", json::object());
  EXPECT_FALSE(most.fine());
  EXPECT_THAT(most.what, HasSubstr("also those over the delivery limit"));
  EXPECT_THAT(note("strategy", {{"x-dead-letter-strategy", "at-least-once"}}).fix,
              HasSubstr("overflow: reject-publish"));
  EXPECT_TRUE(note("strategy", {{"x-dead-letter-strategy", "at-least-once"}}, std::nullopt,
                   {{"overflow", "reject-publish"}})
                  .fine());
}

TEST(QueueNotes, DelayedRetry) {
  // Without a minimum RabbitMQ delays nothing.
  for (const json& none : {json::object(), json{{"x-delayed-retry-type", "failed"}},
                           json{{"x-delayed-retry-type", "disabled"}, {"x-delayed-retry-min", 1000}}})
    EXPECT_EQ(note("delayed_retry", none).name, "none") << none;
  const json set = {{"x-delayed-retry-type", "failed"},
                    {"x-delayed-retry-min", 1000},
                    {"x-delayed-retry-max", 3000},
                    {"x-delivery-limit", 5}};
  // 1 + 2 + 3 + 3 + 3
  const QueueNote fine = note("delayed_retry", set, Silence{Silence::Means::success, 13s});
  EXPECT_TRUE(fine.fine());
  EXPECT_THAT(fine.what, HasSubstr("up to 12s until the limit of 5"));
  const QueueNote silent = note("delayed_retry", set, Silence{Silence::Means::success, 12s});
  EXPECT_FALSE(silent.fine());
  EXPECT_THAT(silent.what, HasSubstr("longer than success.presumed_after (12s)"));
  EXPECT_THAT(note("delayed_retry", set, Silence{Silence::Means::failure, 2s}).what,
              HasSubstr("reported_within (2s): Rung counts a retry as failed"));
  EXPECT_TRUE(
      note("delayed_retry", {{"x-delayed-retry-type", "all"}}, std::nullopt, {{"delayed-retry-min", 10}})
          .fine())
      << "half by argument, half by policy";
}

TEST(QueueNotes, DelayedRetryWithoutAnEnd) {
  EXPECT_THAT(
      note("delayed_retry", {{"x-delayed-retry-type", "returned"}, {"x-delayed-retry-min", 1000}}).what,
      HasSubstr("never ends"));
  EXPECT_THAT(
      note("delayed_retry",
           {{"x-delayed-retry-type", "failed"}, {"x-delayed-retry-min", 1000}, {"x-delivery-limit", -1}})
          .what,
      HasSubstr("without a delivery limit it never ends"));
  // Numbers that anybody can set.
  const QueueNote large = note("delayed_retry", {{"x-delayed-retry-type", "failed"},
                                                 {"x-delayed-retry-min", 9'000'000'000'000'000'000},
                                                 {"x-delayed-retry-max", 9'000'000'000'000'000'000},
                                                 {"x-delivery-limit", 9'000'000'000'000'000'000}});
  EXPECT_THAT(large.what, HasSubstr("up to 3650d"));
}

TEST(QueueNotes, ConsumerTimeout) {
  EXPECT_EQ(note("consumer_timeout", json::object()).name, "none");
  EXPECT_THAT(note("consumer_timeout", json::object(), std::nullopt, {{"consumer-timeout", 60000}}).what,
              HasSubstr("unacked for 1m, and requeues"));
}

// `effective`: of the policy and an operator policy together; null: the broker does not tell.
std::set<std::string> notes_on(const json& arguments, const json& policy = json::object(),
                               const json& effective = {}) {
  rabbit::QueueFacts facts{std::nullopt, "p", "classic", "orders"};
  facts.arguments = arguments;
  facts.effective_policy = effective;
  std::set<std::string> names;
  for (const QueueNote& note : target_notes(facts, {{"p", ".*", "queues", policy, 0}})) {
    EXPECT_NE(note.fix, "");
    names.insert(note.name);
  }
  return names;
}
using Names = std::set<std::string>;

TEST(TargetNotes, NameEachSettingThatLosesARetry) {
  const json none = json::object();
  EXPECT_EQ(notes_on(none), Names{});
  EXPECT_EQ(notes_on({{"x-max-length", 10}, {"x-overflow", "reject-publish"}, {"x-message-ttl", 3'600'000}}),
            Names{});
  // It dead-letters what it refuses.
  EXPECT_EQ(notes_on({{"x-max-length", 10}, {"x-overflow", "reject-publish-dlx"}}), Names{"overflow"});
  EXPECT_EQ(notes_on(none, {{"overflow", "reject-publish-dlx"}}), Names{"overflow"});
  // It drops what it had confirmed.
  EXPECT_EQ(notes_on({{"x-max-length", 10}}), Names{"overflow"});
  EXPECT_EQ(notes_on({{"x-max-length-bytes", 10}, {"x-overflow", "drop-head"}}), Names{"overflow"});
  EXPECT_EQ(notes_on({{"x-max-length", 0}, {"x-overflow", "drop-head"}}), Names{"length"});
  EXPECT_EQ(notes_on({{"x-message-ttl", 0}}), Names{"ttl"});
  EXPECT_EQ(notes_on(none, {{"expires", 60'000}}), Names{"expires"});
  // An operator policy is in what is in effect, and in no list of policies.
  EXPECT_EQ(notes_on(none, none, {{"expires", 60'000}}), Names{"expires"});
  EXPECT_EQ(notes_on(none, none, {{"max-length", 10}}), Names{"overflow"});
  EXPECT_EQ(notes_on({{"x-message-ttl", 3'600'000}}, none, {{"message-ttl", 1000}}), Names{"ttl"});
  EXPECT_EQ(notes_on({{"x-message-ttl", 1000}}, none, {{"message-ttl", 3'600'000}}), Names{"ttl"});
}

TEST(TargetNotes, AQueueThatEndsWithItsConsumersOrTheBroker) {
  rabbit::QueueFacts facts{std::nullopt, "", "classic", "orders"};
  facts.auto_delete = true;
  facts.durable = false;
  EXPECT_EQ(target_notes(facts, {}).size(), 2U);
}

}  // namespace
}  // namespace rung::cli
