#include "src/bridge/bridge.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "src/core/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kKeyAgain{5000};
// Where the leases ran out: what is under way is answered within this, or its connection is given up.
constexpr Ms kUnansweredMost{1000};

}  // namespace

Bridge::Bridge(io::Loop& loop, Broker& broker, const StoreJobsMaker& make_jobs, BridgeSettings settings,
               RuleBookPtr rules, std::function<void()> name_taken)
    : loop_(loop),
      broker_(broker),
      settings_(std::move(settings)),
      rules_(std::move(rules)),
      clock_(loop.clock()),
      health_(loop.clock(), [this] { shards_.set_problems(health_.problems()); }),
      attachments_(health_, [this](SystemEvent event) { record(std::move(event)); }),
      store_watch_(
          loop, health_, [this](SystemEvent event) { record(std::move(event)); }, settings_.identity.name),
      intake_pause_(loop,
                    {broker, health_, [this] { return jobs_->answered(); },
                     [this] { forget_before(intake_connection_ + 1); },
                     [this](SystemEvent event) { record(std::move(event)); }, settings_.identity.name},
                    settings_.lease),
      jobs_(make_jobs([this](const StoreJobs::Status& status) {
        store_watch_.changed(status);
        intake_pause_.database_away(status.away);
      })),
      proof_(loop.clock(), settings_.require_token),
      outbox_(broker, loop.clock()),
      acks_(broker),
      shards_(loop, *jobs_, clock_, {settings_.identity, settings_.lease, settings_.heartbeat * 3 + Ms{1000}},
              shards_listener(std::move(name_taken))),
      left_(loop, health_,
            [this] {
              transitions_.flush();
              intake_.flush();
            }),
      transitions_(
          loop, *jobs_, [this] { return shards_.fence(); }, [this] { return rules_; },
          [this] { acks_.flush(); }, [this](TaskId id) { return dispatch_.tracker().publishing(id); }, left_),
      dispatch_({loop, *jobs_, shards_, transitions_, outbox_, broker, clock_, names_, proof_, rules_,
                 horizon_, updates_, settings_.prefix},
                settings_.max_unconfirmed),
      updates_(dispatch_, horizon_, names_, store_watch_, attachments_),
      heap_(
          loop, clock_, [this](const std::vector<io::DueItem>& due) { dispatch_.due(due); },
          Dispatch::kAhead),
      horizon_(*jobs_, shards_, clock_, heap_, names_, [this] { return dispatch_.ready(); },
               {settings_.window, settings_.max_loaded}),
      intake_(loop, intake_parts()),
      results_({transitions_, acks_, proof_, [this](const Decision& d) { updates_.decided(d); }}),
      janitor_(loop, janitor_parts()),
      submissions_(submissions_parts()),
      bulks_(loop, {*jobs_, shards_, [this] { return rules_; },
                    [this](const Decision& decision) { updates_.decided(decision); },
                    "node " + settings_.identity.name}),
      retention_(loop, {*jobs_, shards_, clock_}, settings_.retention),
      broker_watch_(loop,
                    {health_, shards_, [this](SystemEvent event) { record(std::move(event)); },
                     [this] { dispatch_.release_unfetched(); }},
                    settings_.identity.name, settings_.lease),
      key_timer_(loop, [this] { read_token_key(); }),
      fence_timer_(loop, [this] { give_up_unanswered(); }),
      drain_timer_(loop, [this] { drain_step(); }) {}

Bridge::~Bridge() = default;

Shards::Listener Bridge::shards_listener(std::function<void()> name_taken) {
  return {[this](const std::vector<Gained>& shards) { gained(shards); },
          [this](const std::vector<int>& shards) { lost(shards); },
          [this](BootMs deadline) { publish_until(deadline); }, std::move(name_taken),
          [this](const Shards::Notice& notice) { store_watch_.noticed(notice); }};
}

