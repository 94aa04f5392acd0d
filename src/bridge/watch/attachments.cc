#include "src/bridge/watch/attachments.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostNamed = 5;  // queues in the problem's detail

std::optional<AttachmentState> state_of(QueueAttachment::State state) {
  switch (state) {
    case QueueAttachment::State::attached:
      return AttachmentState::attached;
    case QueueAttachment::State::detached:
      return AttachmentState::detached;
    case QueueAttachment::State::no_queue:
      return AttachmentState::gone;
    case QueueAttachment::State::unknown:
      break;
  }
  return std::nullopt;
}

}  // namespace

void Attachments::seen(const std::string& queue) {
  if (!queue.empty() && seen_.size() < kMostSeen && seen_.insert(queue).second) ask();
}

void Attachments::failed(const Task& task, const DbClock& clock) {
  seen(task.queue);
  // As read_failure() writes it. A failure that its consumer published, or that came through an error queue,
  // does not tell that the queue is attached.
  const bool dead_letter = task.error_queue.empty() && task.last_error.starts_with("dead-lettered: ");
  if (!dead_letter || task.queue.empty() || !note_ || by_failure_.size() >= kMostSeen) return;
  if (!by_failure_.insert(task.queue).second) return;
  note_({{task.queue, AttachmentState::attached, std::string(kDeadLetterArrived), clock.now(), true}});
}

void Attachments::awaiting(const std::vector<std::string>& queues) {
  const auto before = std::exchange(awaiting_, {queues.begin(), queues.end()});
  if (!std::ranges::includes(before, awaiting_)) ask();
}

bool Attachments::look_at(const std::vector<std::string>& queues) {
  if (!ask_) return false;
  awaiting_.insert(queues.begin(), queues.end());
  ask();
  return true;
}

bool Attachments::answered_for(std::string_view queue, BootMs since) const {
  const auto it = known_.find(queue);
  return it != known_.end() && it->second.sighted.asked_at >= since;
}

std::vector<AttachmentSighting> Attachments::sightings(BootMs since, const DbClock& clock) const {
  std::vector<AttachmentSighting> out;
  for (const auto& [queue, known] : known_) {
    const BootMs latest = std::max(known.sighted.asked_at, known.sighted.counted_at);
    if (latest != BootMs{0} && latest >= since) out.push_back(sighting(queue, known, clock));
  }
  return out;
}

bool Attachments::is_uncounted(std::string_view queue) const {
  const auto it = known_.find(queue);
  return it != known_.end() && it->second.sighted.count && !it->second.sighted.mark;
}

void Attachments::count(const QueueCount& count, BootMs at, Sighted& sighted) {
  const bool comparable = sighted.mark && count.published && *count.published >= *sighted.mark;
  const bool read = count.ready == 0 || (comparable && count.ready <= *count.published - *sighted.mark);
  if (count.ready == 0) {
    sighted.read_until = at;
  } else if (read) {
    sighted.read_until = std::max(sighted.read_until, sighted.marked_at - kCounterAge);
  }
  if (read || !comparable) {
    sighted.mark = count.published;
    sighted.marked_at = at;
  }
  sighted.count = count;
  sighted.counted_at = at;
}

std::vector<std::string> Attachments::to_watch(const std::vector<std::string>& configured) const {
  std::set<std::string, std::less<>> others = seen_;
  others.insert(awaiting_.begin(), awaiting_.end());
  for (const std::string& queue : configured) others.erase(queue);
  std::vector<std::string> all = configured;
  std::ranges::copy(others, std::back_inserter(all));
  return all;
}

void Attachments::found(const AttachmentLook& look, const std::vector<std::string>& configured, BootMs now) {
  compare(look, configured, now);
  told_ = told_ || look.attached.has_value();
  last_look_ = look.asked_at;
  decide(look, now);
}

void Attachments::decide(const AttachmentLook& look, BootMs now) {
  bool doubts = false;
  for (const QueueAttachment& one : look.queues) {
    Known& known = known_[one.queue];
    Sighted& sighted = known.sighted;
    if (one.count) count(*one.count, look.asked_at, sighted);
    const bool was_doubtful = std::exchange(known.doubtful, false);
    const auto state = state_of(one.state);
    if (!state) continue;
    const bool detached = *state != AttachmentState::attached;
    const bool differs = sighted.asked_at == BootMs{0} || sighted.state != *state;
    if (detached && differs && !was_doubtful) {
      known.doubtful = doubts = true;  // a second look decides
      continue;
    }
    if (detached && differs) eager_until_ = now + kEager;
    sighted.state = *state;
    sighted.detail = one.detail;
    sighted.asked_at = look.asked_at;
  }
  if (doubts) ask();
}

