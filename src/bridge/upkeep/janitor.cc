#include "src/bridge/upkeep/janitor.h"

#include <algorithm>
#include <utility>

#include "src/bridge/flight/dispatch.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kTick{1000}, kSeldom{10'000};
// Tasks that a person or another instance made due are found within this plus DueSweep::kGrace.
constexpr Ms kPollEvery{500};

constexpr Ms kFoldEvery{1000};
constexpr Ms kReadCausesEvery{std::chrono::seconds{15}};
// Changes of one transaction. A transaction of the flow leaves one for each of its causes, usually a few.
constexpr int kFoldAtOnce = 2000;

Jobs::Then fold(Store& store) {
  return [worse = store.fold_causes(kFoldAtOnce).worse] {
    for (const CauseRow& row : worse) {
      log::warn(
          "an ignored cause got worse",
          {{"cause", row.id}, {"queue", row.queue}, {"last_hour", row.last_hour}, {"sample", row.sample}});
    }
  };
}

// Upkeep of causes (src/store/causes.h): each second the leader adds the changes of their counts to
// rung_causes. Every instance reads the causes that the others have found. Returns the job to want() when
// there are changes of counts to add.
Jobs::Id add_cause_jobs(Jobs& jobs) {
  // On the lane of queries, whose connection is in use: that of upkeep would be opened for it each time.
  jobs.add({"read causes", kReadCausesEvery, Lane::sweeps, Jobs::Who::owners, [] {
              return [](Store& store) {
                store.read_causes();
                return Jobs::Then{};
              };
            }});
  return jobs.add(
      {"count causes", kFoldEvery, Lane::upkeep, Jobs::Who::leader, [] { return Jobs::Work(fold); }, true});
}

// ParkedCopies.
constexpr int kCopiesPerShard = 100;
constexpr Ms kSendEvery{1000};
constexpr int kBatches = 5;                                 // for each poll: 5,000 copies a second
constexpr std::size_t kMostCopyBytes = 16UL * 1024 * 1024;  // of messages under way, approximate

// CountUpkeep.
constexpr Ms kForgetEvery{std::chrono::minutes{10}};
constexpr int kMostForgotten = 1000;  // at a time

}  // namespace

Janitor::Janitor(const Sidecar& sidecar)
    : sidecar_(sidecar),
      sweep_(sidecar),
      silence_(sidecar),
      copies_(sidecar),
      stranded_(sidecar),
      bulks_(sidecar),
      count_causes_(add_cause_jobs(sidecar.table)),
      check_silence_(
          sidecar.table.add({"silence", kTick, Lane::sweeps, Jobs::Who::owners,
                             [this] { return started_ ? silence_.check() : Jobs::Work{}; }, true})),
      find_queues_(sidecar.table.add({"queues of what awaits an answer", kSeldom, Lane::sweeps,
                                      Jobs::Who::owners, [this] { return silence_.find_queues(); }})) {
  sidecar.table.each("tidy", kTick, Jobs::Who::all, [this] {
    sidecar_.horizon.check_clock();
    sidecar_.horizon.tidy_names();
  });
  sidecar.table.each("look", kTick, Jobs::Who::owners, [this] {
    if (!started_) return;
    sidecar_.dispatch.tick();
    sidecar_.horizon.extend();
  });
  sidecar.table.each("poll", kPollEvery, Jobs::Who::owners, [this] { poll(); });
}

void Janitor::stop() {
  started_ = false;
  copies_.stop();
}

// While nothing waits, the lanes of queries, of the flow and of upkeep take turns: the database ends an idle
// connection, and the first message after a pause would have to wait for a login, and then upkeep for another
// one.
void Janitor::poll() {
  if (!started_) return;
  constexpr std::array kLanesInTurn{Lane::sweeps, Lane::flow, Lane::upkeep};
  turn_ = quiet_ ? (turn_ + 1) % kLanesInTurn.size() : 0;
  // Not upkeep's instead of these: that one answers at once if the database refuses, and would each time.
  if (busy_[turn_]) turn_ = turn_ == 0 ? 1 : 0;
  if (std::exchange(busy_[turn_], true)) return;
  sidecar_.jobs.submit<WorkWaiting>(
      kLanesInTurn[turn_],
      [shards = sidecar_.shards.list(), now = sidecar_.clock.now()](Store& store) {
        return store.work_waiting(shards, now - DueSweep::kGrace, now);
      },
      [this, turn = turn_](const Result<WorkWaiting>& waiting) {
        busy_[turn] = false;
        quiet_ = waiting && *waiting == WorkWaiting{};
        if (!waiting) return log::error("querying for work failed", {{"reason", waiting.error().message}});
        if (started_) found(*waiting);
      });
}