Intake::Parts Bridge::intake_parts() {
  return {*jobs_,
          shards_,
          transitions_,
          outbox_,
          acks_,
          left_,
          clock_,
          proof_,
          [this] { return rules_; },
          [this](const Task& task) { updates_.inserted(task); },
          [this](const Decision& decision) { updates_.decided(decision); },
          [this](TaskId id, int attempt) {
            store_watch_.behind(id, "there is none, and attempt " + std::to_string(attempt) +
                                        " of it failed: taken in as a new task that climbs on");
          },
          settings_.prefix + ".parked",
          {settings_.prefix + ".delay", settings_.delays},
          [this](const DeliveryTag& tag) { return broker_.stands(tag); },
          [this](std::vector<DeliveryTag> tags) { broker_.requeue(std::move(tags)); },
          settings_.identity.incarnation};
}

Janitor::Parts Bridge::janitor_parts() {
  return {*jobs_,
          shards_,
          transitions_,
          outbox_,
          clock_,
          heap_,
          horizon_,
          dispatch_,
          names_,
          proof_,
          [this](const Decision& decision) { updates_.decided(decision); },
          [this] { return broker_watch_.takes_messages() && proof_.ready(); },
          settings_.prefix + ".parked"};
}

Submissions::Parts Bridge::submissions_parts() {
  return {loop_,
          *jobs_,
          shards_,
          transitions_,
          clock_,
          [this] { return rules_; },
          [this](const Task& task) { updates_.inserted(task); },
          [this](const Decision& decision) { updates_.decided(decision); }};
}

Bridge::Status Bridge::status() const {
  return {broker_watch_.status(), store_watch_.away(), shards_.count(), dispatch_.ready(), heap_.size()};
}

Result<void> Bridge::start() {
  if (auto started = broker_.start(*this); !started) return started;
  read_token_key();  // also where a wrong password or a missing right shows, whether the broker answers or
                     // not
  broker_watch_.start();
  janitor_.start();
  bulks_.start();
  retention_.start();
  return {};
}

