// When a queue that is not attached is a problem, and what is recorded.
#include "src/bridge/watch/attachments.h"

#include <gmock/gmock.h>

#include "tests/support/clock.h"

namespace rung::bridge {
namespace {

using Found = QueueAttachment::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AttachmentsTest : public ::testing::Test {
 protected:
  void found(const std::string& queue, Found state, Ms at = Ms{0}) {
    attachments.found({{{queue, state, "detail", "rung attach " + queue, "rabbitmqctl"}}, {}, {}}, {"orders"},
                      BootMs{1} + at);
  }
  bool problem() const { return health.has("detached"); }

  Health health{test_clock(), [] {}};
  std::vector<std::string> events;
  Attachments attachments{health, [this](const std::string& kind, const std::string& subject,
                                         const std::string&) { events.push_back(kind + " " + subject); }};
};

TEST_F(AttachmentsTest, AConfiguredQueueThatIsDetached) {
  found("orders", Found::attached);
  EXPECT_FALSE(problem());
  found("orders", Found::detached);
  ASSERT_TRUE(problem());
  EXPECT_THAT(health.problems()[0].detail, HasSubstr("rung attach orders"));
  EXPECT_FALSE(health.problems()[0].not_ready);
  EXPECT_THAT(attachments.configured(), ElementsAre(std::pair<std::string, bool>("orders", false)));
  found("orders", Found::detached);
  found("orders", Found::attached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(events, ElementsAre("queue_detached orders", "queue_attached orders"));
}

TEST_F(AttachmentsTest, AConfiguredQueueThatNeverWas) {
  found("orders", Found::detached);
  EXPECT_TRUE(problem());
  // Its consumer publishes failures by itself: no attachment is needed.
  attachments.seen("orders");
  found("orders", Found::detached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(events, ElementsAre());
}

// It may be a dead-letter queue, which needs no attachment.
TEST_F(AttachmentsTest, AQueueThatMatchesAPattern) {
  const auto look = [&](Found state) {
    AttachmentLook seen;
    seen.queues = {{"orders.eu", state, "detail", "rung attach orders.eu", "rabbitmqctl"}};
    seen.matched = {"orders.eu"};
    attachments.found(seen, {}, BootMs{1});
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
  found("other", Found::detached, Ms{1000});
  EXPECT_TRUE(problem());
  found("other", Found::detached, Attachments::kRemember + Ms{2000});
  EXPECT_FALSE(problem());
  EXPECT_THAT(attachments.configured(), ElementsAre());
}

TEST_F(AttachmentsTest, UnknownRaisesAndClearsNothing) {
  found("orders", Found::unknown);
  EXPECT_FALSE(problem());
  found("orders", Found::detached);
  found("orders", Found::unknown);
  EXPECT_TRUE(problem());
  EXPECT_THAT(attachments.configured(), ElementsAre());
}

TEST_F(AttachmentsTest, AQueueThatIsUnknownHidesNoOthers) {
  const auto look = [&](Found orders, Found invoices) {
    AttachmentLook looked{{{"orders", orders, "", "rung attach orders", ""},
                           {"invoices", invoices, "", "rung attach invoices", ""}},
                          {},
                          BootMs{1}};
    attachments.found(looked, {"orders", "invoices"}, BootMs{1});
  };
  look(Found::unknown, Found::detached);
  EXPECT_TRUE(problem());
  look(Found::detached, Found::attached);
  look(Found::unknown, Found::attached);
  EXPECT_TRUE(problem()) << "orders is as it was last seen";
  look(Found::attached, Found::unknown);
  EXPECT_FALSE(problem());
}

TEST_F(AttachmentsTest, AQueueThatIsGoneIsNoProblem) {
  found("orders", Found::no_queue);
  EXPECT_FALSE(problem());
  found("orders", Found::attached);
  found("orders", Found::no_queue);
  EXPECT_FALSE(problem());
}

TEST_F(AttachmentsTest, SeenQueuesAreBounded) {
  for (std::size_t i = 0; i < Attachments::kMostSeen + 10; ++i) attachments.seen("q" + std::to_string(i));
  EXPECT_EQ(attachments.to_watch({}).size(), Attachments::kMostSeen);
}

}  // namespace
}  // namespace rung::bridge
