#include "src/bridge/watch/attachments.h"

#include <algorithm>
#include <iterator>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostNamed = 5;  // queues in the problem's detail

}  // namespace

void Attachments::seen(const std::string& queue) {
  if (!queue.empty() && seen_.size() < kMostSeen && seen_.insert(queue).second) ask();
}

void Attachments::failed(const Task& task) {
  seen(task.queue);
  // As read_failure() writes it. A failure that its consumer published, or that came through an error queue,
  // does not tell that the queue is attached.
  const bool dead_letter = task.error_queue.empty() && task.last_error.starts_with("dead-lettered: ");
  if (!dead_letter || task.queue.empty() || by_failure_.size() >= kMostSeen) return;
  if (!by_failure_.insert(task.queue).second) return;
  note(
      {{task.queue, AttachmentState::attached, std::string(kDeadLetterArrived), sidecar_.clock.now(), true}});
}

void Attachments::awaiting(const std::vector<std::string>& queues) {
  const auto before = std::exchange(awaiting_, {queues.begin(), queues.end()});
  if (!std::ranges::includes(before, awaiting_)) ask();
}

Attachments::Missed Attachments::missed(std::string_view queue, EpochMs since) const {
  const DbClock& clock = sidecar_.clock;
  const auto it = known_.find(queue);
  if (it == known_.end() || clock.at(last_look_) < since) return {};
  const Known& known = it->second;
  return {clock.at(known.asked_at) < since && !known.doubtful, clock.at(known.counted_at) < since};
}

std::vector<std::string> Attachments::to_watch(const std::vector<std::string>& configured) const {
  std::set<std::string, std::less<>> others = seen_;
  others.insert(awaiting_.begin(), awaiting_.end());
  for (const std::string& queue : configured) others.erase(queue);
  std::vector<std::string> all = configured;
  std::ranges::copy(others, std::back_inserter(all));
  return all;
}

void Attachments::found(const AttachmentLook& look, const std::vector<std::string>& configured) {
  configured_.clear();
  bool doubts = false;
  std::vector<const QueueAttachment*> detached;
  std::vector<AttachmentSighting> seen;
  for (const QueueAttachment& one : look.queues) {
    const bool matched = look.matched.contains(one.queue);
    const bool named = matched || std::ranges::find(configured, one.queue) != configured.end();
    const bool taken = take(one, look.asked_at, named);
    doubts = doubts || !taken;
    const Known& known = known_[one.queue];
    seen.push_back({.queue = one.queue,
                    .state = taken ? one.state : std::nullopt,
                    .detail = one.detail,
                    .seen_at = sidecar_.clock.at(look.asked_at),
                    .was_attached = known.was_attached,
                    .count = one.count});
    if (named && one.state && known.state)
      configured_.emplace_back(one.queue, known.state == AttachmentState::attached);
    const bool ours = matched ? known.was_attached
                      : named ? known.was_attached || !seen_.contains(one.queue)
                              : known.was_attached && now() - known.since < kRemember;
    if (known.state == AttachmentState::detached && ours) detached.push_back(&one);
  }
  std::erase_if(known_, [&](const auto& entry) {
    return std::ranges::find(look.queues, entry.first, &QueueAttachment::queue) == look.queues.end();
  });
  tell_unknown(look, configured);
  show_problem(detached);
  told_ = told_ || look.attached.has_value();
  looked_at_ = last_look_ = look.asked_at;
  if (doubts) ask();
  std::erase_if(seen, [](const AttachmentSighting& one) { return !one.state && !one.count; });
  if (sidecar_.clock.known()) note(seen);
}

// If it fails, a failure is noted again; of looks the next one is.
void Attachments::note(const std::vector<AttachmentSighting>& seen) {
  if (seen.empty()) return;
  sidecar_.jobs.submit<void>(
      Lane::upkeep, [seen](Store& store) { store.see_attachments(seen); },
      [this, seen](const Result<void>& done) {
        if (done) return;
        log::warn("attachments not recorded", {{"reason", done.error().message}});
        for (const AttachmentSighting& one : seen) by_failure_.erase(one.queue);
      });
}

bool Attachments::take(const QueueAttachment& seen, BootMs asked_at, bool named) {
  Known& known = known_[seen.queue];
  if (seen.count) known.counted_at = asked_at;
  const bool was_doubtful = std::exchange(known.doubtful, false);
  if (!seen.state) return true;  // it is as it was
  const bool attached = seen.state == AttachmentState::attached;
  const bool differs = known.state != seen.state;
  if (differs && !attached && !was_doubtful) {
    known.doubtful = true;
    return false;
  }
  if (differs) {
    changed(seen, known, named);
    known.state = seen.state;
    known.since = now();
    if (!attached) eager_until_ = now() + kEager;
  }
  known.asked_at = asked_at;
  known.was_attached = known.was_attached || attached;
  return true;
}

void Attachments::connected() {
  connected_at_ = now();
  ask();
}

// Logged once: without the management API every check would log it.
void Attachments::tell_unknown(const AttachmentLook& look, const std::vector<std::string>& configured) {
  const auto unknown =
      std::ranges::find_if(look.queues, [](const QueueAttachment& one) { return !one.state; });
  const bool news = !std::exchange(told_unknown_, unknown != look.queues.end());
  if (unknown == look.queues.end() || !news) return;
  log::info("cannot check whether queues are attached: no answer from the management API",
            {{"reason", unknown->detail}});
  for (const QueueAttachment& one : look.queues) {
    if (std::ranges::find(configured, one.queue) != configured.end())
      log::info("if the queue is not attached, run", {{"queue", one.queue}, {"attach", one.policy}});
  }
}

void Attachments::show_problem(const std::vector<const QueueAttachment*>& detached) {
  if (detached.empty()) return sidecar_.health.clear("detached");
  std::string text = detached.size() == 1 ? "queue" : "queues";
  for (std::size_t i = 0; i < std::min(detached.size(), kMostNamed); ++i)
    text += (i == 0 ? " " : ", ") + detached[i]->queue;
  if (detached.size() > kMostNamed) text += " and " + std::to_string(detached.size() - kMostNamed) + " more";
  text += detached.size() == 1 ? " is" : " are";
  text += " not attached: failed messages do not come here. Run: " + detached.front()->command +
          (detached.size() > 1 ? " (and so on), see rung attached" : "");
  sidecar_.health.set("detached", text);
}

void Attachments::changed(const QueueAttachment& seen, const Known& known, bool named) {
  const bool first = !known.state;
  const bool attached = seen.state == AttachmentState::attached;
  if (attached && !first) sidecar_.record("queue_attached", seen.queue, seen.detail);
  if (known.was_attached && !attached) sidecar_.record("queue_detached", seen.queue, seen.detail);
  if (first && !named) return;
  if (attached)
    return log::info(first ? "attached" : "queue became attached",
                     {{"queue", seen.queue}, {"by", seen.detail}});
  if (seen.state == AttachmentState::detached)
    return log::warn(first ? "not attached: its dead letters do not come here"
                           : "queue became detached: its dead letters no longer reach Rung",
                     {{"queue", seen.queue}, {"now", seen.detail}, {"attach", seen.policy}});
  log::warn(first ? "no such queue yet" : "queue is gone", {{"queue", seen.queue}, {"attach", seen.policy}});
}

}  // namespace rung::bridge
