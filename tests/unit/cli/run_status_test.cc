#include <gtest/gtest.h>

#include "src/sidecar/parts.h"

namespace rung::sidecar {
namespace {

bridge::Vitals vitals(bool broker, bool database, int shards = 0) {
  bridge::Vitals made;
  made.broker_consuming = made.broker_publishing = broker;
  made.database = database;
  made.shards = shards;
  return made;
}

TEST(StatusLine, SaysWhatIsWaitedFor) {
  EXPECT_EQ(status_line(vitals(false, false), {}), "waiting for the broker and the database");
  EXPECT_EQ(status_line(vitals(false, true), {}), "waiting for the broker");
  EXPECT_EQ(status_line(vitals(true, false), {}), "waiting for the database");
  bridge::Vitals half = vitals(true, true);
  half.broker_publishing = false;
  EXPECT_EQ(status_line(half, {}), "waiting for the broker");
}

TEST(StatusLine, SaysWhoRefusesInOneLine) {
  EXPECT_EQ(status_line(vitals(true, false), {false, "the database refuses: Access denied\nfor 'rung'"}),
            "the database refuses: Access denied\\nfor 'rung'");
}

TEST(StatusLine, NamesTheProblemsOfOneThatServes) {
  bridge::Vitals serving = vitals(true, true, 64);
  EXPECT_EQ(status_line(serving, {true, ""}), "serving, holds 64 shards");
  serving.problems = {{"detached", "the queue orders is not attached", {0}, false},
                      {"clock", "it stepped", {0}, false}};
  EXPECT_EQ(status_line(serving, {true, ""}), "serving, holds 64 shards; problems: detached, clock");
}

}  // namespace
}  // namespace rung::sidecar
