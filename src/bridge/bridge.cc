#include "src/bridge/bridge.h"

#include <utility>

#include "src/core/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {

Bridge::Bridge(io::Loop& loop, Broker& broker, StoreFactory factory, BridgeSettings settings,
               RuleBookPtr rules, std::function<void()> name_taken)
    : loop_(loop),
      broker_(broker),
      settings_(std::move(settings)),
      rules_(std::move(rules)),
      threads_(loop, std::move(factory), settings_.flow_threads,
               [this](const StoreThreads::Status& status) { store_status(status); }),
      outbox_(broker),
      acks_(broker),
      shards_(loop, threads_, clock_,
              {settings_.identity, settings_.lease, settings_.heartbeat * 3 + Ms{1000}},
              shards_listener(std::move(name_taken))),
      transitions_(
          loop, threads_, [this] { return shards_.fence(); }, [this] { return rules_; },
          [this] { acks_.flush(); }),
      dispatch_(dispatch_parts(), settings_.max_unconfirmed),
      heap_(
          loop, clock_, [this](const std::vector<io::DueItem>& due) { dispatch_.due(due); },
          Dispatch::kAhead),
      horizon_(threads_, shards_, clock_, heap_, names_, [this] { return dispatch_.ready(); },
               {settings_.window, settings_.max_loaded}),
      intake_(loop, intake_parts()),
      results_({transitions_, acks_, [this](const Decision& d) { settled(d); }}),
      janitor_(loop, janitor_parts()),
      submissions_(submissions_parts()),
      bulks_(loop,
             {threads_, shards_, [this] { return rules_; },
              [this](const Decision& decision) { settled(decision); }, "node " + settings_.identity.name}),
      retention_(loop, {threads_, shards_, clock_}, settings_.retention),
      drain_timer_(loop, [this] { drain_step(); }) {}

Bridge::~Bridge() = default;

Shards::Listener Bridge::shards_listener(std::function<void()> name_taken) {
  return {[this](const std::vector<Gained>& shards) { gained(shards); },
          [this](const std::vector<int>& shards) { lost(shards); },
          [this](BootMs deadline) { publish_until(deadline); },
          [this](int shard) { return dispatch_.in_use(shard); }, std::move(name_taken)};
}

Dispatch::Parts Bridge::dispatch_parts() {
  return {loop_,
          threads_,
          shards_,
          transitions_,
          outbox_,
          clock_,
          names_,
          [this] { return rules_; },
          [this](const io::DueItem& item) { horizon_.schedule(item); },
          [this](const Decision& decision) { settled(decision); },
          [this](PublishLane lane, std::string reason) { broker_.drop_publishing(lane, std::move(reason)); }};
}

Intake::Parts Bridge::intake_parts() {
  return {threads_,
          shards_,
          transitions_,
          outbox_,
          acks_,
          clock_,
          [this] { return rules_; },
          [this](const Task& task) { schedule(task); },
          [this](const Decision& decision) { settled(decision); },
          settings_.prefix + ".parked",
          {settings_.prefix + ".delay", settings_.delays},
          [this](const DeliveryTag& tag) { return broker_.stands(tag); },
          [this](std::vector<DeliveryTag> tags) { broker_.requeue(std::move(tags)); }};
}

Janitor::Parts Bridge::janitor_parts() {
  return {threads_,
          shards_,
          transitions_,
          outbox_,
          clock_,
          heap_,
          horizon_,
          dispatch_,
          names_,
          [this](const Decision& decision) { settled(decision); },
          [this] { return broker_status_.publishing && !broker_status_.blocked; },
          settings_.prefix + ".parked"};
}

Submissions::Parts Bridge::submissions_parts() {
  return {loop_,
          threads_,
          shards_,
          transitions_,
          clock_,
          [this] { return rules_; },
          [this](const Task& task) { schedule(task); },
          [this](const Decision& decision) { settled(decision); }};
}

Bridge::Status Bridge::status() const {
  return {broker_status_, store_away_, shards_.count(), dispatch_.ready(), heap_.size()};
}

Result<void> Bridge::start() {
  if (auto started = broker_.start(*this); !started) return started;
  shards_.start();
  janitor_.start();
  bulks_.start();
  retention_.start();
  return {};
}

Bridge::Vitals Bridge::vitals() const {
  return {broker_status_.consuming, broker_status_.publishing, !store_away_ && shards_.node() != 0, draining_,
          shards_.count(),          retention_.done()};
}

// --- from the broker's threads

void Bridge::on_deliveries(std::vector<Delivery> batch) {
  auto shared = std::make_shared<std::vector<Delivery>>(std::move(batch));
  loop_.post([this, shared] { deliveries(std::move(*shared)); });
}

void Bridge::on_published(std::vector<PublishResult> results) {
  loop_.post([this, results = std::move(results)] {
    failpoint("confirm.received");
    outbox_.arrived(results);
    transitions_.flush();
    dispatch_.pump();
  });
}

void Bridge::on_status(const BrokerStatus& status) {
  loop_.post([this, status] { broker_status(status); });
}

// --- on the loop

