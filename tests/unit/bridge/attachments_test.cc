// When a queue that is not attached is a problem, and what is recorded.
#include "src/bridge/watch/attachments.h"

#include <gmock/gmock.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using Found = AttachmentState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AttachmentsTest : public ::testing::Test {
 protected:
  // By two looks: the second one decides.
  void found(const std::string& queue, std::optional<Found> state) {
    for (int i = 0; i < 2; ++i)
      attachments.found({{{queue, state, "detail", "rung attach " + queue, "rabbitmqctl"}}, {}, {}},
                        {"orders"});
  }
  bool problem() const { return flow.health.has("detached"); }
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (const SystemEvent& event : flow.events) out.push_back(event.kind + " " + event.subject);
    return out;
  }

  World world;
  Flow flow{world};
  Attachments& attachments = flow.attachments;
};

TEST_F(AttachmentsTest, AConfiguredQueueThatIsDetached) {
  found("orders", Found::attached);
  EXPECT_FALSE(problem());
  found("orders", Found::detached);
  ASSERT_TRUE(problem());
  EXPECT_THAT(flow.health.problems()[0].detail, HasSubstr("rung attach orders"));
  EXPECT_FALSE(flow.health.problems()[0].not_ready);
  EXPECT_THAT(attachments.configured(), ElementsAre(std::pair<std::string, bool>("orders", false)));
  found("orders", Found::detached);
  found("orders", Found::attached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(events(), ElementsAre("queue_detached orders", "queue_attached orders"));
}

// Between its two requests a policy is replaced: the look sees neither.
TEST_F(AttachmentsTest, ASingleLookDoesNotDetach) {
  found("orders", Found::attached);
  attachments.found({{{"orders", Found::detached, "", "", ""}}, {}, {}}, {"orders"});
  EXPECT_FALSE(problem());
  EXPECT_THAT(events(), ElementsAre());
}

TEST_F(AttachmentsTest, AConfiguredQueueThatNeverWas) {
  found("orders", Found::detached);
  EXPECT_TRUE(problem());
  // Its consumer publishes failures by itself: no attachment is needed.
  attachments.seen("orders");
  found("orders", Found::detached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(events(), ElementsAre());
}

// It may be a dead-letter queue, which needs no attachment.
TEST_F(AttachmentsTest, AQueueThatMatchesAPattern) {
  const auto look = [&](Found state) {
    AttachmentLook seen;
    seen.queues = {{"orders.eu", state, "detail", "rung attach orders.eu", "rabbitmqctl"}};
    seen.matched = {"orders.eu"};
    for (int i = 0; i < 2; ++i) attachments.found(seen, {});
  };
  look(Found::detached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(attachments.configured(), ElementsAre(std::pair<std::string, bool>("orders.eu", false)));
  look(Found::attached);
  EXPECT_THAT(attachments.configured(), ElementsAre(std::pair<std::string, bool>("orders.eu", true)));
  look(Found::detached);
  EXPECT_TRUE(problem()) << "it was attached";
}

TEST_F(AttachmentsTest, AQueueThatTheConfigDoesNotName) {
  attachments.seen("other");
  EXPECT_THAT(attachments.to_watch({"orders"}), ElementsAre("orders", "other"));
  found("other", Found::detached);
  EXPECT_FALSE(problem());
  found("other", Found::attached);
  found("other", Found::detached);
  EXPECT_TRUE(problem());
  world.loop.run_for(Attachments::kRemember + Ms{1000});
  found("other", Found::detached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(attachments.configured(), ElementsAre());
}

TEST_F(AttachmentsTest, UnknownRaisesAndClearsNothing) {
  found("orders", std::nullopt);
  EXPECT_FALSE(problem());
  found("orders", Found::detached);
  found("orders", std::nullopt);
  EXPECT_TRUE(problem());
  EXPECT_THAT(attachments.configured(), ElementsAre());
}

TEST_F(AttachmentsTest, AQueueThatIsUnknownHidesNoOthers) {
  const auto look = [&](std::optional<Found> orders, std::optional<Found> invoices) {
    AttachmentLook looked{{{"orders", orders, "", "rung attach orders", ""},
                           {"invoices", invoices, "", "rung attach invoices", ""}},
                          {},
                          BootMs{1}};
    for (int i = 0; i < 2; ++i) attachments.found(looked, {"orders", "invoices"});
  };
  look(std::nullopt, Found::detached);
  EXPECT_TRUE(problem());
  look(Found::detached, Found::attached);
  look(std::nullopt, Found::attached);
  EXPECT_TRUE(problem()) << "orders is as it was last seen";
  look(Found::attached, std::nullopt);
  EXPECT_FALSE(problem());
}

TEST_F(AttachmentsTest, AQueueThatIsGoneIsNoProblem) {
  found("orders", Found::gone);
  EXPECT_FALSE(problem());
  found("orders", Found::attached);
  found("orders", Found::gone);
  EXPECT_FALSE(problem());
}

TEST_F(AttachmentsTest, SeenQueuesAreBounded) {
  for (std::size_t i = 0; i < Attachments::kMostSeen + 10; ++i) attachments.seen("q" + std::to_string(i));
  EXPECT_EQ(attachments.to_watch({}).size(), Attachments::kMostSeen);
}

}  // namespace
}  // namespace rung::bridge
