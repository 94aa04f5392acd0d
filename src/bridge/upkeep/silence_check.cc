#include "src/bridge/upkeep/silence_check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr int kSilentPerShard = 1000;
constexpr Ms kLookTakes{30'000};                    // at most; then the queues count as not answered for
constexpr Ms kDoubtPause{1000};                     // one look said detached: a second one decides
constexpr Ms kNoAnswerPause{10'000};                // the broker did not tell
constexpr Ms kAnswersAgain{std::chrono::hours{1}};  // after that nobody expects an answer any more
constexpr std::size_t kMostOwn = 10'000;

}  // namespace

void SilenceCheck::tick() {
  if (waiting_ && deps_.clock.here().boot() - asked_at_ > kLookTakes) look_up();
}

void SilenceCheck::check() {
  if (busy_ || !knows_removed_) return;
  busy_ = true;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::sweeps,
      [shards = deps_.shards.list(), until = deps_.clock.now(), without = postponed()](TaskStore& store) {
        return store.due(State::awaiting, shards, std::nullopt, until, kSilentPerShard, without);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        if (!rows) {
          busy_ = false;
          return log::error("querying for unanswered deliveries failed", {{"reason", rows.error().message}});
        }
        found(*rows);
      });
}

std::vector<std::string> SilenceCheck::postponed() {
  const BootMs now = deps_.clock.here().boot();
  std::erase_if(postponed_, [&](const auto& entry) { return entry.second <= now; });
  std::vector<std::string> queues;
  for (const auto& [queue, until] : postponed_) queues.push_back(queue);
  return queues;
}

// The queue is not known yet if the task was published to an exchange. A queue of another group is attached
// there.
bool SilenceCheck::needs_look(const DueEntry& row) const {
  if (row.queue.empty() || deps_.rules->targets().groups.elsewhere(row.queue) != nullptr) return false;
  if (!deps_.rules->queue(row.queue).needs_attachment) return false;
  return queue_means(row) == Silence::Means::success || own_silence_.contains(row.id);
}

void SilenceCheck::remove(std::vector<RemovedQueue> queues) {
  removed_ = std::move(queues);
  knows_removed_ = true;
}

std::optional<Silence> SilenceCheck::said_then(const DueEntry& row) const {
  for (const RemovedQueue& removed : removed_) {
    if (removed.queue != row.queue && !matches_pattern(removed.queue, row.queue)) continue;
    if (deps_.rules->queues().contains(row.queue)) continue;  // named otherwise
    if (row.at - removed.silence.after < removed.removed_at) return removed.silence;
  }
  return std::nullopt;
}

Silence::Means SilenceCheck::queue_means(const DueEntry& row) const {
  const auto then = said_then(row);
  return then ? then->means : deps_.rules->queue(row.queue).silence.means;
}

