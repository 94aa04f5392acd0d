#include "src/bridge/intake/intake.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <utility>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/bridge/watch/store_watch.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/utf8.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// IntakePause.
constexpr Ms kLookForAnAnswer{250};
constexpr int kLasts = 3;          // times the lease: after this the database's return has lasted
constexpr int kLongestLeast = 12;  // times the lease

// CrashLoop.
constexpr std::int64_t kUnpausedStarts = 2;  // so many unfinished starts cost no pause
constexpr std::size_t kLongestName = 48;
constexpr const char* kStarts = "intake_starts ";
constexpr const char* kLoopProblem = "crash_loop";

// The column has 64 characters.
std::string setting_name(const std::string& node) {
  return kStarts +
         (node.size() <= kLongestName ? node : "#" + std::to_string(std::hash<std::string>{}(node)));
}

std::int64_t number_in(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::max<std::int64_t>(number, 0);
}

}  // namespace

Intake::Intake(const Sidecar& sidecar)
    : sidecar_(sidecar),
      parked_(sidecar.settings.prefix + ".parked"),
      failed_(sidecar.settings.prefix + ".failed"),
      routes_{sidecar.settings.prefix + ".delay", sidecar.settings.delays},
      dice_(sidecar.settings.identity.incarnation) {}

void Intake::arrived(std::vector<Delivery> batch) {
  // A new session: deliveries of older ones of this intake that still wait for the database are redelivered.
  // Keeping them would pile them up while the broker comes and goes and the database is away.
  RUNG_REQUIRE(!batch.empty());
  const IntakeSession session = batch.front().tag.session;
  RUNG_REQUIRE(std::ranges::all_of(batch, [&](const Delivery& d) { return d.tag.session == session; }));
  const auto known = std::ranges::find(sessions_, session.intake, &IntakeSession::intake);
  if (known == sessions_.end()) {
    sessions_.push_back(session);
  } else if (std::exchange(*known, session) != session) {
    drop_before(session);
  }
  for (const Delivery& delivery : batch)
    ++sidecar_.counts.totals.received[static_cast<std::size_t>(delivery.inlet)];
  sidecar_.acks.received(session, batch.size());
  if (!can_judge()) {
    std::ranges::move(batch, std::back_inserter(unchecked_));
    return;
  }
  take(std::move(batch));
}

bool Intake::can_judge() const {
  return sidecar_.clock.known() && sidecar_.proof.ready() &&
         (sidecar_.attachments.looked() || !sidecar_.rules->targets().allow);
}

void Intake::go_on() {
  if (!unchecked_.empty() && can_judge()) take(std::exchange(unchecked_, {}));
}

void Intake::drop_all() {
  for (const IntakeSession& session : sessions_) drop_before(session.next());
}

void Intake::drop_before(const IntakeSession& session) {
  sidecar_.acks.begin_session(session);
  sidecar_.inserts.forget_before(session);
  sidecar_.transitions.forget_before(session);
  sidecar_.left.forget_before(session);
  std::erase_if(unchecked_, [&](const Delivery& delivery) { return delivery.tag.session.before(session); });
}

void Intake::take(std::vector<Delivery> batch) {
  failpoint("delivery.received");
  if (draining_) return;
  for (Delivery& delivery : batch) {
    switch (delivery.inlet) {
      case Inlet::results:
        result(delivery);
        break;
      case Inlet::delay:
        insert(delivery, delayed_task(delivery, routes_, arrival()));
        break;
      case Inlet::failed:
      case Inlet::error:
        failed(std::move(delivery));
        break;
    }
  }
  sidecar_.acks.flush();
  sidecar_.transitions.flush();
  sidecar_.inserts.flush();
}

void Intake::failed(Delivery delivery) {
  Failure failure =
      read_failure(delivery.message, delivery.exchange, delivery.routing_key, delivery.facts.failure);
  if (failure.id) {
    if (sidecar_.proof.accepts(*failure.id, failure.token, failure, DeliveryProof::Kind::failure))
      return known({std::move(delivery), std::move(failure)});
    failure.directives.ladder.clear();  // our delivery's, not a wish of the consumer
  }
  insert(delivery, failed_task(delivery, failure, arrival()));
}

