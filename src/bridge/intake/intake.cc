#include "src/bridge/intake/intake.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/bridge/base/outbox.h"
#include "src/bridge/gates/gates.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/watch/attachments.h"
#include "src/bridge/watch/store_watch.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/result.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/climb.h"
#include "src/core/machine/headers.h"
#include "src/core/message/identity.h"
#include "src/io/log.h"

namespace rung::bridge {

namespace {

constexpr Ms kNewcomerWaits{5};

bool is_acked(Recognized::As as) { return as <= Recognized::As::repeat; }

}  // namespace

Intake::Intake(const Sidecar& sidecar)
    : sidecar_(sidecar),
      parked_(sidecar.settings.prefix + ".parked"),
      routes_{sidecar.settings.prefix + ".delay", sidecar.settings.delays},
      recognized_(sidecar),
      linger_(sidecar.loop, kNewcomerWaits, [this] { flush(); }),
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
  for (const Delivery& delivery : batch) ++received_[static_cast<std::size_t>(delivery.inlet)];
  sidecar_.acks.received(session, batch.size());
  if (!can_judge()) {
    std::ranges::move(batch, std::back_inserter(unchecked_));
    return;
  }
  take(std::move(batch));
}

bool Intake::can_judge() const {
  return sidecar_.proof.ready() && (sidecar_.attachments.looked() || !sidecar_.rules->targets().allow);
}

void Intake::go_on() {
  if (!unchecked_.empty() && can_judge()) take(std::exchange(unchecked_, {}));
}

void Intake::drop_all() {
  for (const IntakeSession& session : sessions_) drop_before(session.next());
}

void Intake::drop_before(const IntakeSession& session) {
  sidecar_.acks.begin_session(session);
  waiting_.forget_before(session);
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
        wait(delayed_newcomer(std::make_shared<Delivery>(std::move(delivery)), routes_, *sidecar_.rules));
        break;
      case Inlet::failed:
      case Inlet::error:
        failed(std::move(delivery));
        break;
    }
  }
  sidecar_.acks.flush();
  sidecar_.transitions.flush();
  flush();
}

void Intake::failed(Delivery delivery) {
  auto kept = std::make_shared<Delivery>(std::move(delivery));
  Failure failure = read_failure(kept->message, kept->exchange, kept->routing_key, kept->facts.failure);
  const bool of_ours = failure.id.has_value();
  if (of_ours && sidecar_.proof.takes_failure({*failure.id, failure.attempt, failure.token}))
    return known(std::move(kept), std::move(failure));
  if (of_ours) failure.directives.ladder.clear();  // our delivery's, not a wish of the consumer
  wait(failed_newcomer(std::move(kept), std::move(failure), *sidecar_.rules));
}

