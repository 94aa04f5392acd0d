#include "src/bridge/bridge.h"

#include <algorithm>
#include <set>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookIfDrained{20};
constexpr Ms kReadKeyAgain{5000};

}  // namespace

Bridge::Bridge(io::Loop& loop, Broker& broker, const StoreJobsMaker& make_jobs, BridgeSettings settings,
               RuleBookPtr rules, std::function<void()> name_taken)
    : loop_(loop),
      broker_(broker),
      settings_(std::move(settings)),
      rules_(std::move(rules)),
      clock_(loop.clock()),
      record_([this](const char* kind, const std::string& subject, const std::string& detail) {
        record(kind, subject, detail);
      }),
      jobs_(make_jobs([this](const StoreJobs::Status& status) {
        store_watch_.changed(status);
        intake_pause_.database_away(status.away);
      })),
      sidecar_{settings_, loop,    broker,       *jobs_,       upkeep_,  rules_,    clock_,   names_,
               health_,   record_, attachments_, store_watch_, proof_,   gates_,    counts_,  outbox_,
               acks_,     shards_, left_,        transitions_, inserts_, dispatch_, horizon_, intake_},
      health_(loop.clock(), [this] { shards_.set_problems(health_.problems()); }),
      attachments_(sidecar_),
      store_watch_(sidecar_),
      intake_holds_(broker),
      intake_pause_(sidecar_, intake_holds_),
      upkeep_(loop, *jobs_, shards_),
      crash_loop_(sidecar_, intake_holds_),
      ownership_(sidecar_, [this](bool ours) { ownership_changed(ours); }),
      proof_(sidecar_),
      read_key_(upkeep_.add({"token key", kReadKeyAgain, Lane::flow, Jobs::Who::all,
                             [this] {
                               return proof_.read_key([this] {
                                 intake_pause_.answered();
                                 dispatch_.open(may_publish());
                                 intake_.go_on();
                               });
                             },
                             true})),
      gates_(sidecar_,
             [this](const std::vector<std::string>& queues) {
               dispatch_.gates_changed(queues);
               dispatch_.open(may_publish());
             }),
      counts_(rules_),
      outbox_(broker, loop.clock()),
      acks_(broker, loop.clock()),
      shards_(loop, *jobs_, clock_, {settings_.identity, settings_.lease, settings_.heartbeat * 3 + Ms{1000}},
              {[this](const std::vector<Gained>& shards) { gained(shards); },
               [this](const std::vector<int>& shards) { lost(shards); },
               [this](BootMs deadline) { publish_until(deadline); }, std::move(name_taken),
               [this](const Shards::Notice& notice) {
                 store_watch_.noticed(notice);
                 attachments_.clock_stepped();
               }}),
      left_(loop, health_),
      transitions_(sidecar_),
      inserts_(sidecar_),
      fence_(sidecar_),
      dispatch_(sidecar_),
      horizon_(sidecar_),
      intake_(sidecar_),
      retention_(upkeep_, shards_, clock_, settings_.retention),
      count_upkeep_(upkeep_, clock_, counts_, settings_.identity),
      janitor_(sidecar_),
      broker_watch_(sidecar_, [this] { dispatch_.release_unfetched(); }),
      drain_timer_(loop, [this] { look_if_drained(); }) {
  reserve_names();
}

Result<void> Bridge::start() {
  intake_holds_.hold(IntakeHolds::Why::place);  // until we know whose it is
  intake_pause_.start();
  crash_loop_.start();
  if (auto started = broker_.start(*this); !started) return started;
  ownership_.start();
  // Also reveals a wrong password or a missing right, whether or not the broker answers.
  upkeep_.run(read_key_);
  gates_.start();
  upkeep_.start();
  return {};
}

// --- state

