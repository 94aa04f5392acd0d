// Gates of the config, seen from outside: breaker, rate, rate_by, in_flight, window, retry-after.
#include <algorithm>
#include <ctime>

#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

class GatesOfTheConfig : public SidecarTest {
 protected:
  GatesOfTheConfig() {
    config.ladder = "[100ms, 100ms, 100ms, 100ms]";
    config.more = "lease: 3s\n";
  }
  // A queue with this gate, and so many sidecars.
  std::string gated(const std::string& gate, int sidecars = 1) {
    const std::string queue = new_name();
    config.queue(queue, "{ success: { reported_within: 60s }, gate: { " + gate + " } }");
    start();
    for (int i = 2; i <= sidecars; ++i) {
      SidecarConfig more = config;
      more.node = "node-" + std::to_string(i);
      others_.push_back(std::make_unique<Sidecar>(more));
      others_.back()->start();
      EXPECT_TRUE(others_.back()->wait_ready(kBound, static_cast<std::uint32_t>(i)));
    }
    EXPECT_TRUE(eventually([&] { return command("queues").code == 0; }, kBound)) << "it has the tables";
    rows("SELECT 1");  // into the schema
    EXPECT_TRUE(eventually(
        [&] { return db.value("SELECT COUNT(DISTINCT owner) FROM rung_shards") == std::to_string(sidecars); },
        kBound));
    declare_attached(queue);
    return queue;
  }
  void fail_many(const std::string& queue, int count, const std::string& tenant = "") {
    for (int i = 0; i < count; ++i) {
      Message message;
      message.properties.message_id = unique_name("m");
      message.body = "body";
      message.headers.emplace();
      if (!tenant.empty()) message.headers->emplace_back("tenant", tenant);
      message.headers->emplace_back("retry-queue", queue);
      message.headers->emplace_back("retry-error", "connection refused");
      ASSERT_TRUE(amqp.publish(failed(), "", message));
    }
  }
  // The consumer fails a delivery.
  void fail_again(const Received& got, const std::string& queue, const std::string& more_header = "",
                  const std::string& value = "") {
    Message message = got.message;
    message.headers->emplace_back("retry-queue", queue);
    message.headers->emplace_back("retry-error", "connection refused");
    if (!more_header.empty()) message.headers->emplace_back(more_header, value);
    ASSERT_TRUE(amqp.publish(failed(), "", message));
    amqp.ack(got);
  }
  Row gate_of(const std::string& queue) {
    auto found = rows("SELECT * FROM retry_queues WHERE queue = '" + queue + "'");
    return found.empty() ? Row{} : found.front();
  }
  Row wait_gate(const std::string& queue, const std::string& state) {
    Row row;
    EXPECT_TRUE(eventually([&] { return (row = gate_of(queue))["state"] == state; }, kBound))
        << row["state"] << "\n"
        << rung().log_tail();
    return row;
  }
  Ran command(const std::string& words) {
    return run_shell("'" + rung_program() + "' " + words + " -c '" + rung().config_path() + "'");
  }

 private:
  std::vector<std::unique_ptr<Sidecar>> others_;
};

TEST_F(GatesOfTheConfig, ABreakerOfThreeInstancesSendsOneProbeForEachWaitAndFlowsAtOnce) {
  config.ladder = "[2s, 2s, 2s, 2s]";  // longer than an instance needs to know that it is open
  const std::string queue = gated(
      "breaker: { open_after: 6, of_last: 10, wait: [3s], probes: 1, probe_timeout: 20s, close_after: 2 }",
      3);
  fail_many(queue, 24);
  std::vector<Received> before;
  for (int i = 0; i < 24; ++i) before.push_back(delivery(queue));
  for (const Received& got : before) fail_again(got, queue);
  Row row = wait_gate(queue, "breaker_open");
  EXPECT_NE(row["reason"].find("connection refused"), std::string::npos) << row["reason"];
  EXPECT_TRUE(rung().logged("breaker opened")) << rung().log_tail();

  const Received probe = delivery(queue);
  EXPECT_EQ(int_header(probe.message, "retry-attempt"), 2);
  expect_nothing(queue);  // one at a time, over three instances
  wait_gate(queue, "breaker_half_open");
  const std::int64_t probe_failed = wall_ms();
  fail_again(probe, queue);
  wait_gate(queue, "breaker_open");
  auto held = rows("SELECT * FROM retry_current WHERE queue = '" + queue + "' AND rule = 'breaker'");
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0]["retry_id"], retry_id(probe));
  EXPECT_EQ(held[0]["level"], "2") << "it failed at level 2, and stays there";
  EXPECT_EQ(held[0]["uncounted_attempts"], "1");

  const Received first = delivery(queue);
  EXPECT_GE(wall_ms() - probe_failed, 3000);
  report(first, "succeeded");
  const std::int64_t first_success = wall_ms();
  const Received second = delivery(queue);
  report(second, "succeeded");
  for (int i = 0; i < 22; ++i) report(delivery(queue), "succeeded");
  EXPECT_LE(wall_ms() - first_success, 30'000)
      << "all at once; one for each wait would take more than a minute";
  EXPECT_TRUE(eventually(
      [&] {
        return db.value("SELECT COUNT(*) FROM retry_current WHERE state = 'succeeded' AND queue = '" + queue +
                        "'") == "24";
      },
      kBound));
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_events WHERE kind = 'breaker_opened' AND subject = '" +
                     queue + "'"),
            "2");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_events WHERE kind = 'breaker_closed' AND subject = '" +
                     queue + "'"),
            "1");
}

