// One file on purpose: the transitions of all states stand together, and can be read beside each other. What
// a failure leads to is in climb.cc, whose after_failure() only this file calls.
#include "src/core/machine/machine.h"

#include <algorithm>
#include <array>

#include "src/core/base/failpoint.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/by_hand.h"
#include "src/core/message/identity.h"

namespace rung {

namespace {

using Verdict = Decision::Verdict;

Decision stale(const Task& task, std::string reason) {
  return {Verdict::stale, std::move(reason), task, {}, false, {}};
}
Decision refused(const Task& task, std::string reason) {
  return {Verdict::refused, std::move(reason), task, {}, false, {}};
}
Decision applied(Task task, std::optional<Attempt> attempt = {}) {
  return {Verdict::applied, {}, std::move(task), std::move(attempt), false, {}};
}

std::string is_in(const Task& task) { return "it is " + std::string(to_word(task.state)); }

// The history row of `attempt` now. The row exists since the claim, and the store keeps its level and due_at.
// If it was lost, the new row must at least not look early.
Attempt history(const Task& task, int attempt, Outcome outcome, const Circumstances& at,
                std::string error = {}) {
  const bool current = attempt == task.attempt;
  Attempt row;
  row.task = task.id;
  row.attempt = attempt;
  row.level = task.level;
  // Only in `publishing` is next_at the attempt's due time; later it is the end of silence, or the next
  // attempt's due time.
  row.due_at = current && task.state == State::publishing ? task.next_at.value_or(at.now) : at.now;
  row.outcome = outcome;
  if (outcome != Outcome::pending) row.outcome_at = at.now;
  row.error = std::move(error);
  row.node = current ? task.node : 0;  // for an older attempt only its row has the node
  return row;
}

// Reason of a refusal.
constexpr std::string_view kReported =
    "its success was reported, not presumed: only with include_reported (--include-reported)";

std::string clean_name(const std::string& name) { return clean_utf8(name, 255); }

// The current attempt did not succeed. `up`: by so many levels.
Decision fail(const Task& before, Outcome outcome, const std::string& error, const std::string& type,
              const Directives& d, const RuleBook& rules, const Circumstances& at, bool proven = false,
              int up = 1) {
  Task task = before;
  task.last_error = clean_utf8(error, kErrorBytes);
  task.error_type = type;
  if (task.first_failed_at.ms == 0) task.first_failed_at = at.now;
  Attempt row = history(before, before.attempt, outcome, at, task.last_error);
  after_failure(task, before.level + up, d, rules, at.now, at.random);
  row.rule = task.rule;
  std::string failed_in = task.queue == before.queue ? "" : before.queue;
  // Anybody who may publish can write a retry-after: only a delivery of ours speaks for its queue.
  const bool may_hold = proven || planted(Bug::hold_without_proof);
  const auto holds_queue = may_hold ? queue_hold(before, d, rules) : std::nullopt;
  // The instance that received the failure knows of it first: the task moves to one of its shards, whose heap
  // is in memory.
  if (at.home_shard >= 0) task.shard = at.home_shard;
  Decision out = applied(std::move(task), std::move(row));
  out.failed_in = std::move(failed_in);
  out.holds_queue = holds_queue;
  return out;
}

// The next attempt is claimed.
void begin_attempt(Task& task, std::uint64_t epoch, int node) {
  ++task.attempt;
  task.state = State::publishing;
  task.epoch = epoch;
  task.node = node;
  task.copy_number = task.version + 1;
}

std::string replaced_text(const Task& task) {
  const std::string child = task.replaced_by.str();
  return "it was replaced by task " + child +
         ", an edited copy: check that one first; to send this one too, use include_replaced "
         "(--include-replaced)";
}

bool under_way(const Task& t) { return t.state == State::publishing || t.state == State::awaiting; }

struct Machine {
  const Task& task;
  const RuleBook& rules;
  const Circumstances& at;