Bridge::Vitals Bridge::vitals() const {
  return {broker_watch_.status().consuming,
          broker_watch_.status().publishing,
          !store_watch_.away() && proof_.ready(),
          draining_,
          shards_.count(),
          retention_.done(),
          health_.problems(),
          broker_watch_.repairs(),
          outbox_.under_way(),
          dispatch_.targets(),
          dispatch_.lateness(),
          attachments_.configured(),
          proof_.refused(),
          store_watch_.rows_behind()};
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

void Bridge::on_topology(const TopologyReport& report) {
  loop_.post([this, report] { broker_watch_.checked(report); });
}

// --- on the loop

void Bridge::deliveries(std::vector<Delivery> batch) {
  // Another connection: what still waits for the database from those before has come again, or will. Else a
  // broker that comes and goes while the database is away would pile it up.
  if (const std::uint32_t connection = batch.front().tag.connection; connection != intake_connection_) {
    intake_connection_ = connection;
    forget_before(connection);
  }
  if (!may_take_in()) {
    std::ranges::move(batch, std::back_inserter(early_));
    return;
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

void Bridge::forget_before(std::uint32_t connection) {
  intake_.forget_before(connection);
  transitions_.forget_before(connection);
  left_.forget_before(connection);
  early_.clear();
}

// Without the key no result can be judged; without a look at the attached queues, no target of a dead letter
// where broker.targets has a list.
bool Bridge::may_take_in() const {
  const bool look_done = attached_known_ || last_look_ >= consuming_since_;
  return proof_.ready() && (look_done || !rules_->targets().allow);
}

void Bridge::take_in_early() {
  if (!may_take_in()) return;
  std::vector<Delivery> waiting = std::exchange(early_, {});
  if (!waiting.empty()) deliveries(std::move(waiting));
}

bool Bridge::may_publish() const { return broker_watch_.takes_messages() && !fenced_ && proof_.ready(); }

void Bridge::read_token_key() {
  jobs_->submit<DeliveryProof::Shared>(
      Lane::flow, [](SystemStore& store) { return DeliveryProof::read(store); },
      [this](const Result<DeliveryProof::Shared>& shared) { token_key(shared); });
}

void Bridge::token_key(const Result<DeliveryProof::Shared>& shared) {
  if (!shared || !proof_.set(*shared)) {
    log::error("the key of the delivery tokens cannot be used: nothing is published, no result is taken",
               {{"reason", shared ? "result_token_key in rung_settings is not 64 hex digits: delete that row"
                                  : shared.error().message}});
    if (!draining_) key_timer_.start(kKeyAgain);
    return;
  }
  dispatch_.open(may_publish());
  take_in_early();
}

void Bridge::broker_status(const BrokerStatus& status) {
  const bool connected = status.consuming && !broker_watch_.status().consuming;
  broker_watch_.changed(status);
  if (connected) {
    consuming_since_ = loop_.clock().boot();
    if (ask_attachments_) ask_attachments_();
  }
  // The name, and shards, are for a process that can publish.
  if (status.publishing && !draining_) shards_.start();
  dispatch_.open(may_publish());
}

Bridge::Start Bridge::start_state() const {
  const bool database = shards_.node() != 0;
  const BrokerStatus& broker = broker_watch_.status();
  if (broker_watch_.has_served() && database) return {true, ""};
  if (!broker_watch_.has_served() && broker.refused) return {false, "the broker refuses: " + broker.reason};
  if (!database && !store_watch_.refusal().empty())
    return {false, "the database refuses: " + store_watch_.refusal()};
  return {};
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
  fence_timer_.start(kUnansweredMost, kUnansweredMost);
  health_.set("fenced", "its leases ran out: nothing is published until they are renewed or taken again",
              Health::Effect::not_ready);
  allow_publish_until({0});
  dispatch_.open(false);
}

void Bridge::allow_publish_until(BootMs deadline) {
  constexpr BootMs kNever{std::numeric_limits<std::int64_t>::max()};
  broker_.allow_publish_until(planted(Bug::no_fence_on_publish) ? kNever : deadline);
}

void Bridge::publish_until(BootMs deadline) {
  if (deadline.ms == 0 || (fenced_ && outbox_.under_way() > 0)) {
    allow_publish_until({0});
    return;
  }
  fenced_ = false;
  fence_timer_.stop();
  health_.clear("fenced");
  allow_publish_until(deadline);
  dispatch_.open(may_publish());
}

// One queue that does not answer would keep the fence closed for all: nothing else ends what is under way.
void Bridge::give_up_unanswered() {
  if (outbox_.under_way() == 0 || planted(Bug::b1)) return;
  log::warn("the leases ran out and publishes are not answered: their connections are given up",
            {{"under_way", outbox_.under_way()}});
  for (const PublishLane lane : {PublishLane::main, PublishLane::probe})
    broker_.drop_publishing(lane, "the leases ran out while it had not answered");
}

std::vector<std::string> Bridge::configured_queues() const {
  std::vector<std::string> names;
  for (const auto& [name, rules] : rules_->queues()) {
    // Another group's is attached there, not here.
    if (rules_->targets().groups.elsewhere(name) == nullptr) names.push_back(name);
  }
  return names;
}

void Bridge::reload(const RuleBookPtr& rules, std::optional<Ms> retention) {
  rules_ = rules->with_attached(rules_->targets().attached);
  retention_.reload(retention);
  take_in_early();
}

void Bridge::attachments_found(const AttachmentLook& look) {
  if (draining_) return;
  attachments_.found(look.queues, configured_queues(), loop_.clock().boot());
  // What was seen last stands while the management API does not answer.
  if (look.attached && *look.attached != rules_->targets().attached)
    rules_ = rules_->with_attached(*look.attached);
  attached_known_ = attached_known_ || look.attached.has_value();
  last_look_ = look.asked_at;
  take_in_early();
}

void Bridge::record(SystemEvent event) {
  const auto work = [node = shards_.node(), event = std::move(event)](SystemStore& store) -> Result<bool> {
    if (auto done = store.record_event(node, event); !done) return tl::unexpected(done.error());
    return true;
  };
  jobs_->submit<bool>(Lane::upkeep, work, [](const Result<bool>& done) {
    if (!done) log::warn("an event was not recorded", {{"reason", done.error().message}});
  });
}

// --- the end

void Bridge::drain(std::function<void()> done) {
  if (draining_) return;
  draining_ = true;
  failpoint("drain.begun");
  broker_watch_.stop();
  drained_ = std::move(done);
  intake_pause_.drain();
  broker_.stop_intake();
  janitor_.stop();
  heap_.clear();
  dispatch_.drain();
  intake_.drain();
  left_.drain();
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
  const BootMs until = loop_.clock().boot() + most;
  jobs_->stop();
  broker_.stop(most / 2);
  return jobs_->join(until - loop_.clock().boot());
}

}  // namespace rung::bridge