void Intake::result(const Delivery& delivery) {
  ResultWord word = read_result(delivery.message);
  if (!word.complaint.empty()) {
    // Dropping it loses nothing: the task is in its row, and the silence check handles it there.
    log::warn("result ignored: malformed", {{"reason", word.complaint}});
    ++sidecar_.counts.totals.results.malformed;
    sidecar_.acks.add(delivery.tag);
    return;
  }
  Totals::Results& results = sidecar_.counts.totals.results;
  ++(word.succeeded ? results.succeeded : results.failed);
  const TaskId id = *word.id;
  if (!sidecar_.proof.accepts(id, word.token, word, DeliveryProof::Kind::result))
    return sidecar_.acks.add(delivery.tag);
  Event event{id, event::Succeeded{word.attempt, word.executor, word.proven, word.publish}};
  if (!word.succeeded) {
    if (word.error.empty()) word.error = "reported failed (no retry-error was given)";
    event.what = static_cast<event::Failed&&>(std::move(word));
  }
  const auto decided = [this, id, tag = delivery.tag](const Result<Decision>& decision) {
    if (!decision) return;  // stopping: unacked, the broker keeps it
    if (decision->verdict == Decision::Verdict::refused) {
      log::warn("result ignored: no such attempt", {{"id", id.value}, {"reason", decision->reason}});
    }
    if (decision->verdict == Decision::Verdict::stale)
      log::debug("result ignored: it changes nothing", {{"id", id.value}, {"reason", decision->reason}});
    sidecar_.acks.add(tag);
  };
  sidecar_.transitions.add(std::move(event), decided, delivery.tag.session, Transitions::OnError::keep);
}

// The arrival time counts, however long the message waits for its turn or for the database.
Arrival Intake::arrival() {
  return {*sidecar_.rules, sidecar_.clock.latest(), std::uniform_real_distribution<>(0.0, 1.0)(dice_)};
}

void Intake::insert(const Delivery& delivery, NewTask fresh) {
  if (delivery.expired && expired_.is_news(fresh.task.queue))
    log::warn(
        "a message expired in one of Rung's queues, and was kept: publish without the property expiration",
        {{"queue", fresh.task.queue}, {"exchange", delivery.exchange}});
  Inserts::Item item{
      .tasks = {}, .done = [this](const Inserts::Item& its, const auto& answers) { inserted(its, answers); }};
  item.tasks.push_back(std::move(fresh));
  item.tag = delivery.tag;
  item.from_backlog = delivery.inlet == Inlet::error;
  sidecar_.inserts.add(std::move(item));
}

void Intake::known(Known known) {
  const auto& [delivery, failure] = known;
  auto received = std::make_shared<ReceivedMessage>();
  auto message = std::make_shared<Message>(strip(delivery.message, nullptr, delivery.facts));
  received->digest = message_digest(*message);
  received->message = std::move(message);
  if (failure.routed_by_record) {
    received->exchange = failure.exchange;
    received->routing_key = failure.routing_key;
  }
  event::Failed failed = failure;
  failed.queue = clean_utf8(failure.queue, kShortString);
  failed.message_id = clean_utf8(delivery.message.properties.message_id.value_or(""), kShortString);
  failed.received = std::move(received);
  const TaskId id = *failure.id;
  const IntakeSession session = delivery.tag.session;
  auto item = std::make_shared<const Known>(std::move(known));
  sidecar_.transitions.add(
      {id, std::move(failed)},
      [this, item = std::move(item)](const Result<Decision>& decision) { decided(*item, decision); }, session,
      Transitions::OnError::keep);
}

void Intake::decided(const Known& item, const Result<Decision>& decision) {
  if (!decision) return;  // stopping: unacked, the broker keeps it
  if (decision->verdict == Decision::Verdict::refused) return refused(item, *decision);
  if (decision->reason == kRefusedPublish) {
    note_refused_publish(*item.failure.id, item.failure.attempt, decision->task.queue);
  } else if (decision->verdict == Decision::Verdict::stale) {
    note(Recognized::repeat, item, decision->task.id, decision->reason);
  }
  if (decision->replacement != nullptr)
    note(Recognized::changed, item, decision->task.id,
         "the failed message has the same body and message-id, and other headers, properties or routing key");
  sidecar_.acks.add(item.delivery.tag);
}