void Janitor::found(const WorkWaiting& waiting) {
  if (waiting.scheduled) sweep_.polled();
  if (waiting.awaiting) sidecar_.table.want(check_silence_);
  if (waiting.parked) copies_.found();
  if (waiting.bulks) bulks_.found();
  if (waiting.cause_changes) sidecar_.table.want(count_causes_);
}

// --- copies of parked tasks

ParkedCopies::ParkedCopies(const Sidecar& sidecar)
    : sidecar_(sidecar),
      exchange_(sidecar.settings.prefix + ".parked"),
      send_(sidecar_.table.add(
          {"parked copies", kSendEvery, Lane::flow, Jobs::Who::owners, [this] { return next_batch(); }})) {}

void ParkedCopies::found() {
  recorded_.clear();
  batches_left_ = kBatches;
}

Jobs::Work ParkedCopies::next_batch() {
  // A copy for it is tried again after ten minutes at most, if it is owed still.
  const bool missing =
      returned_at_ && sidecar_.clock.here().boot() - *returned_at_ <= std::chrono::minutes{11};
  sidecar_.health.show("parked_copies",
                       missing ? exchange_ + " is missing: copies of parked messages wait for it" : "");
  const bool may_send = sidecar_.shards.any() && sidecar_.dispatch.is_open() && bytes_ < kMostCopyBytes;
  if (batches_left_ == 0 || !may_send) return nullptr;
  --batches_left_;
  auto sent = under_way_;
  sent.insert(recorded_.begin(), recorded_.end());
  return [this, sent = std::move(sent), shards = sidecar_.shards.list(), until = sidecar_.clock.now(),
          room = kMostCopyBytes - bytes_](Store& store) {
    const auto rows = store.due(State::parked, shards, std::nullopt, until, kCopiesPerShard);
    std::vector<TaskId> ids;
    for (const DueEntry& row : rows) {
      if (!sent.contains(row.id) && ids.size() < kMostInBatch) ids.push_back(row.id);
    }
    return [this, copies = read(store, ids, room), last = rows.size() < kCopiesPerShard] {
      if (last) stop();  // no shard has more
      for (const Copy& copy : copies) send(copy);
      sidecar_.outbox.flush();
    };
  };
}

// On a store thread. Reads copies whose bodies fit in `room` together, but at least one.
std::vector<ParkedCopies::Copy> ParkedCopies::read(Store& store, const std::vector<TaskId>& ids,
                                                   std::size_t room) {
  std::vector<Copy> copies;
  std::vector<TaskId> taken;
  std::size_t bytes = 0;
  for (KnownTask& known : store.known(ids)) {
    bytes += message_bytes(known.row.task);
    if (!taken.empty() && bytes > room) break;
    taken.push_back(known.row.task.id);
    const TaskId id = known.row.task.id;
    copies.push_back({std::move(known.row.task), {id, nullptr, "its body is not in the database"}});
  }
  auto messages = read_messages(store, taken);
  for (Copy& copy : copies) {
    const auto stored = std::ranges::find(messages, copy.task.id, &StoredMessage::id);
    if (stored != messages.end()) copy.stored = std::move(*stored);
    prove(copy.stored, copy.task);
  }
  return copies;
}

Outgoing ParkedCopies::outgoing_for(const Copy& copy) const {
  const Task& task = copy.task;
  // A delivery of the copy counts as an attempt of its own.
  Task delivered = task;
  ++delivered.attempt;
  delivered.copy_number = task.version | kParkedCopy;
  Message message = dress(*copy.stored.message, delivered, sidecar_.proof.token(delivered));
  Table& headers = *message.headers;
  headers.emplace_back(header::kQueue, task.queue);
  headers.emplace_back(header::kError, task.last_error);
  return {0, exchange_, task.queue, std::move(message)};
}