  Decision operator()(const event::Claim& e) const {
    if (at.epoch == 0) return stale(task, std::string(kNotOurShard));
    Task next = task;
    bool is_short = false;
    if (task.state == State::scheduled) {
      if (!task.next_at || *task.next_at > at.now + e.ahead) return stale(task, "it is not due yet");
      begin_attempt(next, at.epoch, at.node);
      is_short = e.gated.count() == 0 && e.probe == task.probe;
      next.uncounted_time += e.gated;
      next.probe = e.probe;
    } else if (task.state == State::publishing) {
      // Left by a dead owner (an older epoch), or our own claim whose answer was lost, or refused (epoch 0):
      // repeat the same attempt.
      if (task.epoch > at.epoch) return stale(task, "a newer owner claimed it");
      // It was found as due before its short claim was written to the row.
      if (task.epoch != 0 && task.epoch != at.epoch && !e.again)
        return stale(task, "its former owner may still publish it");
      if (e.probe != 0) next.probe = e.probe;
      if (planted(Bug::claim_counted_twice)) ++next.attempt;
      next.epoch = at.epoch;
      next.node = at.node;
      if (!(next == task)) next.copy_number = task.version + 1;
    } else {
      return stale(task, is_in(task));
    }
    Attempt row = history(next, next.attempt, Outcome::pending, at);
    row.epoch = at.epoch;
    Decision d = applied(std::move(next), std::move(row));
    d.claimed_again = task.state == State::publishing;
    d.short_claim = is_short;
    return d;
  }

  Decision operator()(const event::Confirmed& e) const {
    if (e.attempt > task.attempt || e.attempt < 1) return stale(task, "no such attempt");
    Attempt row = history(task, e.attempt, Outcome::pending, at);
    row.published_at = e.published_at;
    Task next = task;
    // Claimed again by another instance, which may still publish its copy: wait for that confirm. Without a
    // claim (epoch 0), the copy that was confirmed is not the row's current one: it is published once more.
    const bool anothers =
        (at.claim_stands && task.node != at.node) || (e.epoch != 0 && e.epoch != task.epoch);
    const bool is_its = (e.attempt == task.attempt && !anothers) || planted(Bug::confirm_of_wrong_attempt);
    if (task.state == State::publishing && is_its) {
      next.state = State::awaiting;
      next.said = silence_of(task, rules);
      next.next_at = at.now + next.said->after;
    }
    // Else the consumer was quicker than the confirm: its result stays, only the history gets the time.
    return applied(std::move(next), std::move(row));
  }

  Decision operator()(const event::Returned& e) const {
    if (auto why = not_ours(e.attempt); !why.empty()) return stale(task, std::move(why));
    Decision d = fail(task, Outcome::returned, e.reason, "returned", {}, rules, at);
    d.attempt->published_at = e.published_at;
    return d;
  }

  Decision operator()(const event::Deferred& e) const {
    if (auto why = not_ours(e.attempt); !why.empty()) return stale(task, std::move(why));
    Task next = task;
    next.next_at = at.now + e.pause;
    next.last_error = clean_utf8(e.reason, kErrorBytes);
    if (e.copy_may_be_out) {
      next.epoch = 0;                       // no claim is in effect: a result for the copy counts at once
      next.copy_number = task.version + 1;  // the refused copy is not the current one
      return applied(std::move(next));
    }
    next.state = State::scheduled;
    --next.attempt;
    Decision d = applied(std::move(next), history(task, task.attempt, Outcome::pending, at));
    d.drop_attempt = true;
    return d;
  }

