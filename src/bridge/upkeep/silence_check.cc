// Ends the silence of deliveries.
#include <algorithm>
#include <set>
#include <utility>

#include "src/bridge/upkeep/janitor.h"
#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kReadingBehind{5000};  // an instance's reading of the database's clock, at most
constexpr int kSilentPerShard = 300;
constexpr Ms kLookTakes{30'000};                    // at most; then it is not awaited any more
constexpr Ms kNoAnswerPause{30'000};                // the broker did not tell
constexpr Ms kAnswersAgain{std::chrono::hours{1}};  // after that nobody expects an answer any more
// Until the next look at a message that nobody has read: an eighth of the time since its delivery, but not
// less than its silence. Each look writes its row.
constexpr Ms kReadPause{2000}, kLongestReadPause{std::chrono::minutes{10}};
constexpr int kReadShare = 8;

}  // namespace

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

// The queue is not known yet if the task was published to an exchange. A queue of another group is attached
// there.
bool SilenceCheck::needs_attachment(std::string_view queue) const {
  return sidecar_.rules->queue(queue).needs_attachment &&
         sidecar_.rules->targets().groups.elsewhere(queue) == nullptr;
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
  const bool needed = needs_attachment(queue);
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
  if (known == nullptr || !known->reading) {  // nobody has ever counted what is in it
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

}  // namespace rung::bridge