Vitals Bridge::vitals() const {
  Vitals v;
  static_cast<Totals&>(v) = counts_.totals;
  v.broker_consuming = broker_watch_.status().consuming;
  v.broker_publishing = broker_watch_.status().publishing;
  v.broker_blocked = broker_watch_.status().blocked;
  v.database = !store_watch_.away() && proof_.ready();
  v.draining = draining_;
  v.shards = shards_.count();
  v.retention = retention_.state();
  v.problems = health_.problems();
  v.unconfirmed = outbox_.under_way();
  v.targets = dispatch_.targets();
  v.attached = attachments_.configured();
  gates_.each_closed([&](const auto& queue, const auto& why) { v.closed.emplace_back(queue, why.word); });
  v.behind_gates = dispatch_.held();
  v.error_queues = error_queues_;
  v.flow = counts_.by_queue();
  v.unacked = acks_.unacked();
  v.intake_stalled = acks_.stalled();
  v.ready = dispatch_.ready();
  v.loaded = horizon_.loaded();
  return v;
}

StartState Bridge::start_state() const {
  const bool database = shards_.node() != 0;
  const BrokerStatus& broker = broker_watch_.status();
  if (broker_watch_.has_served() && database) return {true, ""};
  if (!broker_watch_.has_served() && broker.refused) return {false, "the broker refuses: " + broker.reason};
  if (!database && !store_watch_.refusal().empty())
    return {false, "the database refuses: " + store_watch_.refusal()};
  return {};
}

// --- on the broker's threads

void Bridge::on_deliveries(std::vector<Delivery> batch) {
  auto shared = std::make_shared<std::vector<Delivery>>(std::move(batch));
  loop_.post([this, shared] { intake_.arrived(std::move(*shared)); });
}

void Bridge::on_published(std::vector<PublishResult> results) {
  loop_.post([this, results = std::move(results)] {
    failpoint("confirm.received");
    outbox_.arrived(results);
    transitions_.flush();
    dispatch_.pump();
  });
}

// --- on the loop

void Bridge::error_queues(const ErrorQueueReport& report) {
  for (const std::string& queue : report.consumed) {
    if (!std::ranges::binary_search(error_queues_, queue))
      log::info("consuming an error queue", {{"queue", queue}});
  }
  for (const std::string& queue : error_queues_) {
    if (!std::ranges::binary_search(report.consumed, queue))
      log::warn("error queue not consumed any more", {{"queue", queue}});
  }
  error_queues_ = report.consumed;
  if (health_.show("error_queues", report.problem))
    log::warn("error queue cannot be consumed", {{"reason", report.problem}});
}

bool Bridge::may_publish() const {
  return broker_watch_.takes_messages() && ownership_.ours() && !fence_.is_closed() && proof_.ready() &&
         gates_.known();
}

void Bridge::broker_status(const BrokerStatus& status) {
  const bool connected = status.consuming && !broker_watch_.status().consuming;
  broker_watch_.changed(status);
  if (connected) attachments_.connected();
  start_shards();
  dispatch_.open(may_publish());
}

// Only a process that can publish may take the name and shards.
void Bridge::start_shards() {
  if (broker_watch_.status().publishing && ownership_.ours() && !draining_) shards_.start();
}

// During a conflict the silence of tasks proves nothing either: their failures are not taken in.
void Bridge::ownership_changed(bool ours) {
  broker_watch_.set_ours(ours);
  if (ours) {
    intake_holds_.release(IntakeHolds::Why::place);
    janitor_.start();
    start_shards();
  } else {
    intake_holds_.hold(IntakeHolds::Why::place);
    intake_.drop_all();
    janitor_.stop();
    publish_until({0});  // until the next renewal of the leases after it has ended
  }
  dispatch_.open(may_publish());
}

void Bridge::gained(const std::vector<Gained>& gained) {
  std::vector<int> shards;
  std::map<std::string, int> expired;  // instance -> its shards that are ours now
  for (const Gained& g : gained) {
    shards.push_back(g.lease.shard);
    if (!g.from.empty()) ++expired[g.from];
  }
  for (const auto& [from, count] : expired) {
    log::warn("shards with an expired lease taken over", {{"from", from}, {"taken", count}});
    record("shards_taken_over", from, "shards: " + std::to_string(count) + "; their lease had expired");
  }
  counts_.totals.shards_gained += static_cast<std::int64_t>(shards.size());
  horizon_.gained(shards);
  janitor_.gained(gained);
  inserts_.flush();
  dispatch_.shards_gained();
}

void Bridge::lost(const std::vector<int>& shards) {
  counts_.totals.shards_lost += static_cast<std::int64_t>(shards.size());
  gates_.invalidate();  // we may have slept
  fence_.leases_lost();
  dispatch_.open(false);
}

