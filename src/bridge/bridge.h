// The sidecar: failed messages in, rows, due times, retries out, results in. Knows Broker and Store only as
// interfaces. Thread: the loop's, for this and all its components unless they say otherwise.
//
// The composition root: creates the components of the flow, one file each, and connects them. It has a member
// for each, because they depend on each other in cycles (a claim is postponed into the heap, whose due times
// become claims; a change of a task affects both), and the class that knows them all must own them all. The
// components hold the state; Bridge itself has only the rules.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/changes/inserts.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/due.h"
#include "src/bridge/flight/gates.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/intake/intake.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/bridge/leases/jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/upkeep/janitor.h"
#include "src/bridge/upkeep/retention.h"
#include "src/bridge/vitals.h"
#include "src/bridge/watch/attachments.h"
#include "src/bridge/watch/broker_watch.h"
#include "src/bridge/watch/store_watch.h"

namespace rung::bridge {

class Bridge final : public BrokerSink {
 public:
  // `name_taken`: another process uses our node name; the owner should end this process.
  Bridge(io::Loop& loop, Broker& broker, const StoreJobsMaker& make_jobs, BridgeSettings settings,
         RuleBookPtr rules, std::function<void()> name_taken);

  // Fails only for errors that retrying cannot fix.
  Result<void> start();
  // Stops intake, completes the work under way, releases the shards, then calls `done`. The caller sets the
  // timeout.
  void drain(std::function<void()> done);
  // Releases the shards at once: for a drain that takes too long.
  void give_back(std::function<void()> done);
  // Ends all jobs and the broker's threads; false if one hangs in a call for longer than `most`. REQUIRES:
  // the loop has stopped.
  bool stop(Ms most);

  // By hand, without the broker. Any thread; `done` is called on the loop. See inserts.h.
  void submit(std::vector<Submission> batch, Inserts::SubmitDone done) {
    inserts_.submit(std::move(batch), std::move(done));
  }
  void change(std::vector<Event> events, Inserts::ChangeDone done) {
    inserts_.change(std::move(events), std::move(done));
  }

  Vitals vitals() const;
  StartState start_state() const;

  // New ladders and queues apply from each task's next step on, a new retention at once.
  void reload(const RuleBookPtr& rules, std::optional<Ms> retention);

  // A fingerprint of the config in effect, for `rung nodes`.
  void set_config(std::string fingerprint) { shards_.set_config(std::move(fingerprint)); }
  // The last reload of the config failed, and why; "": it did not.
  void report_config(const std::string& problem) { health_.show("config", problem); }
  // Why nobody can sign in by OpenID Connect; "" = they can.
  void report_sign_in(const std::string& problem) { health_.show("oidc", problem); }

  // The queues to check for attachment, for a caller with access to the management API.
  WatchedQueues queues_to_watch() const;
  // If the config has broker.targets.allow, attached queues are allowed targets: intake waits until a check
  // has found them, or one requested on the current connection failed to.
  void attachments_found(const AttachmentLook& look);
  // Whether a queue has become detached a short while ago: checks should be frequent.
  bool watches_attachments_eagerly() const { return attachments_.is_eager(); }
  // `ask` requests an immediate check; called on each new connection to the broker, and when silence ends.
  void on_connected(std::function<void()> ask) { attachments_.ask_by(std::move(ask)); }

  // BrokerSink: called on the broker's threads, posts to the loop.
  void on_deliveries(std::vector<Delivery> deliveries) override;
  void on_published(std::vector<PublishResult> results) override;
  void on_status(const BrokerStatus& status) override {
    loop_.post([this, status] { broker_status(status); });
  }
  void on_topology(const TopologyReport& report) override {
    loop_.post([this, report] { broker_watch_.checked(report); });
  }
  void on_error_queues(const ErrorQueueReport& report) override {
    loop_.post([this, report] { error_queues(report); });
  }
  void on_place(const PlaceReport& report) override {
    loop_.post([this, report] { ownership_.reported(report); });
  }

 private:
  bool may_publish() const;
  void error_queues(const ErrorQueueReport& report);
  void broker_status(const BrokerStatus& status);
  void gained(const std::vector<Gained>& shards);
  void lost(const std::vector<int>& shards);
  void publish_until(BootMs deadline);
  void start_shards();
  void ownership_changed(bool ours);
  void look_if_drained();
  bool idle() const;
  std::vector<std::string> configured_queues() const;
  void reserve_names();
  std::set<std::string, std::less<>> queues_with_error_queue() const;
  // Into rung_events; lost if the process ends before the write.
  void record(const char* kind, const std::string& subject, const std::string& detail);

  io::Loop& loop_;
  Broker& broker_;
  const BridgeSettings settings_;
  RuleBookPtr rules_;
  DbClock clock_;
  QueueNames names_;

  const RecordEvent record_;
  const std::unique_ptr<StoreJobs> jobs_;
  const Sidecar sidecar_;

  // The state of this instance and its services.
  Health health_;
  Attachments attachments_;
  StoreWatch store_watch_;
  IntakeHolds intake_holds_;
  IntakePause intake_pause_;
  Jobs upkeep_;
  CrashLoop crash_loop_;
  OwnershipWatch ownership_;
  DeliveryProof proof_;
  const Jobs::Id read_key_;
  Gates gates_;
  FlowCounts counts_;
  // Shared outputs of all flows.
  Outbox outbox_;
  Acks acks_;
  Shards shards_;
  LeftUnacked left_;
  Transitions transitions_;
  Inserts inserts_;
  // The flows.
  PublishFence fence_;
  Dispatch dispatch_;
  Horizon horizon_;
  Intake intake_;
  // Periodic work, in upkeep_.
  Retention retention_;
  CountUpkeep count_upkeep_;
  Janitor janitor_;
  BrokerWatch broker_watch_;
  std::vector<std::string> error_queues_;  // that are consumed
  bool draining_ = false;
  std::function<void()> drained_;
  io::Timer drain_timer_;
};

}  // namespace rung::bridge