  Decision operator()(const event::Failed& e) const {
    // A task published to an exchange gets its queue from its first failure.
    const bool unknown = task.queue.empty() && task.by_exchange;
    // Of an attempt before it moved to another queue: redelivered, because we died before the ack.
    const bool before_move = e.attempt > 0 && e.queue == task.moved_from;
    const bool elsewhere = !e.queue.empty() && e.queue != task.queue && !before_move && !unknown;
    // The digest covers the message-id.
    const bool other = e.received == nullptr && !e.message_id.empty() && !task.message_id.empty() &&
                       e.message_id != task.message_id;
    const bool anothers = (elsewhere || other) && !planted(Bug::failure_of_another_counted);
    if (anothers) return refused(task, std::string(kAnothersTask));
    const Likeness likeness = likeness_to_row(e);
    if (likeness == Likeness::other) return refused(task, std::string(kAnotherMessage));
    const bool changed = likeness == Likeness::changed;
    // Nothing proves that a message that differs is in the row already.
    const auto repeat = [&](std::string why) {
      return changed ? refused(task, std::string(kAnotherMessage)) : stale(task, std::move(why));
    };
    if (is_parked_copy(e.publish)) {
      if (e.publish == task.came_back || planted(Bug::moved_copy_is_a_repeat))
        return repeat("this copy's failure has reopened it");
      if (task.state != State::parked) return refused(task, std::string(kGoneOn));
      Task known = task;
      ++known.attempt;  // somebody else delivered it
      known.probe = 0;
      known.came_back = e.publish;
      begin_again(known, rules, at.now);
      return counted(std::move(known), e, changed, 0);
    }
    const int attempt = e.attempt > 0 ? e.attempt : task.attempt;
    if (attempt == 0 || (attempt > task.attempt && !may_be_ahead(attempt, e.proven)))
      return refused(task, "no such attempt: it had " + std::to_string(task.attempt));
    if (e.unseen && e.proven && !changed) {
      if (auto decision = of_refused_publish(attempt, e.publish)) return *std::move(decision);
    }
    if (attempt < task.attempt) return repeat("a later attempt is under way");
    if (attempt > task.attempt && !ended_for_good()) {
      event::Failed late = e;
      late.error = with_remark(e.error, was_behind(attempt));
      return of_later_attempt(std::move(late), attempt, e.level);
    }
    if (!under_way(task) && !presumed()) {
      // Several queues may have had a copy. One has ended the task; the failure in another becomes a separate
      // task.
      if (unknown && !e.queue.empty()) return refused(task, std::string(kAnothersTask));
      return repeat(is_in(task));
    }
    if (!e.by_publisher && copy_may_leave()) return refused(task, std::string(kBeingPublished));
    return counted(task, e, changed, 1);
  }

  // The failure counts for the attempt of `known`.
  Decision counted(Task known, const event::Failed& e, bool changed, int up) const {
    Directives directives = e.directives;
    std::string error = e.error;
    if (known.queue.empty() && known.by_exchange && !e.queue.empty()) {
      if (rules.targets().allows(e.queue)) {
        known.queue = e.queue;
      } else {  // no queue: parked for a person to look at
        directives.never = true;
        error = not_allowed("the failed message", e.queue) + "; last error: " + e.error;
      }
    }
    if (changed) take_over(known, *e.received);
    Decision d = fail(known, Outcome::failed, error, e.error_type, directives, rules, at, e.proven, up);
    d.attempt->executor = clean_name(e.executor);
    if (changed) d.replacement = e.received;
    return d;
  }

  // A result has no message: its token is the proof.
  Likeness likeness_to_row(const event::Failed& e) const {
    if (e.received == nullptr || planted(Bug::failure_of_another_counted)) return Likeness::same;
    const Likeness likeness = likeness_of(task.digest, e.received->digest);
    return likeness == Likeness::same && is_rerouted(*e.received) ? Likeness::changed : likeness;
  }
  // It came to its queue under another routing key than ours: somebody published it.
  bool is_rerouted(const ReceivedMessage& received) const {
    return !received.exchange.empty() && received.routing_key != task.routing_key &&
           received.routing_key != task.queue;
  }
  // The same message with other headers or properties: they are the task's from now on.
  void take_over(Task& next, const ReceivedMessage& received) const {
    next.digest = received.digest;
    next.tag = clean_name(received.message->properties.type.value_or(""));
    next.rule_headers = rule_headers_of(*received.message, rules);
    if (!is_rerouted(received)) return;
    next.exchange = received.exchange;
    next.routing_key = received.routing_key;
  }

  Decision operator()(const event::Succeeded& e) const {
    const int attempt = e.attempt > 0 ? e.attempt : task.attempt;
    if (attempt == 0 || (attempt > task.attempt && !may_be_ahead(attempt, e.proven)))
      return refused(task, "no such attempt: it had " + std::to_string(task.attempt));
    if (attempt > task.attempt && !ended_for_good() && !is_parked_copy(e.publish))
      return of_later_attempt(e, attempt, {});
    if (task.state == State::cancelled || task.state == State::discarded) return stale(task, is_in(task));
    if (task.state == State::succeeded && task.finished_by == FinishedBy::reported)
      return stale(task, is_in(task));
    // One of several queues behind an exchange has failed it, and it climbs for that queue: a result that is
    // not for the current attempt belongs to another queue's copy.
    const bool climbs_for_one = task.by_exchange && !task.queue.empty();
    if (climbs_for_one && (attempt < task.attempt || (!under_way(task) && !presumed())))
      return stale(task, "it failed in queue " + task.queue);
    // Also from scheduled and parked: a success that came later than presumed_after or reported_within is
    // still a success.
    Task next = finished();
    next.attempt = std::max(task.attempt, attempt);  // a parked copy's: somebody else delivered it
    return applied(std::move(next), succeeded(attempt, e.executor));
  }