void Bridge::publish_until(BootMs deadline) {
  gates_.clock_measured();
  intake_.go_on();
  if (fence_.extend(ownership_.ours() ? deadline : BootMs{0})) dispatch_.open(may_publish());
}

void Bridge::record(const char* kind, const std::string& subject, const std::string& detail) {
  const auto work = [node = shards_.node(), event = SystemEvent{kind, subject, detail}](Store& store) {
    store.record_event(node, event);
  };
  jobs_->submit<void>(Lane::upkeep, work, [](const Result<void>& done) {
    if (!done) log::warn("event not recorded", {{"reason", done.error().message}});
  });
}

// --- which queues the config and the broker name, and what follows from it

// Their failures come from there: they need no attachment.
std::set<std::string, std::less<>> Bridge::queues_with_error_queue() const {
  std::set<std::string, std::less<>> fed;
  const ErrorQueues& errors = rules_->error_queues();
  for (const ErrorQueue& entry : errors.all()) {
    if (!entry.is_pattern()) fed.insert(target_by_name(entry, entry.from));
  }
  for (const std::string& queue : error_queues_) {
    if (const ErrorQueue* entry = errors.find(queue)) fed.insert(target_by_name(*entry, queue));
  }
  return fed;
}

std::vector<std::string> Bridge::configured_queues() const {
  const auto fed = queues_with_error_queue();
  std::vector<std::string> names;
  for (const auto& [name, rules] : rules_->queues()) {
    // A queue of another group is attached there, not here.
    if (rules_->targets().groups.elsewhere(name) == nullptr && !fed.contains(name)) names.push_back(name);
  }
  return names;
}

void Bridge::reserve_names() {
  for (const auto& [queue, rules] : rules_->queues()) names_.reserve(queue);
  for (const std::string& queue : rules_->targets().configured) names_.reserve(queue);
}

WatchedQueues Bridge::queues_to_watch() const {
  WatchedQueues watched{attachments_.to_watch(configured_queues()), {}, attachments_.awaiting()};
  if (!rules_->patterns().empty())
    watched.also = [rules = rules_, fed = queues_with_error_queue()](const std::string& queue) {
      return rules->watches(queue) && !fed.contains(queue);
    };
  return watched;
}

void Bridge::reload(const RuleBookPtr& rules, std::optional<Ms> retention) {
  rules_ = rules->with_attached(rules_->targets().attached);
  reserve_names();
  counts_.configure(rules_);
  retention_.reload(retention);
  intake_.go_on();
}

void Bridge::attachments_found(const AttachmentLook& look) {
  if (draining_) return;
  attachments_.found(look, configured_queues());
  crash_loop_.looked(look);
  for (const std::string& queue : look.matched) counts_.know(queue);
  // While the management API does not answer, the last result applies.
  if (look.attached && *look.attached != rules_->targets().attached)
    rules_ = rules_->with_attached(*look.attached);
  intake_.go_on();
}

// --- shutdown

void Bridge::drain(std::function<void()> done) {
  if (std::exchange(draining_, true)) return;
  failpoint("drain.begun");
  ownership_.drain();
  intake_pause_.drain();
  crash_loop_.drain();
  broker_.stop_intake();
  gates_.stop();
  janitor_.stop();
  horizon_.clear();
  dispatch_.drain();
  intake_.drain();
  inserts_.drain();
  left_.drain();
  upkeep_.stop();
  drained_ = std::move(done);
  drain_timer_.start(Ms{0}, kLookIfDrained);
}

void Bridge::look_if_drained() {
  if (idle()) give_back(drained_);
}

bool Bridge::idle() const {
  return transitions_.idle() && intake_.idle() && inserts_.idle() && dispatch_.idle() &&
         outbox_.under_way() == 0;
}

void Bridge::give_back(std::function<void()> done) {
  drain_timer_.stop();
  count_upkeep_.add();  // the drain does not wait for it
  shards_.leave(std::move(done));
}

bool Bridge::stop(Ms most) {
  const BootMs until = loop_.clock().boot() + most;
  jobs_->stop();
  broker_.stop(most / 2);
  return jobs_->join(until - loop_.clock().boot());
}

}  // namespace rung::bridge