void Bridge::deliveries(std::vector<Delivery> batch) {
  // Another connection: what still waits for the database from those before has come again, or will. Else a
  // broker that comes and goes while the database is away would pile it up.
  if (const std::uint32_t connection = batch.front().tag.connection; connection != intake_connection_) {
    intake_connection_ = connection;
    intake_.forget_before(connection);
    transitions_.forget_before(connection);
  }
  std::vector<Delivery> failed, delayed, results;
  for (Delivery& delivery : batch) {
    (delivery.inlet == Inlet::results ? results
     : delivery.inlet == Inlet::delay ? delayed
                                      : failed)
        .push_back(std::move(delivery));
  }
  failpoint("delivery.received");
  if (draining_) return;  // unacked: the broker gives them to another, or to our next life
  if (!results.empty()) results_.said(results);
  if (!failed.empty()) intake_.failed(std::move(failed));
  if (!delayed.empty()) intake_.delayed(std::move(delayed));
}

void Bridge::broker_status(const BrokerStatus& status) {
  const BrokerStatus before = std::exchange(broker_status_, status);
  const bool was_up = before.consuming && before.publishing;
  const bool up = status.consuming && status.publishing;
  // Said once: when it goes, and when it is back; not with each try.
  if (!up && broker_away_since_.ms == 0 && !status.reason.empty()) {
    broker_away_since_ = boot_now();
    log::warn("the broker is away", {{"reason", status.reason}});
  }
  if (up && !was_up) {
    if (broker_away_since_.ms != 0) {
      log::info("the broker is back", {{"away_ms", (boot_now() - broker_away_since_).count()}});
    } else {
      log::info("the broker is connected");
    }
    broker_away_since_ = {0};
  }
  if (status.blocked != before.blocked) {
    if (status.blocked) {
      log::warn("the broker blocks publishing (memory or disk alarm): retries wait, attempts are not counted",
                {{"reason", status.reason}});
    } else {
      log::info("the broker takes messages again");
    }
  }
  dispatch_.open(status.publishing && !status.blocked && !fenced_);
}

void Bridge::store_status(const StoreThreads::Status& status) {
  if (status.away == store_away_) return;
  store_away_ = status.away;
  if (status.away) {
    store_away_since_ = boot_now();
    log::warn("the database is away: intake waits unacked", {{"reason", status.reason}});
  } else {
    log::info("the database is back", {{"away_ms", (boot_now() - store_away_since_).count()}});
  }
}

void Bridge::gained(const std::vector<Gained>& gained) {
  std::vector<int> shards;
  for (const Gained& g : gained) shards.push_back(g.lease.shard);
  horizon_.gained(shards);
  janitor_.gained(gained);
  intake_.flush();
  submissions_.flush();
  dispatch_.shards_gained();
}

void Bridge::lost(const std::vector<int>&) {
  // What was claimed under a lost lease may still stand in the publisher's queue. The fence closes until
  // every publish under way has its result; only then does the next renewal open it again.
  fenced_ = true;
  broker_.allow_publish_until({0});
  dispatch_.open(false);
}

void Bridge::publish_until(BootMs deadline) {
  if (deadline.ms == 0 || (fenced_ && outbox_.under_way() > 0)) {
    broker_.allow_publish_until({0});
    return;
  }
  fenced_ = false;
  broker_.allow_publish_until(deadline);
  dispatch_.open(broker_status_.publishing && !broker_status_.blocked);
}

void Bridge::settled(const Decision& decision) {
  if (decision.verdict != Decision::Verdict::applied) return;
  const Task& task = decision.task;
  if (task.state == State::scheduled) schedule(task);
  if (task.state == State::parked) {
    log::info("parked", {{"id", task.id.value},
                         {"queue", task.queue},
                         {"message_id", task.message_id},
                         {"attempt", task.attempt},
                         {"error", task.last_error}});
  }
}

void Bridge::schedule(const Task& task) {
  if (task.state == State::scheduled && task.next_at) horizon_.schedule(names_.item(task, *task.next_at));
}

// --- the end

void Bridge::drain(std::function<void()> done) {
  if (draining_) return;
  draining_ = true;
  failpoint("drain.begun");
  drained_ = std::move(done);
  broker_.stop_intake();
  janitor_.stop();
  heap_.clear();
  dispatch_.drain();
  intake_.drain();
  submissions_.drain();
  bulks_.drain();
  retention_.stop();
  drain_timer_.start(Ms{0}, Ms{20});
}

void Bridge::drain_step() {
  if (!transitions_.idle() || !intake_.idle() || !submissions_.idle() || !bulks_.idle() ||
      !dispatch_.idle() || outbox_.under_way() > 0)
    return;
  drain_timer_.stop();
  shards_.leave([this] { drained_(); });
}

void Bridge::give_back(std::function<void()> done) {
  drain_timer_.stop();
  shards_.leave(std::move(done));
}

bool Bridge::stop(Ms most) {
  const BootMs until = boot_now() + most;
  threads_.stop();
  broker_.stop(most / 2);
  return threads_.join(until - boot_now());
}

}  // namespace rung::bridge