  Decision operator()(const event::SilenceOver& e) const {
    if (task.state != State::awaiting || !task.next_at || *task.next_at > at.now)
      return stale(task, task.state == State::awaiting ? "it may still be answered" : is_in(task));
    const Silence silence = silence_of(task, rules);
    if (silence.means == Silence::Means::failure) {
      return fail(task, Outcome::timed_out, "no word within " + levels::format_duration(silence.after),
                  "timed_out", {}, rules, at);
    }
    if (e.ends_at || !e.held.empty()) {
      Task next = task;
      next.next_at.reset();
      if (e.ends_at) next.next_at = std::max(*e.ends_at, at.now + Ms{1});
      const std::string why = e.ends_at ? e.why : "silence is held open: " + e.held;
      if (why.empty()) return applied(std::move(next));
      return applied(std::move(next),
                     history(task, task.attempt, Outcome::pending, at, clean_utf8(why, kErrorBytes / 4)));
    }
    Task next = finished();
    next.finished_by = FinishedBy::presumed;
    return applied(std::move(next), history(task, task.attempt, Outcome::succeeded, at));
  }

  Decision operator()(const event::ParkedCopySent& e) const {
    if (task.state != State::parked || !task.next_at) return stale(task, is_in(task));
    Task next = task;
    next.next_at.reset();
    const Ms parked_for = at.now - task.finished_at.value_or(at.now);
    if (e.no_queue)
      next.next_at = at.now + std::clamp<Ms>(parked_for, std::chrono::seconds{1}, std::chrono::minutes{10});
    return applied(std::move(next));
  }

  // By a person, whose reason is in the audit: the last error stays. `which` tasks `may` be ended so.
  Decision ended(State as, bool may, const std::string& which) const {
    const std::string word(to_word(as));
    if (task.state == as) return stale(task, "it is " + word + " already");
    if (!may) return refused(task, "only a " + which + " task can be " + word + ": " + is_in(task));
    Task next = task;
    end_task(next, as, rules, at.now);
    return applied(std::move(next));
  }

  Decision operator()(const event::Cancel&) const {
    const bool claimed = task.state == State::publishing && planted(Bug::cancel_of_claimed_task);
    return ended(State::cancelled, task.state == State::scheduled || claimed, "scheduled");
  }

  Decision operator()(const event::Discard&) const {
    const bool may = task.state == State::parked || task.state == State::scheduled;
    return ended(State::discarded, may, "parked or scheduled");
  }

  Decision operator()(const event::Park&) const {
    return ended(State::parked, task.state == State::scheduled, "scheduled");
  }

  Decision operator()(const event::Redrive& e) const {
    if (!body_stored(task)) return refused(task, not_stored_text(task.last_error));
    if (task.replaced_by.value != 0 && !e.even_replaced) return refused(task, replaced_text(task));
    Task next = task;
    if (e.elsewhere.is_set()) direct(next, e.elsewhere);
    const bool same = target_of(next) == target_of(task);
    const bool held = is_silence_held(task);
    if (same && under_way(task) && !held) return stale(task, "it is under way already");  // a repeat
    if (same && task.state == State::scheduled && task.next_at && *task.next_at <= at.now)
      return stale(task, "it is due already");
    if (e.chosen_at && task.state == State::succeeded && task.finished_at > *e.chosen_at)
      return stale(task, "it has succeeded since the bulk was created");
    if (task.state == State::parked || held || task.replaced_by.value != 0 ||
        may_undo_success(e.even_reported)) {
      // Attempt numbers continue, so that every delivery has its own.
      begin_again(next, rules, at.now);
      next.replaced_by = {};
    } else if (task.state == State::succeeded) {
      return refused(task, std::string(kReported));
    } else if (task.state != State::scheduled) {
      return refused(task,
                     "only a parked or scheduled task or a presumed success can be retried: " + is_in(task));
    }
    const Target target = target_of(next);
    if (!target.is_set()) return refused(task, "nothing says to which queue it belongs");
    std::string why =
        e.elsewhere.is_set() ? refused_target(target, rules.targets()) : own_target(target, rules.targets());
    if (why.empty()) why = error_queue_target(target, rules.targets());
    if (!why.empty()) return refused(task, std::move(why));
    next.next_at = at.now;
    Decision d = rescheduled(std::move(next));
    if (held)
      d.attempt =
          history(task, task.attempt, Outcome::timed_out, at,
                  "how it ended is not known: its silence was held open when it was sent again by hand");
    return d;
  }

