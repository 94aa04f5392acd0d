#include "src/bridge/dispatch.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "src/core/headers.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostInClaim = 500;
constexpr std::size_t kMostClaims = 2;
constexpr double kBytesInClaim = 16.0 * 1024 * 1024;  // bodies held by one claim, about
constexpr Ms kRefusedPause{5000};                     // a queue that is full is asked again after this

using How = PublishResult::How;

}  // namespace

Dispatch::Dispatch(Parts parts, int most_under_way)
    : parts_(std::move(parts)), most_under_way_(static_cast<std::size_t>(most_under_way)) {}

void Dispatch::due(const std::vector<io::DueItem>& items) {
  for (const io::DueItem& item : items) {
    if (in_hand_.insert(item.id).second) ready_.push(item);
  }
  // Not at once: after a pause many slots fire in one turn, the oldest not always first, and all of them
  // belong into one claim.
  if (std::exchange(pump_posted_, true)) return;
  parts_.loop.post([this] {
    pump_posted_ = false;
    pump();
  });
}

void Dispatch::open(bool publishing) {
  open_ = publishing;
  pump();
}

void Dispatch::drain() {
  draining_ = true;
  while (!ready_.empty()) {
    put_down(ready_.top().id);
    ready_.pop();
  }
}

std::size_t Dispatch::room() const {
  const std::size_t used = under_way_ + claiming_rows_;
  return used >= most_under_way_ ? 0 : most_under_way_ - used;
}

void Dispatch::pump() {
  while (open_ && !draining_ && !ready_.empty() && claiming_ < kMostClaims && parts_.shards.any()) {
    const auto by_bytes = static_cast<std::size_t>(std::clamp(kBytesInClaim / mean_body_, 1.0, 500.0));
    const std::size_t most = std::min({room(), kMostInClaim, by_bytes});
    // A claim for a handful while most of the window is taken would make many small transactions.
    if (most == 0 || (most < kMostInClaim / 4 && most < ready_.size() && most < by_bytes)) return;
    const std::vector<io::DueItem> batch = take_batch(most);
    if (!batch.empty()) claim(batch);
  }
}

std::vector<io::DueItem> Dispatch::take_batch(std::size_t most) {
  std::vector<io::DueItem> batch;
  while (!ready_.empty() && batch.size() < most) {
    if (parts_.shards.held(ready_.top().shard)) {
      batch.push_back(ready_.top());
    } else {
      put_down(ready_.top().id);  // another instance's by now: its heap or its sweep has it
    }
    ready_.pop();
  }
  return batch;
}

void Dispatch::claim(const std::vector<io::DueItem>& batch) {
  ++claiming_;
  claiming_rows_ += batch.size();
  for (const io::DueItem& item : batch) ++under_way_in_[static_cast<std::size_t>(item.shard)];
  struct Claimed {
    std::vector<Decision> decisions;
    std::vector<std::pair<TaskId, MessagePtr>> messages;
  };
  const auto work = [batch, fence = parts_.shards.fence(),
                     decide = decider(parts_.rules())](Store& store) -> Result<Claimed> {
    std::vector<Event> events;
    events.reserve(batch.size());
    for (const io::DueItem& item : batch) events.push_back({item.id, event::Claim{}});
    auto decisions = store.apply(events, fence, decide);
    if (!decisions) return tl::unexpected(decisions.error());
    std::vector<TaskId> ours;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if ((*decisions)[i].verdict == Decision::Verdict::applied) ours.push_back(batch[i].id);
    }
    auto messages = store.messages(ours);
    if (!messages) return tl::unexpected(messages.error());
    return Claimed{std::move(*decisions), std::move(*messages)};
  };
  parts_.threads.submit<Claimed>(Lane::flow, work, [this, batch](Result<Claimed> result) {
    --claiming_;
    claiming_rows_ -= batch.size();
    for (const io::DueItem& item : batch) --under_way_in_[static_cast<std::size_t>(item.shard)];
    if (result) {
      claimed(batch, std::move(result->decisions), result->messages);
    } else {
      claimed(batch, tl::unexpected<Error>(result.error()), {});
    }
    parts_.outbox.flush();
    pump();
  });
}