void Intake::refused(const Known& item, const Decision& decision) {
  const Failure& failure = item.failure;
  const std::string named = "retry-id " + failure.id->str();
  const std::string attempt = std::to_string(failure.attempt);
  if (decision.reason == kNoSuchTask && failure.proven) {
    sidecar_.store_watch.behind(*failure.id,
                                "the row is missing, and attempt " + attempt +
                                    " failed: taken in as a new task that continues on the ladder");
    Task gone;
    gone.id = *failure.id;
    gone.level = failure.level.value_or(0);
    gone.first_failed_at = failure.first_failed_at.value_or(EpochMs{});
    return take_in(item, {}, &gone,
                   "the row of " + named + " is gone: its attempt " + attempt +
                       " failed, and the message continues under a new id");
  }
  if (decision.reason == kAnotherMessage) {
    note(Recognized::child, item, decision.task.id, "body, message-id or headers are others than in the row");
    return take_in(item, {}, &decision.task,
                   "it carries the headers of " + named + ", attempt " + attempt +
                       ", and is another message: a task of its own on the same level");
  }
  if ((decision.reason == kAnothersTask && failure.proven) || decision.reason == kGoneOn) {
    note(Recognized::elsewhere, item, decision.task.id,
         decision.reason == kGoneOn ? decision.reason : "it failed in queue " + failure.queue);
    return take_in(item, {}, &decision.task);  // from the start
  }
  const bool unknown = decision.reason == kNoSuchTask || decision.reason == kAnothersTask;
  std::string reason;
  if (!unknown) {
    reason = "it carries " + named + " and retry-attempt " + attempt + ": " + decision.reason;
  }
  log::warn(unknown ? "a failed message names another message's task: taken in as new"
                    : "a failed message does not fit its task: parked as a separate task",
            {{"id", failure.id->value}, {"attempt", failure.attempt}, {"reason", decision.reason}});
  Known known = item;
  if (!unknown && known.failure.queue.empty()) known.failure.queue = decision.task.queue;
  take_in(known, std::move(reason));
}

// It becomes a task of its own. The ladder that our delivery named is no wish of the consumer.
void Intake::take_in(const Known& item, std::string park_reason, const Task* parent,
                     const std::string& remark) {
  Failure failure = item.failure;
  failure.directives.ladder.clear();
  insert(item.delivery,
         failed_task(item.delivery, failure, arrival(), std::move(park_reason), parent, remark));
  sidecar_.inserts.flush();
}

void Intake::note(Recognized as, const Known& item, TaskId task, const std::string& reason) {
  note(as, task, clean_utf8(item.failure.queue, kShortString),
       clean_utf8(item.delivery.message.properties.message_id.value_or(""), kShortString), reason);
}

void Intake::inserted(const Inserts::Item& item, const Result<std::vector<Inserted>>& answers) {
  const Task& task = item.tasks.front().task;
  if (!answers) {
    if (answers.error().is_transient()) return;  // stopping: unacked, the broker keeps it
    return divert(item, "the database rejects it: " + answers.error().message);
  }
  const Inserted& answer = answers->front();
  if (answer.how == Inserted::How::too_large)
    return divert(item, "its body of " + std::to_string(task.body_bytes) +
                            " bytes exceeds what the database accepts (max_allowed_packet)");
  if (answer.how == Inserted::How::duplicate) {
    note(Recognized::duplicate, answer.id, task.queue, task.message_id,
         "the same message, with the same failure, was taken in before");
  } else {
    note_origin(task);
  }
  sidecar_.acks.add(item.tag);
}

// Retries it in its current state: if its copy is already in the parked queue, only the row is missing.
void Intake::try_later(Inserts::Item item, const std::string& reason) {
  item.alone = true;
  const IntakeSession session = item.tag.session;
  sidecar_.left.add(session, reason, [this, item = std::move(item)] {
    sidecar_.inserts.add(item);
    sidecar_.inserts.flush();
  });
}

// The broker keeps messages that the database cannot store: the message goes to <prefix>.parked, a row
// without a body records that, and only then is it acked.
void Intake::divert(Inserts::Item item, const std::string& reason) {
  const NewTask& fresh = item.tasks.front();
  if (!body_stored(fresh.task)) {
    log::error("message not stored: left unacked, retrying", {{"reason", reason}});
    return try_later(std::move(item), reason);
  }
  ++diverting_;
  // Stripped: the broker accepted the message as first published; with the headers added by the broker and
  // Rung it may be too large to publish.
  const Task& task = fresh.task;
  Outgoing copy{0, parked_, task.moved_from.empty() ? task.queue : task.moved_from, *fresh.message};
  sidecar_.outbox.send(std::move(copy), [this, item, reason](const PublishResult& result) mutable {
    --diverting_;
    if (result.how == PublishResult::How::confirmed) {
      leave_body_out(item.tasks.front(), reason + "; the message is in the queue " + parked_, *sidecar_.rules,
                     sidecar_.clock.latest());
      item.alone = true;
      sidecar_.inserts.add(std::move(item));
      sidecar_.inserts.flush();
    } else {
      log::error("message not moved to the parked queue: left unacked, retrying",
                 {{"reason", result.reason}});
      try_later(std::move(item), result.reason);
    }
  });
  sidecar_.outbox.flush();
}