  Decision operator()(const event::Reschedule& e) const {
    if (task.state != State::scheduled)
      return refused(task, "only a scheduled task can be rescheduled: " + is_in(task));
    Task next = task;
    next.next_at = std::max(e.at ? *e.at : at.now + e.delay, at.now);
    if (e.at && task.next_at == e.at) return stale(task, "it is due then already");
    return rescheduled(std::move(next));
  }

  Decision operator()(const event::Fire&) const {
    if (under_way(task)) return stale(task, "it is under way already");  // a repeat: the first one did it
    if (task.state != State::scheduled)
      return refused(task, "only a scheduled task can be fired: " + is_in(task));
    if (task.next_at && *task.next_at <= at.now) return stale(task, "it is due already");
    Task next = task;
    next.next_at = at.now;
    return rescheduled(std::move(next));
  }

  // The parked task is replaced by a new one with the edited message, which is sent as a redrive would send
  // it.
  Decision operator()(const event::Edit& e) const {
    if (std::string why = why_not_editable(task); !why.empty()) return refused(task, std::move(why));
    const Target target = target_of(task);
    if (!target.is_set())
      return refused(
          task,
          "nothing says to which queue it belongs: submit the changed message as a new task, or redrive it "
          "unchanged with --to-queue");
    std::string why = own_target(target, rules.targets());
    if (why.empty()) why = error_queue_target(target, rules.targets());
    if (!why.empty()) return refused(task, std::move(why));

    NewTask child;
    child.message = e.edited->message;
    child.origin_json = e.edited->origin_json;
    child.edited = true;
    Task& t = child.task = task;
    t.id = e.edited->id;
    t.parent = task.id;
    t.attempt = 0;
    t.rule.clear();
    begin_again(t, rules, at.now);
    t.created_at = at.now;
    t.version = 1;
    t.copy_number = 0;
    t.came_back = 0;
    t.epoch = 0;
    t.node = at.node;
    t.probe = 0;
    if (at.home_shard >= 0) t.shard = at.home_shard;
    t.body_bytes = static_cast<std::int64_t>(e.edited->message->body.size());
    t.digest = message_digest(*e.edited->message);
    t.rule_headers = rule_headers_of(*e.edited->message, rules);

    Decision d = applied(task);
    if (!planted(Bug::edited_stays_parked)) {
      end_task(d.task, State::discarded, rules, at.now);
      d.task.replaced_by = t.id;
    }
    d.child = std::make_shared<const NewTask>(std::move(child));
    return d;
  }

  Decision operator()(const event::Finish& e) const {
    const bool undoes = !e.succeeded && task.state == State::succeeded;
    if (e.held_only && !is_silence_held(task) && !undoes)
      return stale(task, "its silence is not held open any more");
    if (e.succeeded) {
      if (task.state == State::succeeded && task.finished_by == FinishedBy::reported)
        return stale(task, is_in(task));
      if (task.state == State::cancelled || task.state == State::discarded) return refused(task, is_in(task));
      if (copy_may_leave()) return refused(task, std::string(kBeingPublished));
      // Between attempts, or parked: the last attempt did fail, and its history row stays.
      if (!under_way(task)) return applied(finished());
      return applied(finished(), succeeded(task.attempt, e.executor));
    }
    if (e.attempt > task.attempt)
      return refused(task, "no such attempt: it had " + std::to_string(task.attempt));
    if (e.attempt > 0 && e.attempt < task.attempt) return stale(task, "a later attempt is under way");
    if (!under_way(task) && !(task.attempt > 0 && may_undo_success(e.even_reported))) {
      if (e.attempt > 0) return stale(task, "that attempt is over: " + is_in(task));
      if (task.state == State::succeeded && task.attempt > 0) return refused(task, std::string(kReported));
      return refused(task, "only an attempt under way can be finished as failed: " + is_in(task));
    }
    if (copy_may_leave()) return refused(task, std::string(kBeingPublished));
    Decision d = fail(task, Outcome::failed, e.error.empty() ? "finished as failed by hand" : e.error,
                      "by hand", {}, rules, at);
    d.attempt->executor = clean_name(e.executor);
    return d;
  }