TEST_F(GatesOfTheConfig, ARateHoldsOverTwoInstances) {
  const std::string queue = gated("rate: 20/s", 2);
  fail_many(queue, 300);
  Row row = wait_gate(queue, "rate_limited");
  EXPECT_EQ(row["reason"], "rate 20/s");
  EXPECT_GT(std::stoi(row["waiting"]), 0);
  constexpr std::size_t kMore = 100;
  ASSERT_EQ(amqp.take(queue, kMore, kBound).size(), kMore);
  // From before the first was sent until after the last was received: a busy machine only makes it longer.
  const double seconds = std::stod(db.value("SELECT TIMESTAMPDIFF(MICROSECOND, MIN(due_at), "
                                            "UTC_TIMESTAMP(6)) FROM retry_history WHERE queue = '" +
                                            queue + "'")) /
                         1e6;
  EXPECT_LE(kMore, 20 * seconds * 1.05 + 5) << "in " << seconds << " s";
}

TEST_F(GatesOfTheConfig, ASlowTenantDelaysNoOther) {
  const std::string queue = gated("rate_by: { header: tenant, rate: 2/s }");
  fail_many(queue, 100, "slow");
  delivery(queue);
  fail_many(queue, 1, "quick");
  EXPECT_TRUE(eventually(
      [&] {
        return db.value(
                   "SELECT COUNT(*) FROM retry_history h JOIN rung_bodies b ON b.task_id = h.retry_id "
                   "WHERE CONVERT(b.headers USING utf8mb4) LIKE '%quick%'") == "1";
      },
      kBound))
      << "at once, and not after 50 s";
}

TEST_F(GatesOfTheConfig, NoValueOfAHeaderEvadesItsRate) {
  const std::string queue = gated("rate_by: { header: tenant, rate: 1/m }");
  const std::vector<Value> values{Value("acme"),
                                  Value(true),
                                  Value(Decimal{2, 314}),
                                  Value(Timestamp{1'700'000'000}),
                                  Value(Bytes{"\xff\x01"}),
                                  Value(std::string("\xfe\xff")),
                                  Value(std::string(300, 'v')),
                                  Value(Table{{"name", "acme"}}),
                                  Value(Array{Value("acme")}),
                                  Value("")};
  for (int i = 0; i < 3; ++i) {
    for (const Value& value : values) {
      Message message;
      message.body = "body";
      message.headers = Table{{"tenant", value}, {"retry-queue", queue}, {"retry-error", "no"}};
      ASSERT_TRUE(amqp.publish(failed(), "", message));
    }
  }
  fail_many(queue, 3);  // without the header: as with an empty one
  EXPECT_EQ(amqp.take(queue, values.size(), kBound).size(), values.size()) << "one of each value";
  expect_nothing(queue);
  EXPECT_TRUE(rung().logged("rate_by: a header without a usual value")) << rung().log_tail();
}

TEST_F(GatesOfTheConfig, NoMoreInFlightThanAllowed) {
  const std::string queue = gated("in_flight: 5", 2);
  fail_many(queue, 20);
  std::vector<Received> out;
  for (int i = 0; i < 5; ++i) out.push_back(delivery(queue));
  expect_nothing(queue);
  for (int i = 0; i < 15; ++i) {
    report(out[static_cast<std::size_t>(i)], "succeeded");
    out.push_back(delivery(queue));
  }
  expect_nothing(queue);
}

TEST_F(GatesOfTheConfig, OutsideItsWindowNothingGoes) {
  // Closed now: it was open an hour ago.
  const auto clock = [](std::time_t at) {
    char text[6];
    std::tm parts{};
    (void)::gmtime_r(&at, &parts);
    (void)std::strftime(text, sizeof text, "%H:%M", &parts);
    return std::string(text);
  };
  const std::time_t now = std::time(nullptr);
  const std::string window = clock(now - 7200) + "-" + clock(now - 3600);
  const std::string queue = gated("window: { allow: \"" + window + "\", zone: UTC }");
  fail_many(queue, 1);
  EXPECT_TRUE(eventually([&] { return current(queue).size() == 1; }, kBound));
  expect_nothing(queue);
  Row row = wait_gate(queue, "outside_window");
  EXPECT_NE(row["reason"].find(window), std::string::npos) << row["reason"];
  const Ran shown = command("show " + current(queue)[0]["retry_id"]);
  EXPECT_NE(shown.out.find("window"), std::string::npos) << shown.out;
}

TEST_F(GatesOfTheConfig, ARetryAfterHoldsBackTheWholeQueue) {
  const std::string queue = gated("retry_after: { cap: 3s, pauses: queue }");
  fail_many(queue, 1);
  const Received first = delivery(queue);
  const std::int64_t begun = wall_ms();
  fail_again(first, queue, "retry-after", "3600");
  Row row = wait_gate(queue, "paused");
  EXPECT_EQ(row["by"], "retry-after");
  fail_many(queue, 3);
  for (int i = 0; i < 4; ++i) {
    amqp.ack(delivery(queue));
    EXPECT_GE(wall_ms() - begun, 3000);
  }
}

}  // namespace
}  // namespace rung::test