void ParkedCopies::send(const Copy& copy) {
  const Task& task = copy.task;
  under_way_.insert(task.id);
  bytes_ += message_bytes(task);
  const auto never = [this, task](const std::string& reason) {
    log::error("the broker refused a copy of a parked message: only the row has the message",
               {{"id", task.id.value}, {"reason", reason}});
    done(task);
  };
  if (copy.stored.message == nullptr) return never(copy.stored.broken);
  sidecar_.outbox.send(outgoing_for(copy), [this, task, never](const PublishResult& result) {
    if (result.how == PublishResult::How::returned) {
      returned_at_ = sidecar_.clock.here().boot();
      return done(task, true);
    }
    returned_at_.reset();
    if (result.how == PublishResult::How::confirmed) return done(task);
    // Each retry would close the channel for all others. The row has the message.
    if (result.how == PublishResult::How::rejected) return never(result.reason);
    under_way_.erase(task.id);  // retried a second later
    bytes_ -= message_bytes(task);
    stop();
  });
}

void ParkedCopies::done(const Task& task, bool no_queue) {
  bytes_ -= message_bytes(task);
  sidecar_.transitions.add({task.id, event::ParkedCopySent{no_queue}},
                           [this, id = task.id](const Result<Decision>& decision) {
                             under_way_.erase(id);
                             if (!decision) return stop();  // sent again a second later
                             recorded_.insert(id);
                             if (under_way_.empty()) sidecar_.table.run(send_);
                           });
}

// --- counts of deliveries

CountUpkeep::CountUpkeep(Jobs& jobs, const DbClock& clock, const FlowCounts& counts,
                         const NodeIdentity& identity)
    : jobs_(jobs),
      clock_(clock),
      counts_(counts),
      identity_(identity),
      add_(jobs.add(
          {"counts of deliveries", kEvery, Lane::upkeep, Jobs::Who::all, [this] { return next(); }})),
      forget_(jobs.add({"forget counts, gates, causes", kForgetEvery, Lane::upkeep, Jobs::Who::leader,
                        [this] { return forget(); }})) {}

// What failed may have been committed: it is repeated under its id, so that nothing counts twice.
Jobs::Work CountUpkeep::next() {
  if (pending_ == nullptr && clock_.known()) fill();
  if (pending_ == nullptr) return nullptr;
  return [this, batch = pending_](Store& store) {
    store.add_counts(*batch);
    return [this] { added(); };
  };
}

void CountUpkeep::fill() {
  CountBatch batch;
  for (const auto& [label, counts] : counts_.by_queue()) {
    const CountBatch::Change& told = told_[label];
    CountBatch::Change change{label, counts.promised - told.promised, counts.activity() - told.activity};
    if (change.promised == PromiseCounts{} && change.activity == ActivityCounts{}) continue;
    batch.changes.push_back(std::move(change));
    if (batch.changes.size() == CountBatch::kMost) break;  // the others next time
  }
  if (batch.changes.empty()) return;
  // All instances lock the rows in the same order, so that they only wait for each other.
  std::ranges::sort(batch.changes, {}, &CountBatch::Change::queue);
  batch.at = clock_.now();
  batch.maker = identity_.name;
  batch.id = std::to_string(identity_.incarnation) + '-' + std::to_string(++batches_);
  pending_ = std::make_shared<const CountBatch>(std::move(batch));
}

void CountUpkeep::added() {
  for (const CountBatch::Change& more : pending_->changes) {
    CountBatch::Change& told = told_[more.queue];
    told.promised += more.promised;
    told.activity += more.activity;
  }
  if (std::exchange(pending_, nullptr)->changes.size() == CountBatch::kMost) add();  // there may be more
}

Jobs::Work CountUpkeep::forget() {
  return [this, at = clock_.now()](Store& store) {
    return [this, gone = store.forget(at, kMostForgotten)] {
      if (gone >= kMostForgotten) jobs_.run(forget_);
    };
  };
}

}  // namespace rung::bridge