void Attachments::not_recorded(const std::vector<AttachmentSighting>& seen) {
  for (const AttachmentSighting& one : seen) by_failure_.erase(one.queue);
}

AttachmentSighting Attachments::sighting(const std::string& queue, const Known& known, const DbClock& clock) {
  const Sighted& sighted = known.sighted;
  AttachmentSighting out{.queue = queue,
                         .state = sighted.state,
                         .detail = sighted.detail,
                         .seen_at = clock.at(sighted.asked_at),
                         .was_attached = known.was_attached};
  if (sighted.asked_at == BootMs{0}) out.state.reset();
  if (!sighted.count) return out;
  out.depth = {sighted.count->ready, sighted.count->consumers, clock.at(sighted.counted_at), {}};
  if (sighted.read_until != BootMs{0}) out.depth->read_until = clock.at(sighted.read_until);
  return out;
}

void Attachments::connected(BootMs now) {
  connected_at_ = now;
  ask();
}

void Attachments::compare(const AttachmentLook& look, const std::vector<std::string>& configured,
                          BootMs now) {
  configured_.clear();
  std::vector<std::string> detached, commands;
  std::string unknown;
  for (const QueueAttachment& one : look.queues) {
    const bool matched = look.matched.contains(one.queue);
    const bool named = matched || std::ranges::find(configured, one.queue) != configured.end();
    Known& known = known_[one.queue];
    if (one.state == State::unknown) {
      unknown = one.detail;
      if (known.state == State::unknown) continue;  // else it is as it was
    } else if (known.state != one.state) {
      changed(one, known, named);
      known.state = one.state;
      known.since = now;
    }
    known.was_attached = known.was_attached || known.state == State::attached;
    if (named && one.state != State::unknown)
      configured_.emplace_back(one.queue, one.state == State::attached);
    const bool ours = matched ? known.was_attached
                      : named ? known.was_attached || !seen_.contains(one.queue)
                              : known.was_attached && now - known.since < kRemember;
    if (known.state == State::detached && ours) {
      detached.push_back(one.queue);
      commands.push_back(one.command);
    }
  }
  std::erase_if(known_, [&](const auto& entry) {
    return std::ranges::find(look.queues, entry.first, &QueueAttachment::queue) == look.queues.end();
  });
  // Logged once: without the management API every check would log it.
  if (!unknown.empty() && !told_unknown_) {
    log::info("cannot check whether queues are attached: no answer from the management API",
              {{"reason", unknown}});
    for (const QueueAttachment& one : look.queues) {
      if (std::ranges::find(configured, one.queue) != configured.end())
        log::info("if the queue is not attached, run", {{"queue", one.queue}, {"attach", one.policy}});
    }
  }
  told_unknown_ = !unknown.empty();
  if (detached.empty()) return health_.clear("detached");
  std::string text = detached.size() == 1 ? "queue" : "queues";
  for (std::size_t i = 0; i < std::min(detached.size(), kMostNamed); ++i)
    text += (i == 0 ? " " : ", ") + detached[i];
  if (detached.size() > kMostNamed) text += " and " + std::to_string(detached.size() - kMostNamed) + " more";
  text += detached.size() == 1 ? " is" : " are";
  text += " not attached: failed messages do not come here. Run: " + commands.front() +
          (detached.size() > 1 ? " (and so on), see rung attached" : "");
  health_.set("detached", text);
}

void Attachments::changed(const QueueAttachment& now, Known& known, bool named) {
  const bool first = known.state == State::unknown;
  if (!first || named) say(now, first);
  if (now.state == State::attached && !first) record_("queue_attached", now.queue, now.detail);
  if (known.was_attached && now.state != State::attached) record_("queue_detached", now.queue, now.detail);
}

void Attachments::say(const QueueAttachment& now, bool first) const {
  switch (now.state) {
    case State::attached:
      return log::info(first ? "attached" : "queue became attached",
                       {{"queue", now.queue}, {"by", now.detail}});
    case State::detached:
      return log::warn(first ? "not attached: its dead letters do not come here"
                             : "queue became detached: its dead letters no longer reach Rung",
                       {{"queue", now.queue}, {"now", now.detail}, {"attach", now.policy}});
    case State::no_queue:
      return log::warn(first ? "no such queue yet" : "queue is gone",
                       {{"queue", now.queue}, {"attach", now.policy}});
    case State::unknown:
      return;
  }
}

}  // namespace rung::bridge