void Intake::result(const Delivery& delivery) {
  ResultWord word = read_result(delivery.message);
  if (!word.complaint.empty()) {
    // Dropping it loses nothing: the task is in its row, and the silence check handles it there.
    log::warn("result ignored: malformed", {{"reason", word.complaint}});
    ++results_.malformed;
    sidecar_.acks.add(delivery.tag);
    return;
  }
  ++(word.succeeded ? results_.succeeded : results_.failed);
  const TaskId id = *word.id;
  const DeliveryProof::Claim claim{id, word.attempt, word.token};
  if (!sidecar_.proof.takes_result(claim)) {
    sidecar_.acks.add(delivery.tag);
    return;
  }
  const bool proven = sidecar_.proof.proven(claim);
  if (proven) word.attempt = attempt_of_token(word.token);  // even without retry-attempt
  const std::uint32_t publish = proven ? publish_of_token(word.token) : 0;
  Event event{id, event::Succeeded{word.attempt, word.executor, proven, publish}};
  if (!word.succeeded) {
    if (word.error.empty()) word.error = "reported failed (no retry-error was given)";
    event.what = event::Failed{.attempt = word.attempt,
                               .error = std::move(word.error),
                               .error_type = std::move(word.error_type),
                               .directives = std::move(word.directives),
                               .executor = std::move(word.executor),
                               .proven = proven,
                               .publish = publish};
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

void Intake::wait(Newcomer item) {
  if (item.delivery->expired && expired_told_.is_news(item.queue()))
    log::warn(
        "a message expired in one of Rung's queues, and was kept: publish without the property expiration",
        {{"queue", item.queue()}, {"exchange", item.delivery->exchange}});
  item.arrived = sidecar_.clock.here().boot_us();
  waiting_.push(std::move(item));
}

void Intake::known(std::shared_ptr<Delivery> delivery, Failure failure) {
  const bool proven = sidecar_.proof.proven({*failure.id, failure.attempt, failure.token});
  if (proven) {
    failure.attempt = attempt_of_token(failure.token);
    failure.publish = publish_of_token(failure.token);
  }
  auto received = std::make_shared<ReceivedMessage>();
  auto message = std::make_shared<Message>(strip(delivery->message, nullptr, delivery->facts));
  received->digest = message_digest(*message);
  received->message = std::move(message);
  if (failure.routed_by_record) {
    received->exchange = failure.exchange;
    received->routing_key = failure.routing_key;
  }
  const auto& message_id = delivery->message.properties.message_id;
  event::Failed failed{failure.attempt,
                       failure.error,
                       failure.error_type,
                       failure.directives,
                       clean_utf8(failure.queue, kShortString),
                       clean_utf8(message_id.value_or(""), kShortString),
                       failure.executor,
                       proven,
                       false,
                       failure.level};
  failed.unseen = failure.unseen;
  failed.publish = failure.publish;
  failed.received = std::move(received);
  const TaskId id = *failure.id;
  const IntakeSession session = delivery->tag.session;
  auto item = std::make_shared<const Known>(Known{std::move(delivery), std::move(failure), proven});
  sidecar_.transitions.add(
      {id, std::move(failed)},
      [this, item = std::move(item)](const Result<Decision>& decision) { decided(*item, decision); }, session,
      Transitions::OnError::keep);
}

void Intake::decided(const Known& item, const Result<Decision>& decision) {
  if (!decision) return;  // stopping: unacked, the broker keeps it
  if (decision->verdict == Decision::Verdict::refused) return refused(item, *decision);
  if (decision->reason == kRefusedPublish) {
    recognized_.refused_publish(*item.failure.id, item.failure.attempt, decision->task.queue);
  } else if (decision->verdict == Decision::Verdict::stale) {
    note(Recognized::As::repeat, item, decision->task.id, decision->reason);
  }
  if (decision->replacement != nullptr)
    note(Recognized::As::changed, item, decision->task.id,
         "the failed message has the same body and message-id, and other headers, properties or routing key");
  sidecar_.acks.add(item.delivery->tag);
}

void Intake::refused(const Known& item, const Decision& decision) {
  const Failure& failure = item.failure;
  if (decision.reason == kNoSuchTask && item.proven) {
    sidecar_.store_watch.behind(*failure.id,
                                "the row is missing, and attempt " + std::to_string(failure.attempt) +
                                    " failed: taken in as a new task that continues on the ladder");
    return take_in(item, continue_lost_row(failure));
  }
  if (decision.reason == kAnotherMessage) {
    note(Recognized::As::child, item, decision.task.id,
         "body, message-id or headers are others than in the row");
    return take_in(item, continue_after(decision.task, failure));
  }
  if ((decision.reason == kAnothersTask && item.proven) || decision.reason == kGoneOn) {
    note(Recognized::As::elsewhere, item, decision.task.id,
         decision.reason == kGoneOn ? decision.reason : "it failed in queue " + failure.queue);
    Continuation from_the_start{decision.task.id};
    return take_in(item, std::move(from_the_start));
  }
  const bool unknown = decision.reason == kNoSuchTask || decision.reason == kAnothersTask;
  std::string reason;
  if (!unknown) {
    reason = "it carries retry-id " + failure.id->str() + " and retry-attempt " +
             std::to_string(failure.attempt) + ": " + decision.reason;
  }
  log::warn(unknown ? "a failed message names another message's task: taken in as new"
                    : "a failed message does not fit its task: parked as a separate task",
            {{"id", failure.id->value}, {"attempt", failure.attempt}, {"reason", decision.reason}});
  Known known = item;
  if (!unknown && known.failure.queue.empty()) known.failure.queue = decision.task.queue;
  take_in(known, {}, std::move(reason));
}

// It becomes a task of its own. The ladder that our delivery named is no wish of the consumer.
void Intake::take_in(const Known& item, std::optional<Continuation> continues, std::string park_reason) {
  Failure failure = item.failure;
  failure.directives.ladder.clear();
  Newcomer newcomer =
      failed_newcomer(item.delivery, std::move(failure), *sidecar_.rules, std::move(park_reason));
  newcomer.continues = std::move(continues);
  newcomer.proven = item.proven;
  wait(std::move(newcomer));
  flush();
}

void Intake::note(Recognized::As as, const Known& item, TaskId task, std::string reason) {
  recognized_.add({as, task, clean_utf8(item.failure.queue, kShortString),
                   clean_utf8(item.delivery->message.properties.message_id.value_or(""), kShortString),
                   std::move(reason)});
}

// Sends a second batch beside the one under way only if it is worth a transaction: otherwise many small
// batches would alternate, each costing the database a commit and the broker an ack.
bool Intake::should_flush() {
  if (waiting_.size() >= kMostInBatch / 2 || waiting_.front().alone) return true;
  if (in_flight_ == 0) return !linger_.hold();
  return waiting_.bytes() >= kBytesInBatch / 2;
}

void Intake::flush() {
  while (!draining_ && !waiting_.empty() && in_flight_ < kMostInFlight && should_flush()) {
    // One shard per batch: one lease to check, neighbouring rows in the index. An instance that gave its
    // shards up because it cannot publish continues its intake: the shard's owner finds the rows in its
    // sweep.
    const bool for_others = sidecar_.shards.stepped_back();
    const int shard = for_others ? anybodys_shard() : sidecar_.shards.home();
    if (shard < 0) return;  // called again when a lease is taken
    std::vector<Newcomer> batch;
    std::size_t bytes = 0;
    while (!waiting_.empty() && batch.size() < kMostInBatch && bytes < kBytesInBatch) {
      const bool alone = waiting_.front().alone;
      if (alone && !batch.empty()) break;
      batch.push_back(waiting_.pop());
      bytes += batch.back().delivery->message.body.size();
      if (alone) break;
    }
    linger_.end();
    insert(std::move(batch), shard, for_others);
  }
}

int Intake::anybodys_shard() { return std::uniform_int_distribution<>(0, kShards - 1)(dice_); }

void Intake::insert(std::vector<Newcomer> batch, int shard, bool for_others) {
  Fence fence = sidecar_.shards.fence();
  fence.by_hand = for_others;
  auto shared = std::make_shared<std::vector<Newcomer>>(std::move(batch));
  auto tasks = std::make_shared<std::vector<NewTask>>();
  std::vector<DeliveryTag> tags;
  const RuleBookPtr rules = sidecar_.rules;
  for (const Newcomer& item : *shared) {
    const double random = std::uniform_real_distribution<>(0.0, 1.0)(dice_);
    // The arrival time, however long the message waited for its turn or for the database.
    const EpochMs arrived = sidecar_.clock.latest(item.arrived);
    const EpochMs now = sidecar_.clock.latest();
    tasks->push_back(make_task(
        item, {sidecar_.shards.new_id(now), shard, sidecar_.shards.node(), *rules, arrived, random}));
    tags.push_back(item.delivery->tag);
    if (planted(Bug::ack_before_commit)) sidecar_.acks.add(item.delivery->tag);
  }
  if (planted(Bug::ack_before_commit)) sidecar_.acks.flush();
  ++in_flight_;
  sidecar_.jobs.submit<Answers>(
      Lane::flow,
      [this, tags = std::move(tags), tasks, fence = std::move(fence)](Store& store) {
        return insert_standing(store, tags, *tasks, fence);
      },
      [this, shared, tasks](const Result<Answers>& result) {
        --in_flight_;
        inserted(*shared, *tasks, result);
        sidecar_.acks.flush();
        flush();
      });
}

// On a store thread, at each try. If a delivery's connection is gone, because it waited for the database or
// the process was suspended, another instance has received it by now and may have finished its task:
// inserting it would make a second task. It is skipped; if no other instance had it, the broker redelivers
// it.
Result<Intake::Answers> Intake::insert_standing(Store& store, const std::vector<DeliveryTag>& tags,
                                                const std::vector<NewTask>& tasks, const Fence& fence) const {
  Answers answers(tasks.size());
  std::vector<std::size_t> places;
  std::vector<NewTask> standing;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!sidecar_.broker.stands(tags[i])) continue;
    places.push_back(i);
  }
  const bool all = places.size() == tasks.size();
  if (!all) {
    for (const std::size_t i : places) standing.push_back(tasks[i]);
  }
  auto inserted = store.insert(all ? tasks : standing, fence);
  if (!inserted) return tl::unexpected(inserted.error());
  for (std::size_t i = 0; i < places.size(); ++i) answers[places[i]] = (*inserted)[i];
  return answers;
}

