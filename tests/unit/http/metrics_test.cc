#include "src/http/metrics/metrics.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/clock.h"

namespace rung::http {
namespace {

using bridge::FlowCounts;

class MetricsText : public testing::Test {
 protected:
  void scrape(const std::optional<Vitals>& vitals) { text = metrics.text(vitals, 1); }
  // The value of a line of the last scrape; nothing if there is none.
  std::string value(const std::string& series) const {
    const std::size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "";
    const std::size_t from = at + series.size() + 2;
    return text.substr(from, text.find('\n', from) - from);
  }

  Metrics metrics{"1.2.3", "", test_clock()};
  std::string text;
};

TEST_F(MetricsText, WhatAnInstanceCounts) {
  Vitals v;
  v.broker_consuming = v.broker_publishing = true;
  v.received = {1, 2, 3, 4};
  v.unacked = 7;
  v.intake_stalled = Ms{2500};
  v.results = {5, 6, 7};
  v.shards_gained = 64;
  v.shards_lost = 3;
  v.ready = 8;
  v.loaded = 9;
  FlowCounts::Queue orders;
  orders.taken_in = {10, 11};
  orders[PublishResult::How::confirmed] = 12;
  orders[PublishResult::How::nacked] = 13;
  orders[PublishResult::How::rejected] = 14;
  orders[FlowCounts::Ended::presumed] = 15;
  orders[State::discarded] = 16;
  orders.late.add(Ms{1500});
  orders.promised = {17, 18, 19};
  v.flow["invoices"] = {};
  v.flow["mails"].late_by = Ms{1000};
  v.flow["orders"] = orders;
  scrape(v);
  EXPECT_EQ(value("rung_received_messages_total{inlet=\"failed\"}"), "1");
  EXPECT_EQ(value("rung_received_messages_total{inlet=\"results\"}"), "2");
  EXPECT_EQ(value("rung_received_messages_total{inlet=\"delay\"}"), "3");
  EXPECT_EQ(value("rung_received_messages_total{inlet=\"error\"}"), "4");
  EXPECT_EQ(value("rung_unacked_messages"), "7");
  EXPECT_EQ(value("rung_intake_stalled_seconds"), "2.5");
  EXPECT_EQ(value("rung_results_total{result=\"malformed\"}"), "7");
  EXPECT_EQ(value("rung_shards_gained_total"), "64");
  EXPECT_EQ(value("rung_shards_lost_total"), "3");
  EXPECT_EQ(value("rung_ready_tasks"), "8");
  EXPECT_EQ(value("rung_loaded_tasks"), "9");
  EXPECT_EQ(value("rung_taken_in_tasks_total{kind=\"retry\",queue=\"orders\"}"), "10");
  EXPECT_EQ(value("rung_taken_in_tasks_total{kind=\"delay\",queue=\"orders\"}"), "11");
  EXPECT_EQ(value("rung_publishes_total{queue=\"orders\",result=\"confirmed\"}"), "12");
  EXPECT_EQ(value("rung_publishes_total{queue=\"orders\",result=\"refused\"}"), "13");
  EXPECT_EQ(value("rung_publishes_total{queue=\"orders\",result=\"rejected\"}"), "14");
  EXPECT_EQ(value("rung_deliveries_ended_total{outcome=\"presumed\",queue=\"orders\"}"), "15");
  EXPECT_EQ(value("rung_finished_tasks_total{queue=\"orders\",state=\"discarded\"}"), "16");
  EXPECT_EQ(value("rung_promised_deliveries_total{outcome=\"in_time\",queue=\"orders\"}"), "17");
  EXPECT_EQ(value("rung_promised_deliveries_total{outcome=\"late\",queue=\"orders\"}"), "18");
  EXPECT_EQ(value("rung_promised_deliveries_total{outcome=\"gated\",queue=\"orders\"}"), "19");
  EXPECT_EQ(value("rung_promised_deliveries_total{outcome=\"late\",queue=\"mails\"}"), "0")
      << "rates see the first one";
  EXPECT_EQ(text.find("rung_promised_deliveries_total{outcome=\"late\",queue=\"invoices\"}"),
            std::string::npos)
      << "no promise";
  EXPECT_EQ(value("rung_lateness_by_queue_seconds_sum{queue=\"orders\"}"), "1.5");
  EXPECT_EQ(value("rung_lateness_by_queue_seconds_bucket{queue=\"orders\",le=\"1\"}"), "0");
  EXPECT_EQ(value("rung_lateness_by_queue_seconds_bucket{queue=\"orders\",le=\"5\"}"), "1");
}

// A loop that does not answer must not look like a restart, nor resolve an alert.
TEST_F(MetricsText, FailuresAreFirstOnesAndFailedRetries) {
  Vitals v;
  FlowCounts::Queue orders;
  orders.taken_in = {10, 1000};
  orders[FlowCounts::Ended::succeeded] = 1000;
  orders[FlowCounts::Ended::presumed] = 1000;
  orders[FlowCounts::Ended::failed] = 3;
  orders[FlowCounts::Ended::timed_out] = 20;
  orders[FlowCounts::Ended::returned] = 100;
  v.flow["orders"] = orders;
  scrape(v);
  EXPECT_EQ(value("rung_failures_total{queue=\"orders\"}"), "133");
}

TEST_F(MetricsText, AFailedReloadUntilOneSucceeds) {
  Vitals v;
  scrape(v);
  EXPECT_EQ(value("rung_config_reload_failed"), "0");
  v.problems = {{"config", "the last reload failed: ...", {}, false}};
  scrape(v);
  EXPECT_EQ(value("rung_config_reload_failed"), "1");
  EXPECT_EQ(value("rung_problem{problem=\"config\"}"), "1");
  v.problems.clear();
  scrape(v);
  EXPECT_EQ(value("rung_config_reload_failed"), "0");
}

// Beyond a bound, queues that match a pattern are counted together.
TEST_F(MetricsText, QueuesThatShareALabel) {
  Metrics::Totals totals;
  for (const char* queue : {"orders.1", "orders.2", "orders.3"}) {
    QueueStat stat;
    stat.queue = queue;
    stat.state = State::parked;
    stat.tasks = 5;
    totals.by_queue.push_back(stat);
  }
  totals.labels = {{"orders.2", "orders.*"}, {"orders.3", "orders.*"}};
  metrics.totals(totals, {"orders.*", "orders.1"});
  scrape(Vitals{});
  EXPECT_EQ(value("rung_tasks{queue=\"orders.1\",state=\"parked\"}"), "5");
  EXPECT_EQ(value("rung_tasks{queue=\"orders.*\",state=\"parked\"}"), "10");
  EXPECT_EQ(value("rung_tasks{queue=\"(other)\",state=\"parked\"}"), "0");
}

TEST_F(MetricsText, ALoopThatDoesNotAnswerResetsNothing) {
  Vitals v;
  v.broker_consuming = v.broker_publishing = v.database = true;
  v.shards = 64;
  v.topology_repairs = 2;
  v.flow["orders"].late.add(Ms{20});
  v.problems = {{"topology", "a reason", EpochMs{1}}};
  v.flow["orders"].taken_in = {5, 0};
  scrape(v);
  EXPECT_EQ(value("rung_up{service=\"broker\"}"), "1");
  EXPECT_EQ(value("rung_problem{problem=\"loop\"}"), "");
  scrape(std::nullopt);
  EXPECT_EQ(value("rung_up{service=\"broker\"}"), "0");
  EXPECT_EQ(value("rung_up{service=\"database\"}"), "0");
  EXPECT_EQ(value("rung_problem{problem=\"loop\"}"), "1");
  EXPECT_EQ(value("rung_problem{problem=\"topology\"}"), "1");
  EXPECT_EQ(value("rung_shards_held"), "64");
  EXPECT_EQ(value("rung_topology_repairs_total"), "2");
  EXPECT_EQ(value("rung_lateness_seconds_count"), "1");
  EXPECT_EQ(value("rung_taken_in_tasks_total{kind=\"retry\",queue=\"orders\"}"), "5");
  v.problems.clear();
  v.flow["orders"].taken_in = {7, 0};
  scrape(v);
  EXPECT_EQ(value("rung_problem{problem=\"loop\"}"), "0");
  EXPECT_EQ(value("rung_problem{problem=\"topology\"}"), "0");
  EXPECT_EQ(value("rung_taken_in_tasks_total{kind=\"retry\",queue=\"orders\"}"), "7");
}

TEST_F(MetricsText, FiguresOfTheDatabase) {
  Metrics::Totals totals;
  totals.now = EpochMs{1'000'000};
  const EpochMs earlier = totals.now - Ms{90'500}, later = totals.now + Ms{5000};
  totals.by_queue = {{"orders", State::scheduled, 4, earlier, 2},
                     {"orders", State::parked, 3, std::nullopt, 0},
                     {"mails", State::scheduled, 1, later, 0},
                     {"paused", State::scheduled, 1, totals.now - Ms{900'000}, 1},
                     {"unnamed", State::scheduled, 1, totals.now - Ms{4000}, 1}};
  totals.held_back = {"paused"};
  totals.nodes = 2;
  totals.unowned = 5;
  metrics.totals(totals, {"orders", "mails", "quiet"});
  scrape(Vitals{});
  EXPECT_EQ(value("rung_tasks{queue=\"orders\",state=\"scheduled\"}"), "4");
  EXPECT_EQ(value("rung_tasks{queue=\"orders\",state=\"parked\"}"), "3");
  EXPECT_EQ(value("rung_tasks{queue=\"(other)\",state=\"scheduled\"}"), "2");
  EXPECT_EQ(value("rung_tasks{queue=\"quiet\",state=\"awaiting\"}"), "0");
  EXPECT_EQ(value("rung_overdue_tasks"), "4");
  EXPECT_EQ(value("rung_oldest_overdue_seconds{queue=\"orders\"}"), "90.5");
  EXPECT_EQ(value("rung_oldest_overdue_seconds{queue=\"mails\"}"), "0");
  EXPECT_EQ(value("rung_oldest_overdue_seconds{queue=\"quiet\"}"), "0");
  // What waits behind a gate is late by intent.
  EXPECT_EQ(value("rung_oldest_overdue_seconds{queue=\"(other)\"}"), "4");
  EXPECT_EQ(value("rung_nodes"), "2");
  EXPECT_EQ(value("rung_shards_unowned"), "5");
  EXPECT_GT(std::stod(value("rung_tasks_timestamp_seconds")), 0);
  // After a reload: the last figure of a queue that the config no longer names would keep an alert firing.
  metrics.totals(totals, {"mails"});
  scrape(Vitals{});
  EXPECT_EQ(value("rung_oldest_overdue_seconds{queue=\"orders\"}"), "");
  EXPECT_EQ(value("rung_oldest_overdue_seconds{queue=\"(other)\"}"), "90.5");
  EXPECT_EQ(value("rung_tasks{queue=\"orders\",state=\"scheduled\"}"), "");
  EXPECT_EQ(value("rung_tasks{queue=\"(other)\",state=\"scheduled\"}"), "6");
}

TEST_F(MetricsText, Retention) {
  Vitals v;
  scrape(v);
  EXPECT_EQ(value("rung_retention_seconds"), "0");
  EXPECT_EQ(value("rung_retention_completed_timestamp_seconds{what=\"tasks\"}"), "0");
  v.retention.keep = Ms{3'600'000};
  v.retention.totals.tasks = 3;
  v.retention.tasks_done = EpochMs{5000};
  v.retention.partitions_done = EpochMs{4000};
  scrape(v);
  EXPECT_EQ(value("rung_retention_seconds"), "3600");
  EXPECT_EQ(value("rung_retention_deleted_total{what=\"tasks\"}"), "3");
  EXPECT_EQ(value("rung_retention_completed_timestamp_seconds{what=\"tasks\"}"), "5");
  EXPECT_EQ(value("rung_retention_completed_timestamp_seconds{what=\"partitions\"}"), "4");
}

}  // namespace
}  // namespace rung::http