void Dispatch::claimed(const std::vector<io::DueItem>& batch, const Result<std::vector<Decision>>& decisions,
                       const std::vector<std::pair<TaskId, MessagePtr>>& messages) {
  if (!decisions) {
    log::error("a claim failed", {{"tasks", batch.size()}, {"reason", decisions.error().message}});
    for (const io::DueItem& item : batch) put_down(item.id);  // the sweep brings them again
    return;
  }
  std::unordered_map<TaskId, MessagePtr> by_id;
  for (const auto& [id, message] : messages) by_id.emplace(id, message);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Decision& decision = (*decisions)[i];
    const TaskId id = batch[i].id;
    if (decision.verdict != Decision::Verdict::applied) {
      put_down(id);
      // Not due after all by the database's clock: it knows the time better than our reading of it.
      const Task& task = decision.task;
      if (task.state == State::scheduled && task.next_at) parts_.reschedule({id, *task.next_at, task.shard});
      continue;
    }
    const auto message = by_id.find(id);
    if (message == by_id.end()) {
      log::error("a task has no body in the database", {{"id", id.value}});
      ++under_way_in_[static_cast<std::size_t>(decision.task.shard)];
      ++under_way_;
      published(decision.task, {0, How::rejected, "its body is not in the database"});
      continue;
    }
    mean_body_ = mean_body_ * 0.98 + 0.02 * static_cast<double>(message->second->body.size() + 512);
    publish(decision.task, *message->second);
  }
}

void Dispatch::publish(const Task& task, const Message& message) {
  ++under_way_;
  ++under_way_in_[static_cast<std::size_t>(task.shard)];
  // To the queue by the default exchange: other bindings of the original exchange must not get copies (trap
  // 5).
  parts_.outbox.send({0, "", task.queue, dress(message, task)},
                     [this, task](const PublishResult& result) { published(task, result); });
}

void Dispatch::published(const Task& task, const PublishResult& result) {
  --under_way_;
  --under_way_in_[static_cast<std::size_t>(task.shard)];
  const EpochMs now = parts_.clock.now();
  switch (result.how) {
    case How::confirmed:
      return settle({task.id, event::Confirmed{task.attempt, now}});
    case How::returned:
      return settle({task.id, event::Returned{task.attempt, now, result.reason}});
    case How::nacked:
      return settle({task.id, event::Deferred{task.attempt, kRefusedPause, result.reason}});
    case How::rejected: {
      Directives never;
      never.never = true;
      return settle({task.id, event::Failed{task.attempt, "cannot be published: " + result.reason,
                                            "unsendable", never}});
    }
    case How::lost:
    case How::fenced:
      // Nobody knows whether it is in the queue, or it was held back: the same attempt again, if it is still
      // ours. Behind a closed fence only the next renewal helps: it opens again.
      if (result.how == How::fenced) open_ = false;
      put_down(task.id);
      if (!draining_ && parts_.shards.held(task.shard))
        due({{task.id, task.next_at.value_or(now), task.shard}});
      return;
  }
}

void Dispatch::settle(Event event) {
  const TaskId id = event.id;
  // A confirm moves nothing that anybody waits for; where the consumer was quicker, its word was dealt with
  // already.
  const bool moves = !std::holds_alternative<event::Confirmed>(event.what);
  parts_.transitions.add(std::move(event), [this, id, moves](const Result<Decision>& decision) {
    put_down(id);
    if (decision) {
      if (moves) parts_.settled(*decision);
    } else {
      log::error("a publish could not be recorded", {{"id", id.value}, {"reason", decision.error().message}});
    }
  });
}

}  // namespace rung::bridge