void Intake::note(Recognized as, TaskId task, const std::string& queue, const std::string& message_id,
                  const std::string& reason) {
  ++sidecar_.counts.totals.recognized[static_cast<std::size_t>(as)];
  const bool acked = as <= Recognized::repeat;
  const std::string word(kRecognizedWords[static_cast<std::size_t>(as)]);
  log::info(
      acked ? "message acked without a new row: its task has this very message"
            : "message carries the headers of a retry",
      {{"as", word}, {"id", task.value}, {"queue", queue}, {"message_id", message_id}, {"reason", reason}});
  if (!(acked ? acked_ : taken_in_).is_news(queue)) return;
  sidecar_.record(acked ? "known_message_acked" : "retry_headers_copied", queue,
                  word + " of task " + task.str() + ": " + reason);
}

void Intake::note_refused_publish(TaskId id, int attempt, const std::string& queue) {
  ++sidecar_.counts.totals.refused_publishes;
  log::info("dead letter of a publish that its full queue refused: acked, the task is published again",
            {{"id", id.value}, {"attempt", attempt}, {"queue", queue}});
  if (!refusing_.is_news(queue)) return;
  log::warn("a full queue refuses publishes and dead-letters them as well: use overflow reject-publish",
            {{"queue", queue}});
  sidecar_.record(
      "refused_publish_dead_lettered", queue,
      "the queue is full, and x-overflow reject-publish-dlx dead-letters what it refuses: each try of a "
      "retry comes back at once and changes nothing. Set overflow: reject-publish");
}

void Intake::note_origin(const Task& task) {
  const bool published_here =
      task.kind == Kind::retry && task.exchange == failed_ && task.error_queue.empty();
  if (!published_here || task.queue.empty()) return;
  ++sidecar_.counts.totals.without_origin;
  if (!without_origin_.is_news(task.queue)) return;
  log::warn("a failure came without its origin: its retries lose the routing key", {{"queue", task.queue}});
  sidecar_.record(
      "origin_missing", task.queue,
      "a consumer published a failure to " + failed_ +
          " without retry-origin-exchange and retry-origin-routing-key: its retries have the queue's name "
          "as routing key (docs/operations.md)");
}

// --- when nothing is taken in, and why

IntakePause::IntakePause(const Sidecar& sidecar, IntakeHolds& holds)
    : sidecar_(sidecar), holds_(holds), timer_(sidecar.loop, [this] { look(); }) {}

void IntakePause::start() {
  begun_ = false;
  paused_ = true;
  paused_at_ = sidecar_.loop.clock().boot();
  holds_.hold(IntakeHolds::Why::database_away);
  timer_.start(kLookForAnAnswer);
}

void IntakePause::database_away(bool yes) {
  away_ = yes;
  look();
}

void IntakePause::drain() {
  draining_ = true;
  timer_.stop();
}

void IntakePause::look() {
  if (draining_) return;
  const Ms outage = sidecar_.settings.lease;
  const BootMs now = sidecar_.loop.clock().boot();
  const BootMs answered = sidecar_.jobs.answered();
  if (!paused_) {
    if (!away_) return timer_.stop();
    if (now - answered < outage) return timer_.start(outage - (now - answered));
    pause(now);
  } else if (sidecar_.jobs.served() > paused_at_ && now - paused_at_ >= least_) {
    resume(now);
    if (!away_) return timer_.stop();  // otherwise another kind of job still waits
  }
  timer_.start(kLookForAnAnswer);
}

void IntakePause::pause(BootMs now) {
  const Ms outage = sidecar_.settings.lease;
  const bool lasted = resumed_at_.ms == 0 || now - resumed_at_ > outage * kLasts;
  least_ = lasted ? Ms{0} : std::clamp(least_ * 2, outage, outage * kLongestLeast);
  paused_ = true;
  paused_at_ = now;
  holds_.hold(IntakeHolds::Why::database_away);
  sidecar_.intake.drop_all();
  const std::string broker(sidecar_.broker.name());
  log::warn("database does not answer: intake paused, unacked messages returned to " + broker,
            {{"for_ms", outage.count()}});
  sidecar_.health.set("intake",
                      "no answer from the database for " + std::to_string(outage.count()) +
                          " ms: intake is paused, and unacked messages were returned to " + broker,
                      Health::Effect::not_ready);
}