void Intake::inserted(std::vector<Newcomer>& batch, const std::vector<NewTask>& tasks,
                      const Result<Answers>& result) {
  if (!result) {
    if (result.error().is_transient()) return;  // stopping: unacked, the broker keeps them
    for (Newcomer& item : batch) {
      if (batch.size() == 1) {
        divert(std::move(item), "the database rejects it: " + result.error().message);
      } else {
        item.alone = true;
        waiting_.push(std::move(item));
      }
    }
    return;
  }
  std::vector<DeliveryTag> left;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Task& task = tasks[i].task;
    if (!(*result)[i]) {
      left.push_back(batch[i].delivery->tag);
      continue;
    }
    const Inserted& answer = *(*result)[i];
    switch (answer.how) {
      case Inserted::How::inserted:
        sidecar_.acks.add(batch[i].delivery->tag);
        if (task.state == State::parked &&
            (task.rule.empty() || !body_stored(task))) {  // by a rule: intended
          log::warn("parked on arrival", {{"id", task.id.value},
                                          {"queue", task.queue},
                                          {"message_id", task.message_id},
                                          {"error", task.last_error}});
        }
        sidecar_.transitions.inserted(tasks[i]);
        recognized_.inserted(task);
        // Anybody who may publish can write a retry-after: only a delivery of ours speaks for its queue.
        if (const auto* failure = std::get_if<Failure>(&batch[i].said);
            failure != nullptr && (batch[i].proven || planted(Bug::hold_without_proof))) {
          Task failed = task;
          if (!task.moved_from.empty()) failed.queue = task.moved_from;  // by a rule
          if (const auto wait = queue_hold(failed, failure->directives, *sidecar_.rules))
            sidecar_.gates.hold_queue(failed.queue, *wait, failed.id);
        }
        break;
      case Inserted::How::duplicate:
        recognized_.add({Recognized::As::duplicate, answer.id, task.queue, task.message_id,
                         "the same message, with the same failure, was taken in before"});
        sidecar_.acks.add(batch[i].delivery->tag);
        break;
      case Inserted::How::not_held:
        sidecar_.shards.refused();
        [[fallthrough]];
      case Inserted::How::id_taken:  // the next turn gives it a new id
        waiting_.push(std::move(batch[i]));
        break;
      case Inserted::How::too_large:
        divert(std::move(batch[i]), "its body of " + std::to_string(task.body_bytes) +
                                        " bytes exceeds what the database accepts (max_allowed_packet)");
        break;
    }
  }
  // In case the connection is open after all (the only doubt was that this process had been suspended).
  sidecar_.acks.requeue(std::move(left));
}

