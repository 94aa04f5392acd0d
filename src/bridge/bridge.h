// The sidecar: failed messages in, rows, due times, retries out, results in. Wires the flows of this room
// together; knows Broker and Store as interfaces only. Thread: the loop's, as everything behind it. A step of
// the flow stands in a file of its own: intake, dispatch, results, janitor, shards; what is known of the
// servers in broker_watch and store_watch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/bridge/acks.h"
#include "src/bridge/attachments.h"
#include "src/bridge/broker_watch.h"
#include "src/bridge/bulk.h"
#include "src/bridge/delivery_proof.h"
#include "src/bridge/dispatch.h"
#include "src/bridge/health.h"
#include "src/bridge/horizon.h"
#include "src/bridge/intake.h"
#include "src/bridge/intake_pause.h"
#include "src/bridge/janitor.h"
#include "src/bridge/left_unacked.h"
#include "src/bridge/outbox.h"
#include "src/bridge/results.h"
#include "src/bridge/retention.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/bridge/store_watch.h"
#include "src/bridge/submissions.h"
#include "src/bridge/task_updates.h"
#include "src/bridge/transitions.h"
#include "src/core/db_clock.h"
#include "src/core/policy.h"

namespace rung::bridge {

struct BridgeSettings {
  NodeIdentity identity;
  Ms lease{std::chrono::seconds{10}};
  Ms window{std::chrono::minutes{10}};
  std::size_t max_loaded = 1'000'000;
  Ms heartbeat{std::chrono::seconds{10}};  // of the broker's connections
  int max_unconfirmed = 2000;
  std::string prefix = "rung";
  DelayRoutes::Moves delays;  // delays: of the config
  std::optional<Ms> retention;
  std::optional<bool> require_token;  // results.require_token
};

class Bridge final : public BrokerSink {
 public:
  // `name_taken`: another process runs under our node's name; the owner should end this one.
  Bridge(io::Loop& loop, Broker& broker, const StoreJobsMaker& make_jobs, BridgeSettings settings,
         RuleBookPtr rules, std::function<void()> name_taken);
  ~Bridge() override;

  // Fails only for what no waiting mends.
  Result<void> start();
  // Takes nothing further in, sees through what is under way, gives the shards back; `done` when that is so.
  // Whoever waits sets the bound.
  void drain(std::function<void()> done);
  // Gives the shards back as they are: for a drain that takes too long.
  void give_back(std::function<void()> done);
  // Ends all jobs and the broker's threads; false where one hangs in a call for longer than `most`. The loop
  // must have stopped.
  bool stop(Ms most);

  // By hand, without the broker. Any thread; `done` is called on the loop. See submissions.h.
  void submit(std::vector<Submission> batch, Submissions::SubmitDone done) {
    submissions_.submit(std::move(batch), std::move(done));
  }
  void change(std::vector<Event> events, Submissions::ChangeDone done) {
    submissions_.change(std::move(events), std::move(done));
  }
  // How it stands; on the loop.
  struct Status {
    BrokerStatus broker;
    bool store_away = false;
    int shards = 0;          // held
    std::size_t ready = 0;   // due, and waiting to be claimed
    std::size_t loaded = 0;  // in the heap
  };
  Status status() const;

  // How it is, now. The loop's.
  struct Vitals {
    bool broker_consuming = false, broker_publishing = false;
    bool database = false;
    bool draining = false;
    int shards = 0;  // held
    Retention::Done retention;
    std::vector<HealthProblem> problems;
    std::int64_t topology_repairs = 0;  // since the start
    std::size_t unconfirmed = 0;        // published, no answer yet
    Targets::Summary targets;
    Lateness lateness;
    std::vector<std::pair<std::string, bool>>
        attached;  // by queue of the config; those that could be looked at
    DeliveryProof::Refused refused;
    std::int64_t rows_behind = 0;  // since the start
  };
  Vitals vitals() const;

  // Has it worked since the start, and if not: which service refuses it, and why. See start.wait.
  struct Start {
    bool done = false;    // broker and database have both answered, and serve us
    std::string refusal;  // of one that has never served us; "" = none: it is merely not reached yet
  };
  Start start_state() const;

  // New ladders and queues: hold from each task's next step on. Another retention: at once.
  void reload(const RuleBookPtr& rules, std::optional<Ms> retention);

  // Which queues are attached, for who can ask the broker's administration. The loop's.
  std::vector<std::string> queues_to_watch() const { return attachments_.to_watch(configured_queues()); }
  // Where the config has broker.targets.allow, attached queues are allowed targets: nothing is taken in until
  // a look has told them, or one that was asked for on the present connection could not.
  void attachments_found(const AttachmentLook& look);
  // `ask` asks for a look at once; called with each new connection to the broker.
  void on_connected(std::function<void()> ask) { ask_attachments_ = std::move(ask); }

  // BrokerSink; called on the broker's threads, handed over to the loop.
  void on_deliveries(std::vector<Delivery> deliveries) override;
  void on_published(std::vector<PublishResult> results) override;
  void on_status(const BrokerStatus& status) override;
  void on_topology(const TopologyReport& report) override;

 private:
  void deliveries(std::vector<Delivery> batch);
  void forget_before(std::uint32_t connection);
  bool may_take_in() const;
  void take_in_early();
  void read_token_key();
  void token_key(const Result<DeliveryProof::Shared>& shared);
  bool may_publish() const;
  void broker_status(const BrokerStatus& status);
  void gained(const std::vector<Gained>& shards);
  void lost(const std::vector<int>& shards);
  void publish_until(BootMs deadline);
  void allow_publish_until(BootMs deadline);
  void give_up_unanswered();
  void drain_step();
  std::vector<std::string> configured_queues() const;
  void record(SystemEvent event);  // into rung_events; lost where the process ends before it is written
  Shards::Listener shards_listener(std::function<void()> name_taken);
  Intake::Parts intake_parts();
  Janitor::Parts janitor_parts();
  Submissions::Parts submissions_parts();

  io::Loop& loop_;
  Broker& broker_;
  const BridgeSettings settings_;
  RuleBookPtr rules_;
  DbClock clock_;
  QueueNames names_;

  // In the order in which they are built; each leans only on those before it (and, by callback, on this).
  Health health_;
  Attachments attachments_;
  StoreWatch store_watch_;
  IntakePause intake_pause_;
  const std::unique_ptr<StoreJobs> jobs_;
  DeliveryProof proof_;
  Outbox outbox_;
  Acks acks_;
  Shards shards_;
  LeftUnacked left_;
  Transitions transitions_;
  Dispatch dispatch_;
  TaskUpdates updates_;
  io::DueHeap heap_;
  Horizon horizon_;
  Intake intake_;
  Results results_;
  Janitor janitor_;
  Submissions submissions_;
  BulkRunner bulks_;
  Retention retention_;
  BrokerWatch broker_watch_;

  std::uint32_t intake_connection_ = 0;  // of the last delivery
  std::vector<Delivery> early_;          // came before may_take_in()
  std::function<void()> ask_attachments_;
  bool attached_known_ = false;  // a look has told them
  BootMs last_look_{0};          // when the last one was asked for
  BootMs consuming_since_{0};
  io::Timer key_timer_;
  bool fenced_ = false;  // leases were lost: closed until what was under way has ended
  io::Timer fence_timer_;
  bool draining_ = false;
  std::function<void()> drained_;
  io::Timer drain_timer_;
};

}  // namespace rung::bridge