  // A full queue may refuse a publish with a nack and dead-letter the message all the same (RabbitMQ:
  // x-overflow reject-publish-dlx). With the nack the attempt was taken back (Deferred), in either order, and
  // the same attempt is published again: that dead letter is not a failure, even if that later copy is
  // presumed a success by now. A full queue may also evict what it had accepted; then the only copy is at
  // hand, and it is one. The copy's number `publish` tells which of the two it is; 0: it counts as any
  // failure.
  std::optional<Decision> of_refused_publish(int attempt, std::uint32_t publish) const {
    if (attempt == task.attempt + 1 && task.state == State::scheduled)
      return stale(task, std::string(kRefusedPublish));
    if (attempt != task.attempt || publish == 0) return std::nullopt;
    if (task.state == State::publishing) {
      // This copy's own answer, or its next publish, decides.
      return publish < task.copy_number ? stale(task, std::string(kRefusedPublish))
                                        : refused(task, std::string(kBeingPublished));
    }
    if ((task.state == State::awaiting || presumed()) && publish < task.copy_number)
      return stale(task, std::string(kRefusedPublish));
    return std::nullopt;
  }

  // Whether a copy of the current attempt may still be published: then it cannot be ended yet.
  bool copy_may_leave() const { return task.state == State::publishing && at.claim_stands; }

  // Whether a result may be for a delivery that the row has no record of. Its token proves that we made it.
  // One climb of the ladder limits how far ahead the attempt can be; beyond that a person has to look.
  bool may_be_ahead(int attempt, bool proven) const {
    Task copy = task;
    return proven && attempt - task.attempt <= ladder_of(copy, rules).levels() + 1 + task.max_attempts;
  }
  // No attempt followed this state, whatever the row has missed.
  bool ended_for_good() const {
    return task.state == State::cancelled || task.state == State::discarded ||
           (task.state == State::succeeded && !presumed());
  }
  std::string was_behind(int attempt) const {
    return "the row was behind: it had attempt " + std::to_string(task.attempt) + " and said " +
           std::string(to_word(task.state)) + " when attempt " + std::to_string(attempt) + " was answered";
  }

  // A result for an attempt later than the row's: decides on the row as it must have been by then.
  template <typename Word>
  Decision of_later_attempt(Word word, int attempt, std::optional<int> level) const {
    if (copy_may_leave()) return refused(task, std::string(kBeingPublished));
    Task known = task;
    const int levels = ladder_of(known, rules).levels();
    const int climbed = attempt - task.attempt - (task.state == State::scheduled ? 1 : 0);
    known.level = std::clamp(level.value_or(task.level + climbed), 0, levels);
    known.attempt = attempt;
    known.state = State::awaiting;
    known.node = 0;  // the sender is unknown
    Decision d = Machine{known, rules, at}(word);
    if (d.verdict != Verdict::applied) return refused(task, d.reason);
    d.reason = was_behind(attempt);
    if (task.attempt > 0 && (under_way(task) || presumed()))
      d.overtaken = history(task, task.attempt, Outcome::failed, at,
                            "how it ended was lost: attempt " + std::to_string(attempt) + " came after it");
    return d;
  }

  // Whether a person may declare the success wrong.
  bool may_undo_success(bool even_reported) const {
    return presumed() || (even_reported && task.state == State::succeeded);
  }

  bool presumed() const { return task.state == State::succeeded && task.finished_by == FinishedBy::presumed; }

  // The instance that changed it knows of it first, as in fail().
  Decision rescheduled(Task next) const {
    if (at.home_shard >= 0) next.shard = at.home_shard;
    return applied(std::move(next));
  }

  Attempt succeeded(int attempt, const std::string& executor) const {
    Attempt row = history(task, attempt, Outcome::succeeded, at);
    row.executor = clean_name(executor);
    return row;
  }

