#include "src/bridge/upkeep/silence_check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kReadingBehind{5000};  // an instance's reading of the database's clock, at most
constexpr int kSilentPerShard = 300;
constexpr Ms kLookTakes{30'000};                    // at most; then the queues count as not answered for
constexpr Ms kDoubtPause{1000};                     // one look said detached: a second one decides
constexpr Ms kNoAnswerPause{30'000};                // the broker did not tell
constexpr Ms kAnswersAgain{std::chrono::hours{1}};  // after that nobody expects an answer any more
// Until the next look at a message that nobody has read: an eighth of the time since its delivery, but not
// less than its silence. Each look writes its row.
constexpr Ms kReadPause{2000}, kLongestReadPause{std::chrono::minutes{10}};
constexpr int kReadShare = 8;

}  // namespace

void SilenceCheck::tick() {
  if (waiting_ && deps_.clock.here().boot() - asked_at_ > kLookTakes) look_up();
}

void SilenceCheck::check() {
  if (busy_) return;
  busy_ = true;
  deps_.jobs.submit<Found>(
      Lane::sweeps,
      [shards = deps_.shards.list(), until = deps_.clock.now()](Store& store) -> Result<Found> {
        auto rows = store.due(State::awaiting, shards, std::nullopt, until, kSilentPerShard, {});
        if (!rows) return tl::unexpected(rows.error());
        std::vector<TaskId> ids;
        for (const DueEntry& row : *rows) ids.push_back(row.id);
        auto awaiting = store.awaiting(ids);
        if (!awaiting) return tl::unexpected(awaiting.error());
        return Found{*std::move(rows), *std::move(awaiting)};
      },
      [this](const Result<Found>& due) {
        if (!due) {
          busy_ = false;
          return log::error("querying for unanswered deliveries failed", {{"reason", due.error().message}});
        }
        found(*due);
      });
}

// The queue is not known yet if the task was published to an exchange. A queue of another group is attached
// there.
bool SilenceCheck::needs_attachment(std::string_view queue) const {
  return deps_.rules->queue(queue).needs_attachment &&
         deps_.rules->targets().groups.elsewhere(queue) == nullptr;
}

void SilenceCheck::found(const Found& due) {
  batch_.clear();
  for (const DueEntry& row : due.rows) {
    const auto it = due.awaiting.find(row.id);
    if (ending_.contains(row.id) || it == due.awaiting.end()) continue;
    const Awaiting& its = it->second;
    const Silence silence = its.said.value_or(deps_.rules->queue(row.queue).silence);
    Silent task{row.id, its.published_at.value_or(row.at - silence.after), {}, silence};
    // An instance's reading of that clock may be a little behind: published_at is by it, row.at by the clock
    // itself. But row.at is later than the end of the first silence if that was put off.
    task.queued =
        std::max(task.published, std::min(row.at - task.silence.after, task.published + kReadingBehind));
    if (row.queue.empty() || task.silence.means == Silence::Means::failure) {
      end(task, {}, false);
    } else {
      batch_[row.queue].push_back(task);
    }
  }
  deps_.transitions.flush();
  if (batch_.empty()) {
    busy_ = false;
    return;
  }
  asked_at_ = deps_.clock.here().boot();
  waiting_ = true;
  std::vector<std::string> queues;
  for (const auto& [queue, some] : batch_) queues.push_back(queue);
  can_look_ = deps_.attachments.look_at(queues);
  if (!can_look_) look_up();
}

Jobs::Work SilenceCheck::find_queues() {
  return [this](Store& store) {
    return store.awaiting_queues(Attachments::kMostSeen).map([this](std::vector<std::string> queues) {
      return Jobs::Then([this, queues = std::move(queues)] { deps_.attachments.awaiting(queues); });
    });
  };
}

void SilenceCheck::looked() {
  if (waiting_ && deps_.attachments.last_look() >= asked_at_) look_up();
}

// Reads what all instances know, after this instance's own look.
void SilenceCheck::look_up() {
  waiting_ = false;
  std::vector<std::string> queues;
  for (const auto& [queue, tasks] : batch_) queues.push_back(queue);
  auto seen = deps_.attachments.sightings(asked_at_, deps_.clock);
  using Records = std::vector<AttachmentRecord>;
  deps_.jobs.submit<Records>(
      Lane::sweeps,
      [queues, seen = std::move(seen)](Store& store) -> Result<Records> {
        if (auto written = store.see_attachments(seen); !written) return tl::unexpected(written.error());
        return store.attachments(queues);
      },
      [this, batch = std::exchange(batch_, {})](const Result<Records>& records) {
        busy_ = false;
        if (!records)
          return log::error("looking up whether queues are attached failed",
                            {{"reason", records.error().message}});
        decide(batch, *records);
      });
}

void SilenceCheck::decide(const Batch& batch, const std::vector<AttachmentRecord>& records) {
  for (const auto& [queue, tasks] : batch) {
    const auto known = std::ranges::find(records, queue, &AttachmentRecord::queue);
    decide(queue, tasks, known == records.end() ? nullptr : &*known);
  }
  deps_.transitions.flush();
}

std::optional<EpochMs> SilenceCheck::ends_later(const std::string& queue, const Silent& task,
                                                const AttachmentRecord* known, bool& unverified,
                                                std::string& why) const {
  const EpochMs now = deps_.clock.now(), last = task.published + task.silence.after + kUnverified;
  const EpochMs soon = std::min(now + kNoAnswerPause, last);  // until then an answer is awaited
  const bool counts = known != nullptr && known->state != AttachmentState::unattached;
  if (counts && needs_attachment(queue)) {
    const bool attached = known->state == AttachmentState::attached;
    if (!deps_.attachments.answered_for(queue, asked_at_)) {
      if (deps_.attachments.is_doubtful(queue)) return now + kDoubtPause;
      const bool may_answer =
          attached && known->detail != kDeadLetterArrived && now - known->checked_at < kAnswersAgain;
      if (may_answer && now < last) return soon;
      unverified = true;
    }
    if (!attached) return std::nullopt;  // held open
  }
  if (planted(Bug::silence_of_the_unread)) return std::nullopt;
  if (known == nullptr || !known->reading) {  // nobody has ever counted what is in it
    if (can_look_ && now < last) return soon;
    unverified = unverified || can_look_;
    return std::nullopt;
  }
  if (const auto read = read_at(*known->reading, task.queued)) {
    const EpochMs end = *read + task.silence.after;
    if (end <= now) return std::nullopt;
    why = "its silence began when it was read, at " + format_utc(*read) + " UTC";
    return end;
  }
  if (now >= last && known->reading->consumers > 0 && deps_.attachments.is_uncounted(queue)) {
    unverified = true;
    return std::nullopt;
  }
  why = "unread so far: " + unread_because(queue, *known->reading);
  return now + std::clamp(std::max(task.silence.after, (now - task.published) / kReadShare), kReadPause,
                          kLongestReadPause);
}

void SilenceCheck::decide(const std::string& queue, const std::vector<Silent>& tasks,
                          const AttachmentRecord* known) {
  std::size_t held = 0;
  std::string why;
  for (const Silent& task : tasks) {
    bool unverified = false;
    event::SilenceOver how;
    how.ends_at = ends_later(queue, task, known, unverified, how.why);
    if (!how.ends_at && needs_attachment(queue)) how.held = held_because(known, task.published);
    if (planted(Bug::silence_of_the_detached)) how.held.clear();
    if (!how.held.empty()) {
      ++held;
      why = how.held;
    }
    end(task, std::move(how), unverified);
  }
  if (held > 0)
    log::warn("silence is held open: no success is presumed",
              {{"queue", queue}, {"tasks", held}, {"reason", why}});
}

void SilenceCheck::end(const Silent& task, event::SilenceOver how, bool unverified) {
  if (!ending_.insert(task.id).second) return;
  deps_.transitions.add(
      {task.id, std::move(how)}, [this, id = task.id, unverified](const Result<Decision>& decision) {
        ending_.erase(id);
        if (!decision) return;
        if (decision->verdict == Decision::Verdict::applied) {
          const bool held = is_silence_held(decision->task);
          counts_.held += held ? 1 : 0;
          counts_.unverified += unverified && decision->task.state == State::succeeded ? 1 : 0;
        }
        deps_.observer.decided(*decision);
      });
}

}  // namespace rung::bridge