// Retries it in its current state: if its copy is already in the parked queue, only the row is missing.
void Intake::try_later(Newcomer item, const std::string& reason) {
  item.alone = true;
  const IntakeSession session = item.delivery->tag.session;
  sidecar_.left.add(session, reason, [this, item = std::move(item)]() mutable {
    waiting_.push(std::move(item));
    flush();
  });
}

// The broker keeps messages that the database cannot store: the message goes to <prefix>.parked, a row
// without a body records that, and only then is it acked.
void Intake::divert(Newcomer item, const std::string& reason) {
  if (item.without_body) {
    log::error("message not stored: left unacked, retrying", {{"reason", reason}});
    return try_later(std::move(item), reason);
  }
  const std::string former_reason = std::exchange(item.park_reason, {});
  item.park_reason = reason + "; the message is in the queue " + parked_;
  item.without_body = true;
  ++diverting_;
  // Stripped: the broker accepted the message as first published; with the headers added by the broker and
  // Rung it may be too large to publish.
  Outgoing copy{0, parked_, item.queue(), strip(item.delivery->message, nullptr)};
  sidecar_.outbox.send(std::move(copy), [this, item, former_reason](const PublishResult& result) mutable {
    --diverting_;
    if (result.how == PublishResult::How::confirmed) {
      item.alone = true;
      waiting_.push(std::move(item));
      flush();
    } else {
      log::error("message not moved to the parked queue: left unacked, retrying",
                 {{"reason", result.reason}});
      item.without_body = false;
      item.park_reason = former_reason;
      try_later(std::move(item), result.reason);
    }
  });
  sidecar_.outbox.flush();
}

std::string_view Recognized::to_word(As as) {
  constexpr std::array<std::string_view, kKinds> kWords{"duplicate", "repeat", "changed", "child",
                                                        "elsewhere"};
  return kWords[static_cast<std::size_t>(as)];
}

void Recognized::add(const Item& item) {
  ++counts_[static_cast<std::size_t>(item.as)];
  const bool acked = is_acked(item.as);
  log::info(acked ? "message acked without a new row: its task has this very message"
                  : "message carries the headers of a retry",
            {{"as", to_word(item.as)},
             {"id", item.task.value},
             {"queue", item.queue},
             {"message_id", item.message_id},
             {"reason", item.reason}});
  if (!(acked ? acked_ : taken_in_).is_news(item.queue)) return;
  sidecar_.record(acked ? "known_message_acked" : "retry_headers_copied", item.queue,
                  std::string(to_word(item.as)) + " of task " + item.task.str() + ": " + item.reason);
}

void Recognized::refused_publish(TaskId id, int attempt, const std::string& queue) {
  ++refused_;
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

void Recognized::inserted(const Task& task) {
  const bool published_here =
      task.kind == Kind::retry && task.exchange == failed_ && task.error_queue.empty();
  if (!published_here || task.queue.empty()) return;
  ++without_origin_;
  if (!without_.is_news(task.queue)) return;
  log::warn("a failure came without its origin: its retries lose the routing key", {{"queue", task.queue}});
  sidecar_.record(
      "origin_missing", task.queue,
      "a consumer published a failure to " + failed_ +
          " without retry-origin-exchange and retry-origin-routing-key: its retries have the queue's name "
          "as routing key (docs/operations.md)");
}

}  // namespace rung::bridge
