// Settings of others that harm Rung's own queues: told once, and a problem until they are mended.
#include "src/bridge/watch/settings_watch.h"

#include <gtest/gtest.h>

#include "tests/support/virtual_time.h"

namespace rung::bridge {
namespace {

TEST(SettingsWatch, TellsEachOnceAndHasAProblemUntilItIsMended) {
  const auto clock = std::make_shared<test::VirtualClock>();
  Health health{*clock, [] {}};
  std::vector<SystemEvent> events;
  SettingsWatch watch(health, [&](const char* kind, const std::string& subject, const std::string& detail) {
    events.push_back({0, {}, "", kind, subject, detail});
  });
  const HarmfulSetting ttl{true, "rung.failed", "policy 'all' sets message-ttl to 5000", "rabbitmqctl x"};
  const HarmfulSetting type{false, "rung.delay", "it is a quorum queue", "set broker.queue_type"};

  watch.found({});
  EXPECT_TRUE(events.empty());
  EXPECT_FALSE(health.has("settings"));

  for (int i = 0; i < 3; ++i) watch.found({ttl, type});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, "fatal_setting");
  EXPECT_EQ(events[0].subject, "rung.failed");
  EXPECT_EQ(events[1].kind, "harmful_setting");
  ASSERT_TRUE(health.has("settings"));
  EXPECT_EQ(
      health.problems()[0].detail,
      "rung.failed: policy 'all' sets message-ttl to 5000. Run: rabbitmqctl x (and 1 more: rung doctor)");
  EXPECT_EQ(watch.counts().fatal, 1U);
  EXPECT_EQ(watch.counts().harmful, 1U);

  watch.found({});
  EXPECT_FALSE(health.has("settings"));
  EXPECT_EQ(watch.counts().fatal, 0U);
  watch.found({ttl});
  EXPECT_EQ(events.size(), 3U) << "it is back";
}

}  // namespace
}  // namespace rung::bridge
