// simulate on the history of a real database; and on files.
#include <fmt/format.h>

#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr const char* kRecordedConfig = "ladders: { default: [5s, 30s, 1m] }\n";

class Simulate : public CliTest {
 protected:
  // A task that failed an hour ago, and then at each of these levels of kRecordedConfig; with `works`, the
  // last delivery succeeded.
  TaskId recorded(const std::string& queue, const std::string& type, int attempts, bool works) {
    NewTask n = fresh(queue, 0s);
    const EpochMs began = n.task.created_at - 1h;
    n.task.first_failed_at = n.task.created_at = began;
    n.task.error_type = type;
    n.task.last_error = type + ": again";
    n.origin_json = json{{"retry-error", type + ": first"}, {"retry-error-type", type}}.dump();
    n.task.attempt = n.task.level = attempts;
    n.task.next_at.reset();
    n.task.finished_at = began + 10min;
    n.task.state = works ? State::succeeded : State::parked;
    n.task.finished_by = works ? FinishedBy::reported : FinishedBy::nobody;
    const TaskId id = insert(n);
    EpochMs at = began;
    for (int attempt = 1; attempt <= attempts; ++attempt) {
      at = at + std::vector<Ms>{5s, 30s, 1min}[static_cast<std::size_t>(attempt - 1)];
      const bool last = works && attempt == attempts;
      // Published and answered a little late, as in reality.
      db.exec(
          fmt::format("INSERT INTO rung_attempts (task_id, attempt, level, due_at, published_at, outcome, "
                      "outcome_at, error) VALUES ({}, {}, {}, '{}', '{}', '{}', '{}', '{}: again')",
                      id.value, attempt, attempt, format_utc(at), format_utc(at + 7ms),
                      last ? "succeeded" : "failed", format_utc(at + 27ms), type));
      at = at + 27ms;
    }
    return id;
  }
};

TEST_F(Simulate, TheSameConfigRepeatsTheHistory) {
  for (int i = 0; i < 5; ++i) recorded("orders", "HttpError", 3, true);
  for (int i = 0; i < 3; ++i) recorded("orders", "HttpError", 2, true);
  for (int i = 0; i < 2; ++i) recorded("orders", "ValidationError", 3, false);
  recorded("invoices", "HttpError", 1, true);
  write_config(kRecordedConfig);
  const json result = rung_json({"simulate", "--queue", "orders"});
  for (const char* side : {"tried", "beside"}) {
    EXPECT_EQ(result[side]["messages"], 10) << side;
    EXPECT_EQ(result[side]["attempts"], 27) << side;
    EXPECT_EQ(result[side]["succeeded"], 8) << side;
    EXPECT_EQ(result[side]["parked"], 2) << side;
    EXPECT_EQ(result[side]["waiting"], 0) << side;
  }
  EXPECT_EQ(result["beside"]["source"], "history");
  EXPECT_EQ(result["beside"]["breaker_openings"], nullptr);
  EXPECT_EQ(result["cut"], false);
}

TEST_F(Simulate, AnotherConfigDoesOtherThings) {
  for (int i = 0; i < 5; ++i) recorded("orders", "HttpError", 3, true);
  recorded("orders", "ValidationError", 3, false);
  write_config(
      "ladders: { default: [2m, 10m] }\n"
      "rules: { shop: [{ when: { type: ValidationError }, then: park }] }\n"
      "queues: { orders: { rules: shop } }\n");
  const json result = rung_json({"simulate", "--queue", "orders", "--from-history", "2h"});
  EXPECT_EQ(result["tried"]["attempts"], 5);
  EXPECT_EQ(result["tried"]["succeeded"], 5);
  EXPECT_EQ(result["tried"]["parked"], 1);
  EXPECT_EQ(result["tried"]["until_success_median_ms"], 120'000);
  EXPECT_EQ(result["beside"]["attempts"], 18);
  const Ran text = rung({"simulate", "--queue", "orders"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("queue orders: 6 failed messages"),
                              ContainsRegex("attempts \\(deliveries\\) +5 +18\n"),
                              HasSubstr("load on the target"), HasSubstr("what happened")));
}

TEST_F(Simulate, ReadsNoMoreThanTheLimit) {
  for (int i = 0; i < 5; ++i) recorded("orders", "HttpError", 1, true);
  const json result = rung_json({"simulate", "--queue", "orders", "--limit", "3"});
  EXPECT_EQ(result["tried"]["messages"], 3);
  EXPECT_EQ(result["cut"], true);
  EXPECT_THAT(rung({"simulate", "--queue", "orders", "--limit", "3"}).out, HasSubstr("raise --limit"));
}

}  // namespace
}  // namespace rung::cli