  // Why a broker's refusal is not for the current attempt; "" if it is. A deposed owner's answer must not
  // undo its successor's publish with the same attempt number.
  std::string not_ours(int attempt) const {
    if (task.state != State::publishing) return is_in(task);
    if (attempt != task.attempt) return "another attempt is under way";
    if (task.node != at.node) return "another instance has claimed it since";
    return {};
  }

  Task finished() const {
    Task next = task;
    end_task(next, State::succeeded, rules, at.now);
    next.finished_by = FinishedBy::reported;
    return next;
  }
};

}  // namespace

std::string_view name_of(const Happening& what) {
  constexpr std::array<std::string_view, 16> kNames{"claim",  "confirmed", "returned",     "deferred",
                                                    "failed", "succeeded", "silence_over", "parked_copy_sent",
                                                    "cancel", "redrive",   "finish",       "reschedule",
                                                    "fire",   "discard",   "park",         "edit"};
  static_assert(kNames.size() == std::variant_size_v<Happening>);
  return kNames[what.index()];
}

Decision decide(const Task& task, const Happening& what, const RuleBook& rules, const Circumstances& at) {
  if (task.state == State::unknown) return refused(task, std::string(kUnknownState));
  Decision d = std::visit(Machine{task, rules, at}, what);
  d.was = task.state;
  const bool awaited = d.verdict == Verdict::applied && task.state == State::awaiting && task.next_at;
  if (awaited) d.awaited_since = *task.next_at - silence_of(task, rules).after;
  // The publish of the copy for <prefix>.parked is not visible: a reader sees the same parked task as before.
  const bool shows = !std::holds_alternative<event::ParkedCopySent>(what);
  if (shows && d.verdict == Verdict::applied && !(d.task == task)) ++d.task.version;
  return d;
}

Task with_short_claim(Task row, std::uint64_t epoch, int node) {
  begin_attempt(row, epoch, node);
  ++row.version;
  return row;
}

std::optional<Decision> refuse_by_hand(const Event& event, const Task& task) {
  if (!event.by_hand) return std::nullopt;
  const ByHand& by = *event.by_hand;
  if (!holds(by.queues, task.queue)) return refused(task, std::string(kNotTheirQueue));
  if (by.if_version && *by.if_version != task.version) return refused(task, std::string(kChangedMeanwhile));
  return std::nullopt;
}

const Silence& silence_of(const Task& task, const RuleBook& rules) {
  if (task.state == State::awaiting && task.said) return *task.said;
  return task.silence ? *task.silence : rules.queue(task.queue).silence;
}

void begin(Task& task, const Directives& directives, const RuleBook& rules, EpochMs now, double random,
           int level) {
  Directives d = directives;
  // It has no queue to return to: a person has to look.
  d.never = d.never || task.queue.empty();
  after_failure(task, level, d, rules, now, random);
}

void begin_delay(Task& task, const Directives& directives, const RuleBook& rules, EpochMs now, EpochMs due,
                 const std::string& park_reason) {
  task.kind = Kind::delay;
  task.level = 0;
  Target target{task.queue, task.exchange, task.routing_key};
  if (const TagRules* tag = task.tag.empty() ? nullptr : rules.tag(task.tag)) {
    if (!target.is_set()) target = tag->target;
    if (!tag->ladder.empty() && directives.ladder.empty()) {
      task.ladder = tag->ladder;
      task.ladder_pinned = true;
    }
    if (!task.silence) task.silence = tag->silence;
  }
  if (target.is_set()) direct(task, target);
  take_directives(task, directives, rules);
  task.levels = ladder_of(task, rules).levels();
  std::string reason = park_reason;
  if (reason.empty() && !target.is_set())
    reason = "nothing says where it goes: no queue, no exchange, no routing key, no tag of the config";
  if (!reason.empty()) {
    if (!task.last_error.empty()) reason += " " + task.last_error;  // the complaint about directives
    return begin_parked(task, reason, rules, now);
  }
  if (directives.never) return end_task(task, State::parked, rules, now);
  task.state = State::scheduled;
  task.next_at = std::max(due, now);
}

void begin_parked(Task& task, const std::string& reason, const RuleBook& rules, EpochMs now) {
  task.last_error = clean_utf8(reason, kErrorBytes);
  task.levels = ladder_of(task, rules).levels();
  end_task(task, State::parked, rules, now);
}

}  // namespace rung
