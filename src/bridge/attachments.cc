#include "src/bridge/attachments.h"

#include <algorithm>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostNamed = 5;  // queues in the problem's detail

}  // namespace

void Attachments::seen(const std::string& queue) {
  if (!queue.empty() && seen_.size() < kMostSeen) seen_.insert(queue);
}

std::vector<std::string> Attachments::to_watch(const std::vector<std::string>& configured) const {
  std::vector<std::string> all = configured;
  for (const std::string& queue : seen_) {
    if (std::ranges::find(configured, queue) == configured.end()) all.push_back(queue);
  }
  return all;
}

void Attachments::found(const AttachmentLook& look, const std::vector<std::string>& configured, BootMs now) {
  compare(look, configured, now);
  told_ = told_ || look.attached.has_value();
  last_look_ = look.asked_at;
}

void Attachments::connected(BootMs now) {
  connected_at_ = now;
  if (ask_) ask_();
}

void Attachments::compare(const AttachmentLook& look, const std::vector<std::string>& configured,
                          BootMs now) {
  configured_.clear();
  std::vector<std::string> detached, commands;
  std::string unknown;
  for (const QueueAttachment& one : look.queues) {
    const bool matched = look.matched.contains(one.queue);
    const bool named = matched || std::ranges::find(configured, one.queue) != configured.end();
    if (one.state == State::unknown) {
      unknown = one.detail;
      continue;
    }
    Known& known = known_[one.queue];
    if (known.state != one.state) {
      changed(one, known, named);
      known.state = one.state;
      known.since = now;
    }
    known.was_attached = known.was_attached || one.state == State::attached;
    if (named) configured_.emplace_back(one.queue, one.state == State::attached);
    const bool ours = matched ? known.was_attached
                      : named ? known.was_attached || !seen_.contains(one.queue)
                              : known.was_attached && now - known.since < kRemember;
    if (one.state == State::detached && ours) {
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
  if (told_unknown_) return;  // keep the problem as last seen

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
  if (now.state == State::attached && !first) record_({0, {}, "", "queue_attached", now.queue, now.detail});
  if (known.was_attached && now.state != State::attached)
    record_({0, {}, "", "queue_detached", now.queue, now.detail});
}

void Attachments::say(const QueueAttachment& now, bool first) const {
  switch (now.state) {
    case State::attached:
      return log::info(first ? "attached" : "queue became attached",
                       {{"queue", now.queue}, {"by", now.detail}});
    case State::detached:
      return log::warn(first ? "not attached: its dead letters do not come here"
                             : "queue became detached: its dead letters do not come here any more",
                       {{"queue", now.queue}, {"now", now.detail}, {"attach", now.policy}});
    case State::no_queue:
      return log::warn(first ? "no such queue yet" : "queue is gone",
                       {{"queue", now.queue}, {"attach", now.policy}});
    case State::unknown:
      return;
  }
}

}  // namespace rung::bridge
