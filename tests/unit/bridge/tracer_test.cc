// What the tracer is told, step by step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bridge/base/observers.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string parent_in(const Message& message) {
  const Value* parent = find(message.headers, "traceparent");
  return parent != nullptr && parent->as_text() != nullptr ? *parent->as_text() : "none";
}

struct Notes final : Tracer {
  void received(const NewTask& fresh, EpochMs now) override {
    add(fresh.task, "received, traceparent " + parent_in(*fresh.message));
    received_at = now;
  }
  void sent(const Task& task, const Outgoing& outgoing, EpochMs now) override {
    add(task, "sent " + std::to_string(task.attempt) + " to " + outgoing.routing_key + ", traceparent " +
                  parent_in(outgoing.message));
    sent_at = now;
  }
  void answered(const Task& task, const PublishResult& result, EpochMs now) override {
    add(task,
        "answer " + std::to_string(static_cast<int>(result.how)) + " for " + std::to_string(task.attempt));
    answered_at = now;
  }
  void decided(const Decision& decision) override {
    EXPECT_EQ(decision.verdict, Decision::Verdict::applied);
    std::string line(to_word(decision.task.state));
    if (decision.attempt && decision.attempt->outcome != Outcome::pending)
      line += ", " + std::to_string(decision.attempt->attempt) + " " +
              std::string(to_word(decision.attempt->outcome));
    add(decision.task, line);
    awaited_since = decision.awaited_since;
  }
  void add(const Task& task, const std::string& line) {
    id = task.id;
    lines.push_back(line);
  }
  std::vector<std::string> take() { return std::exchange(lines, {}); }

  TaskId id;  // of the last line
  std::vector<std::string> lines;
  EpochMs received_at, sent_at, answered_at;
  std::optional<EpochMs> awaited_since;
};

std::string answer(PublishResult::How how, int attempt) {
  return "answer " + std::to_string(static_cast<int>(how)) + " for " + std::to_string(attempt);
}

class TracedStory : public testing::Test {
 protected:
  TracedStory() { flow.take_shards(); }

  using How = PublishResult::How;
  Notes notes;
  World world;
  Flow flow{world, {.tracer = &notes}};
};

TEST_F(TracedStory, FromTheFailedMessageToTheSuccess) {
  ASSERT_TRUE(flow.put_failed("orders", "body", {{"traceparent", "00-ab"}}));
  world.loop.run_for(Ms{100});
  EXPECT_THAT(notes.take(), ElementsAre("received, traceparent 00-ab"));
  const TaskId id = world.rows().at(0).task.id;
  EXPECT_EQ(notes.id, id);
  EXPECT_GE(notes.received_at, world.row(id).created_at);

  world.loop.run_for(Ms{1500});
  EXPECT_THAT(notes.take(), ElementsAre("sent 1 to orders, traceparent 00-ab", answer(How::confirmed, 1)));
  EXPECT_GE(notes.answered_at, notes.sent_at);
  const EpochMs published = notes.answered_at;

  world.loop.run_for(Ms{300});
  ASSERT_TRUE(flow.say({id, event::Failed{1, "refused", "card", {}}}));
  EXPECT_THAT(notes.take(), ElementsAre("scheduled, 1 failed"));
  ASSERT_TRUE(notes.awaited_since);
  EXPECT_GE(*notes.awaited_since, published);
  EXPECT_LT(*notes.awaited_since, published + Ms{100}) << "when the confirm was recorded";

  world.loop.run_for(Ms{3000});
  EXPECT_THAT(notes.take(), ElementsAre("sent 2 to orders, traceparent 00-ab", answer(How::confirmed, 2)));
  ASSERT_TRUE(flow.say({id, event::Succeeded{2}}));
  EXPECT_THAT(notes.take(), ElementsAre("succeeded, 2 succeeded"));
  ASSERT_TRUE(flow.say({id, event::Succeeded{2}}));
  EXPECT_THAT(notes.take(), IsEmpty()) << "a repeat changes nothing";
}

}  // namespace
}  // namespace rung::bridge