void SilenceCheck::found(const std::vector<DueEntry>& rows) {
  batch_.clear();
  for (const DueEntry& row : rows) {
    if (ending_.contains(row.id)) continue;
    if (needs_look(row)) {
      batch_[row.queue].push_back(row);
    } else {
      const bool means_failure = queue_means(row) == Silence::Means::failure;
      const bool ignored = row.queue.empty() || !deps_.rules->queue(row.queue).needs_attachment ||
                           deps_.rules->targets().groups.elsewhere(row.queue) != nullptr;
      end(row, {.held = {}, .unchecked = means_failure && !ignored}, false);
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
  if (!deps_.attachments.look_at(queues)) look_up();  // nobody can look
}

void SilenceCheck::find_queues() {
  if (std::exchange(finding_, true)) return;
  deps_.jobs.submit<std::vector<std::string>>(
      Lane::sweeps, [](AttachmentStore& store) { return store.awaiting_queues(Attachments::kMostSeen); },
      [this](const Result<std::vector<std::string>>& queues) {
        finding_ = false;
        if (queues) return deps_.attachments.awaiting(*queues);
        log::error("querying for unanswered deliveries failed", {{"reason", queues.error().message}});
      });
}

void SilenceCheck::looked() {
  if (waiting_ && deps_.attachments.last_look() >= asked_at_) look_up();
}

// Reads what all instances know, after this instance's own look.
void SilenceCheck::look_up() {
  waiting_ = false;
  std::vector<std::string> queues;
  std::vector<TaskId> ids;
  for (const auto& [queue, rows] : batch_) {
    queues.push_back(queue);
    for (const DueEntry& row : rows) ids.push_back(row.id);
  }
  auto seen = deps_.attachments.sightings(queues, asked_at_, deps_.clock);
  deps_.jobs.submit<Known>(
      Lane::sweeps,
      [queues, seen = std::move(seen), ids = std::move(ids)](Store& store) -> Result<Known> {
        Known known;
        if (auto written = store.see_attachments(seen); !written) return tl::unexpected(written.error());
        auto records = store.attachments(queues);
        if (!records) return tl::unexpected(records.error());
        known.records = *std::move(records);
        const auto again = [](const AttachmentRecord& r) {
          return r.state == AttachmentState::attached && r.attached_at;
        };
        if (std::ranges::none_of(known.records, again)) return known;
        auto published = store.published_at(ids);
        if (!published) return tl::unexpected(published.error());
        known.published = *std::move(published);
        return known;
      },
      [this, batch = std::exchange(batch_, {})](const Result<Known>& known) {
        busy_ = false;
        if (!known)
          return log::error("looking up whether queues are attached failed",
                            {{"reason", known.error().message}});
        decide(batch, *known);
      });
}

SilenceCheck::Verdict SilenceCheck::verdict(const std::string& queue, const std::vector<DueEntry>& rows,
                                            const Known& known) const {
  Verdict out;
  const auto it = std::ranges::find(known.records, queue, &AttachmentRecord::queue);
  if (it != known.records.end()) out.known = &*it;
  out.verified = deps_.attachments.answered_for(queue, asked_at_);
  if (out.verified || out.known == nullptr) return out;
  if (deps_.attachments.is_doubtful(queue)) {
    out.wait = true;
  } else if (out.known->state == AttachmentState::attached && out.known->detail != kDeadLetterArrived) {
    const EpochMs now = deps_.clock.now();
    const EpochMs earliest = std::ranges::min_element(rows, {}, &DueEntry::at)->at;
    out.wait = now - out.known->checked_at < kAnswersAgain && now - earliest < kUnverified;
  }
  return out;
}

void SilenceCheck::decide(const Batch& batch, const Known& known) {
  const BootMs now = deps_.clock.here().boot();
  for (const auto& [queue, rows] : batch) {
    const Verdict verdict = this->verdict(queue, rows, known);
    if (verdict.wait) {
      postponed_[queue] = now + (deps_.attachments.is_doubtful(queue) ? kDoubtPause : kNoAnswerPause);
      continue;
    }
    std::size_t held = 0;
    std::string why;
    for (const DueEntry& row : rows) {
      const auto published = known.published.find(row.id);
      // Without the time of its confirm: as early as it can have been.
      const EpochMs delivered = published != known.published.end()
                                    ? published->second
                                    : row.at - deps_.rules->queue(queue).silence.after;
      std::string because = held_because(verdict.known, delivered);
      if (planted(Bug::silence_of_the_detached)) because.clear();
      if (!because.empty()) {
        ++held;
        why = because;
      }
      end(row, {.held = std::move(because), .unchecked = false},
          !verdict.verified && verdict.known != nullptr);
    }
    if (held > 0)
      log::warn("silence is held open: no success is presumed",
                {{"queue", queue}, {"tasks", held}, {"reason", why}});
  }
  deps_.transitions.flush();
}

void SilenceCheck::end(const DueEntry& row, event::SilenceOver how, bool unverified) {
  if (!ending_.insert(row.id).second) return;
  how.queue_said = said_then(row);
  const bool unchecked = how.unchecked;
  deps_.transitions.add(
      {row.id, std::move(how)}, [this, id = row.id, unverified, unchecked](const Result<Decision>& decision) {
        ending_.erase(id);
        own_silence_.erase(id);
        if (!decision) return;
        if (unchecked && decision->reason == kAttachmentUnchecked && own_silence_.size() < kMostOwn)
          own_silence_.insert(id);
        if (decision->verdict == Decision::Verdict::applied) {
          const bool held = is_silence_held(decision->task);
          counts_.held += held ? 1 : 0;
          counts_.unverified += unverified && decision->task.state == State::succeeded ? 1 : 0;
        }
        deps_.observer.decided(*decision);
      });
}

}  // namespace rung::bridge
