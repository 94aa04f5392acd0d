#include "src/bridge/upkeep/janitor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/bridge/flight/dispatch.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/core/base/failpoint.h"
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

// SilenceCheck.
constexpr Ms kReadingBehind{5000};  // an instance's reading of the database's clock, at most
constexpr int kSilentPerShard = 300;
constexpr Ms kLookTakes{30'000};                    // at most; then it is not awaited any more
constexpr Ms kNoAnswerPause{30'000};                // the broker did not tell
constexpr Ms kAnswersAgain{std::chrono::hours{1}};  // an answer this recent: wait for the next one
// The pause before the next look at an unread message: an eighth of the time since its delivery, but not less
// than its silence. Each look writes its row.
constexpr Ms kReadPause{2000}, kLongestReadPause{std::chrono::minutes{10}};
constexpr int kReadShare = 8;

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

// --- the silence of deliveries

Jobs::Work SilenceCheck::check() {
  return [this, shards = sidecar_.shards.list(), until = sidecar_.clock.now()](Store& store) {
    Found due{store.due(State::awaiting, shards, std::nullopt, until, kSilentPerShard)};
    std::vector<TaskId> ids;
    std::set<std::string> queues;
    for (const DueEntry& row : due.rows) {
      ids.push_back(row.id);
      queues.insert(row.queue);
    }
    due.awaiting = store.awaiting(ids);
    if (!ids.empty()) due.known = store.attachments(std::vector(queues.begin(), queues.end()));
    return [this, due = std::move(due)] { found(due); };
  };
}

void SilenceCheck::found(const Found& due) {
  std::set<std::string> unsure;
  std::map<std::string, std::vector<std::string>> held;  // by queue: why
  for (const DueEntry& row : due.rows) {
    const auto it = due.awaiting.find(row.id);
    if (ending_.contains(row.id) || it == due.awaiting.end()) continue;
    const Awaiting& its = it->second;
    Silent task{row.at, {}, {}, its.said.value_or(sidecar_.rules->queue(row.queue).silence)};
    task.published = its.published_at.value_or(row.at - task.silence.after);
    // An instance's reading of that clock may be a little behind: published_at is by it, row.at by the clock
    // itself. But row.at is later than the end of the first silence if that was put off.
    task.queued =
        std::max(task.published, std::min(row.at - task.silence.after, task.published + kReadingBehind));
    std::optional<Verdict> verdict = Verdict{};
    // No queue: the task was published to an exchange, and it is not known yet.
    if (!row.queue.empty() && task.silence.means != Silence::Means::failure) {
      const auto known = due.known.find(row.queue);
      verdict = judge(row.queue, task, known == due.known.end() ? nullptr : &known->second);
    }
    if (!verdict) {
      unsure.insert(row.queue);
      continue;
    }
    if (!verdict->how.held.empty()) held[row.queue].push_back(verdict->how.held);
    end(row.id, *std::move(verdict));
  }
  for (const auto& [queue, why] : held)
    log::warn("silence is held open: no success is presumed",
              {{"queue", queue}, {"tasks", why.size()}, {"reason", why.back()}});
  sidecar_.transitions.flush();
  if (!unsure.empty()) sidecar_.attachments.look_at(unsure);
}

Jobs::Work SilenceCheck::find_queues() {
  return [this](Store& store) {
    return [this, queues = store.awaiting_queues(Attachments::kMostSeen)] {
      sidecar_.attachments.awaiting(queues);
    };
  };
}

std::optional<SilenceCheck::Verdict> SilenceCheck::judge(const std::string& queue, const Silent& task,
                                                         const AttachmentRecord* known) const {
  const EpochMs now = sidecar_.clock.now(), last = task.published + task.silence.after + kUnverifiedSilence;
  const bool can_look = sidecar_.attachments.can_look();
  const bool awaits_look = can_look && now < task.ends_at + kLookTakes;
  const auto missed = sidecar_.attachments.missed(queue, task.ends_at);
  const bool asks_again = can_look && now + kNoAnswerPause + kLookTakes <= last;
  // A queue of another group is attached there.
  const bool needed = sidecar_.rules->queue(queue).needs_attachment &&
                      sidecar_.rules->targets().groups.elsewhere(queue) == nullptr;
  Verdict verdict;
  const auto ends_later = [&](EpochMs end, std::string why) {
    verdict.how.ends_at = end;
    verdict.how.why = std::move(why);
    return verdict;
  };
  const auto ends_now = [&] {
    if (needed && !planted(Bug::silence_of_the_detached))
      verdict.how.held = held_because(known, task.published);
    return verdict;
  };
  if (needed && known != nullptr && known->state != AttachmentState::unattached) {
    const bool attached = known->state == AttachmentState::attached;
    const bool looked = known->detail != kDeadLetterArrived;
    if (!looked || known->checked_at < task.ends_at) {
      if (awaits_look && !missed.state) return std::nullopt;
      const bool may_answer = attached && looked && now - known->checked_at < kAnswersAgain;
      if (may_answer && asks_again) return ends_later(now + kNoAnswerPause, {});
      verdict.unverified = true;
    }
    if (!attached) return ends_now();
  }
  if (planted(Bug::silence_of_the_unread)) return ends_now();
  if (known == nullptr || !known->reading) {  // its messages have never been counted
    if (awaits_look && !missed.count) return std::nullopt;
    if (asks_again) return ends_later(now + kNoAnswerPause, {});
    verdict.unverified = verdict.unverified || can_look;
    return ends_now();
  }
  const QueueReading& reading = *known->reading;
  if (const auto read = read_at(reading, task.queued)) {
    const EpochMs end = *read + task.silence.after;
    if (end <= now) return ends_now();
    return ends_later(end, "its silence began when it was read, at " + format_utc(*read) + " UTC");
  }
  if (reading.seen_at < task.ends_at && awaits_look && !missed.count) return std::nullopt;
  if (now >= last && reading.consumers > 0 && !reading.mark) {
    verdict.unverified = true;
    return ends_now();
  }
  const Ms pause = std::max(task.silence.after, (now - task.published) / kReadShare);
  return ends_later(now + std::clamp(pause, kReadPause, kLongestReadPause),
                    "unread so far: " + unread_because(queue, reading));
}

void SilenceCheck::end(TaskId task, Verdict verdict) {
  if (!ending_.insert(task).second) return;
  sidecar_.transitions.add({task, std::move(verdict.how)},
                           [this, task, unverified = verdict.unverified](const Result<Decision>& decision) {
                             ending_.erase(task);
                             if (!decision || decision->verdict != Decision::Verdict::applied) return;
                             Totals& totals = sidecar_.counts.totals;
                             const bool succeeded = decision->task.state == State::succeeded;
                             totals.silences_held += is_silence_held(decision->task) ? 1 : 0;
                             totals.silences_unverified += unverified && succeeded ? 1 : 0;
                           });
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