void IntakePause::resume(BootMs now) {
  paused_ = false;
  const std::int64_t length = (now - paused_at_).count();
  holds_.release(IntakeHolds::Why::database_away);
  if (!std::exchange(begun_, true))
    return log::info("database answered: intake begins", {{"waited_ms", length}});
  resumed_at_ = now;
  log::info("intake resumed", {{"paused_ms", length}});
  sidecar_.health.clear("intake");
  // It could not be written before.
  sidecar_.record("intake_paused", sidecar_.settings.identity.name,
                  "intake was paused for " + std::to_string(length) +
                      " ms because the database did not answer: unacked messages were returned to " +
                      std::string(sidecar_.broker.name()));
}

CrashLoop::CrashLoop(const Sidecar& sidecar, IntakeHolds& holds)
    : sidecar_(sidecar),
      holds_(holds),
      name_(setting_name(sidecar.settings.identity.name)),
      timer_(sidecar.loop, [this] { tick(); }) {}

void CrashLoop::start() {
  stage_ = Stage::counting;
  holds_.hold(IntakeHolds::Why::crash_loop);
  sidecar_.jobs.submit<std::int64_t>(
      Lane::flow,
      [name = name_](Store& store) {
        const std::int64_t unfinished = number_in(store.setting(name, ""));
        store.set_setting(name, std::to_string(unfinished + 1));
        return unfinished;
      },
      [this](const Result<std::int64_t>& unfinished) {
        if (!unfinished)
          log::warn("counting the starts of the intake failed", {{"reason", unfinished.error().message}});
        counted(unfinished ? *unfinished : 0);
      });
}

void CrashLoop::counted(std::int64_t unfinished) {
  if (stage_ != Stage::counting) return;
  unfinished_ = unfinished;
  if (unfinished_ == 0) return consume();
  stage_ = Stage::waiting;
  Ms pause = kLookTakes;
  if (unfinished_ > kUnpausedStarts) {
    pause = std::min(pause + Ms{1000} * (unfinished_ - kUnpausedStarts), kLongestPause);
    log::warn("earlier starts ended before their intake was stable: it begins after a pause",
              {{"starts", unfinished_}, {"pause_ms", pause.count()}});
  }
  timer_.start(pause);
  judge();
}

void CrashLoop::looked(const AttachmentLook& look) {
  looked_ = true;
  if (look.limit) limit_ = *look.limit;
  judge();
}

void CrashLoop::judge() {
  const bool used_up = unfinished_ >= std::max<std::int64_t>(limit_.deliveries / 2, 1);
  if (stage_ == Stage::waiting) {
    if (used_up) return stop();
    if (looked_ && unfinished_ <= kUnpausedStarts) consume();
  } else if (stage_ == Stage::stopped && !used_up) {
    log::info("no delivery limit any more: intake begins");
    sidecar_.health.clear(kLoopProblem);
    consume();
  }
}

void CrashLoop::stop() {
  stage_ = Stage::stopped;
  timer_.stop();
  const std::string text = std::to_string(unfinished_) +
                           " starts in a row ended before their intake was stable, and " + limit_.queue +
                           " has a delivery limit of " + std::to_string(limit_.deliveries) +
                           ": nothing is consumed, so that the broker drops no message. The command that "
                           "removes the limit: rung doctor";
  log::error("a crash loop would use up a delivery limit: intake is stopped",
             {{"starts", unfinished_}, {"queue", limit_.queue}, {"limit", limit_.deliveries}});
  sidecar_.health.set(kLoopProblem, text, Health::Effect::not_ready);
  sidecar_.record("intake_stopped", limit_.queue, text);
}

void CrashLoop::consume() {
  stage_ = Stage::consuming;
  holds_.release(IntakeHolds::Why::crash_loop);
  timer_.start(kStable);
}

void CrashLoop::tick() {
  if (stage_ == Stage::waiting) return consume();
  stage_ = Stage::over;
  write(0);
}

void CrashLoop::write(std::int64_t count) {
  sidecar_.jobs.submit<void>(
      Lane::upkeep,
      [name = name_, count](Store& store) {
        // A name that changes with each start, as a container's, leaves no row behind.
        store.set_setting(name, count > 0 ? std::to_string(count) : "");
      },
      [](const Result<void>& done) {
        if (!done) log::warn("counting the starts of the intake failed", {{"reason", done.error().message}});
      });
}

void CrashLoop::drain() {
  timer_.stop();
  // A start that consumed nothing has used up nothing, but it has mended nothing either. While it is being
  // counted, one start too many is the safe side.
  if (stage_ == Stage::consuming) {
    write(0);
  } else if (stage_ != Stage::over && stage_ != Stage::counting) {
    write(unfinished_);
  }
  stage_ = Stage::over;
}

}  // namespace rung::bridge
