// The families of /metrics, by their names. docs/metrics.md describes each; tests/metrics_check compares.
// Part of Metrics: only its files include this.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <utility>

#include "src/http/metrics/metrics.h"

namespace rung::http {

using Counters = prometheus::Family<prometheus::Counter>;
using Gauges = prometheus::Family<prometheus::Gauge>;
using Histograms = prometheus::Family<prometheus::Histogram>;

// The gauges of a family whose labels come and go: with a reload, or as queues are paused.
// REQUIRES: Metrics::mutex_ is held.
class GaugesByLabels {
 public:
  explicit GaugesByLabels(Gauges& family) : family_(family) {}
  // Sets the given gauges and removes all others. A gauge left at its last value would keep an alert firing.
  void set(const std::map<prometheus::Labels, double>& now) {
    std::erase_if(gauges_, [&](const auto& gauge) {
      const bool goes = !now.contains(gauge.first);
      if (goes) family_.Remove(gauge.second);
      return goes;
    });
    for (const auto& [labels, value] : now) {
      auto& gauge = gauges_[labels];
      if (gauge == nullptr) gauge = &family_.Add(labels);
      gauge->Set(value);
    }
  }

 private:
  Gauges& family_;
  std::map<prometheus::Labels, prometheus::Gauge*> gauges_;
};

struct Metrics::Families {
  prometheus::Registry registry;
  Counters& requests = counter("rung_http_requests_total", "Requests answered, by route, method and status.");
  Histograms& seconds = histogram("rung_http_request_duration_seconds",
                                  "Time to answer a request, from its whole body, by route and method.");
  Counters& submitted =
      counter("rung_submitted_tasks_total", "Tasks submitted to this instance by HTTP, by result.");
  Counters& changes = counter("rung_changes_total",
                              "Changes of single tasks by HTTP at this instance, by action and result.");
  GaugesByLabels tasks{gauge("rung_tasks",
                             "Tasks in the database by queue and state, all instances. As of some seconds "
                             "ago. Queues that the config does not name are together in queue=\"(other)\".")};
  Gauges& overdue = gauge("rung_overdue_tasks", "Scheduled tasks that are overdue, all instances.");
  GaugesByLabels oldest_overdue{
      gauge("rung_oldest_overdue_seconds",
            "How long the scheduled task that is due longest has been due, by queue, all instances; 0 = none "
            "is. Without queues that a gate holds back.")};
  Gauges& unowned = gauge("rung_shards_unowned", "Shards that no live instance owns, of 64.");
  Gauges& nodes = gauge("rung_nodes", "Live instances, by the database.");
  Gauges& counted_at =
      gauge("rung_tasks_timestamp_seconds",
            "When this instance last read rung_tasks and the other figures of all instances.");
  Gauges& up = gauge("rung_up", "1 if this instance reaches the service, by service.");
  Counters& failures =
      counter("rung_failures_total",
              "Failures of this instance's tasks by queue: first failures and failed retries.");
  Gauges& reload_failed =
      gauge("rung_config_reload_failed", "1 if the config was not applied by the last reload.");
  Gauges& blocked = gauge("rung_broker_blocked", "1 while an alarm of the broker blocks publishing.");
  Gauges& shards = gauge("rung_shards_held", "Shards that this instance owns, of 64.");
  Counters& shards_gained = counter("rung_shards_gained_total", "Shards that this instance acquired.");
  Counters& shards_lost =
      counter("rung_shards_lost_total", "Shards whose lease ended against the will of this instance.");
  Counters& received = counter("rung_received_messages_total",
                               "Messages received from RabbitMQ, by inlet. Repeated deliveries count again.");
  Gauges& unacked = gauge("rung_unacked_messages", "Received messages that are not recorded and acked yet.");
  Gauges& intake_stalled =
      gauge("rung_intake_stalled_seconds",
            "For how long received messages have waited without any of them being acked; 0 = none waits.");
  Counters& results = counter("rung_results_total", "Messages on rung.results, by what they say.");
  Counters& taken_in =
      counter("rung_taken_in_tasks_total", "New tasks that this instance recorded, by queue and kind.");
  Counters& publishes =
      counter("rung_publishes_total",
              "Messages that this instance published when they were due, by queue and the broker's answer.");
  Counters& ended = counter("rung_deliveries_ended_total", "Deliveries that ended, by queue and outcome.");
  Counters& finished =
      counter("rung_finished_tasks_total", "Tasks that reached one of the final states, by queue and state.");
  Histograms& late_by_queue =
      histogram("rung_lateness_by_queue_seconds", "As rung_lateness_seconds, by queue.");
  Counters& promised = counter("rung_promised_deliveries_total",
                               "Confirmed deliveries to queues with late_by, by queue, and whether they were "
                               "within it: late only because of a gate is gated.");
  Gauges& ready =
      gauge("rung_ready_tasks", "Due tasks that this instance has in memory and has not claimed yet.");
  Gauges& loaded = gauge("rung_loaded_tasks", "Tasks whose due times this instance has in memory.");
  Gauges& connections = gauge("rung_http_connections", "Open HTTP connections of this instance.");
  Counters& purged =
      counter("rung_retention_deleted_total", "Items that retention of this instance has deleted, by kind.");
  Gauges& purged_at = gauge("rung_retention_last_timestamp_seconds",
                            "When retention of this instance last deleted something; 0 = never.");
  Gauges& retention = gauge("rung_retention_seconds", "The configured retention; 0 = nothing is deleted.");
  Gauges& purge_done = gauge("rung_retention_completed_timestamp_seconds",
                             "When retention of this instance last had nothing left to delete, or when this "
                             "instance took charge of it, whichever is later; 0 = it never was in charge.");
  Counters& results_refused =
      counter("rung_results_refused_total",
              "Results and failures that named a task without its delivery's retry-token, by inlet.");
  Gauges& problem = gauge("rung_problem", "1 while this instance has the problem; /readyz says what it is.");
  Counters& repairs = counter(
      "rung_topology_repairs_total",
      "Exchanges and queues of Rung that were missing in RabbitMQ and that this instance declared again.");
  Counters& rows_behind =
      counter("rung_rows_behind_total",
              "Results of deliveries that the task's row does not know: the database lost commits.");
  Counters& recognized = counter("rung_recognized_messages_total",
                                 "Messages at the intake that Rung recognized: repeats that it acked without "
                                 "a new row (duplicate, repeat), and messages with the headers of a "
                                 "retry (changed, child, elsewhere), by what they were.");
  Counters& refused_publishes = counter(
      "rung_refused_publishes_dead_lettered_total",
      "Publishes that a full queue refused and dead-lettered all the same: acked, no attempt counted.");
  Counters& without_origin =
      counter("rung_failures_without_origin_total",
              "Failures that a consumer published without the exchange and routing key of its message.");
  Counters& rules =
      counter("rung_rule_decisions_total", "Failures that a rule decided about, by rule, at this instance.");
  Histograms& lateness = histogram(
      "rung_lateness_seconds",
      "Time from a message's due time to the broker's confirm, for messages that this instance published.");
  Gauges& unconfirmed = gauge("rung_unconfirmed_messages",
                              "Messages that this instance has published and the broker has not confirmed.");
  Gauges& window =
      gauge("rung_publish_window", "The sum of the windows of the queues that this instance publishes to.");
  Gauges& quarantined = gauge("rung_quarantined_queues",
                              "Queues that held up a connection and are probed one message at a time.");
  GaugesByLabels attached{gauge(
      "rung_queue_attached", "1 if the queue's dead letters reach Rung; only queues that the config names.")};
  GaugesByLabels silences_held{gauge("rung_silences_held",
                                     "Deliveries whose silence is held open, by queue, all instances: their "
                                     "queue was not attached, so silence is no success.")};
  GaugesByLabels unread{
      gauge("rung_unread_messages",
            "Messages that wait in a queue without a consumer, if deliveries to it await an "
            "answer, by queue.")};
  Gauges& causes = gauge("rung_causes", "Causes of failures by their state of triage; all instances.");
  Gauges& causes_worse =
      gauge("rung_causes_worse", "Ignored causes that got worse and have not been triaged since.");
  GaugesByLabels cause_failures{
      gauge("rung_cause_failures",
            "Failures of the last hour of each cause that is new, got worse or has regressed, at most 100 "
            "causes; all instances.")};
  Counters& held_silences =
      counter("rung_silences_held_total",
              "Deliveries whose silence this instance held open instead of presuming success.");
  Counters& unverified =
      counter("rung_silences_unverified_total",
              "Successes that this instance presumed although nobody could tell whether the "
              "queue was attached, or whether the message had been read.");
  Gauges& error_queues =
      gauge("rung_error_queues", "Error queues that exist and that this instance consumes.");
  GaugesByLabels paused{
      gauge("rung_queue_paused", "1 for each queue that is paused; the others are not listed.")};
  GaugesByLabels closed{
      gauge("rung_queue_closed", "1 for each queue that gets no tasks, by the gate that holds them back.")};
  Gauges& behind_gates =
      gauge("rung_tasks_behind_gates",
            "Due tasks that wait behind a gate or for a rate, as far as this instance has them in memory.");
  Counters& rate_values = counter(
      "rung_rate_values_total",
      "Tasks whose header that rate_by names had no value (missing), or one that is no short text (digest).");
  Counters& breaker_changes =
      counter("rung_breaker_changes_total", "Breakers that opened or closed, as seen by this instance.");
  Counters& breaker_probes =
      counter("rung_breaker_probes_total", "Probes of breakers that this instance sent.");
  Counters& spans_exported =
      counter("rung_otel_spans_exported_total", "Spans that the collector has accepted from this instance.");
  Counters& spans_dropped =
      counter("rung_otel_spans_dropped_total",
              "Spans of this instance that were lost: the collector was away, slow, or refused them.");
  Counters& key_fetches =
      counter("rung_oidc_key_fetches_total",
              "Fetches of the identity provider's keys by this instance, by result (ok, failed).");
  Gauges& sign_in_keys = gauge(
      "rung_oidc_keys", "Keys of the identity provider that tokens may be signed with; 0: none is valid.");
  Gauges& build = gauge("rung_build_info",
                        "Always 1; the version is a label, and so is the group if the config has groups.");

  std::map<std::string, prometheus::Gauge*> problems;  // guarded by mutex_
  // Contents of the histograms; guarded by mutex_. "" = all queues.
  std::map<std::string, bridge::Lateness> late;

  Histograms& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  Counters& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Gauges& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
};

}  // namespace rung::http
