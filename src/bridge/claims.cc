#include "src/bridge/claims.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/bridge/single_rows.h"
#include "src/core/decider.h"
#include "src/core/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kBesideBody = 512;  // approximate message overhead

std::size_t bytes_of(const Task& task) { return static_cast<std::size_t>(task.body_bytes) + kBesideBody; }

}  // namespace

void Claims::claim(std::vector<io::DueItem> items, PublishLane lane, int probe) {
  if (items.empty()) return;
  const io::DueItem first = items.front();
  const std::vector<io::DueItem> batch = deps_.tracker.begin_claim(std::move(items));
  if (batch.empty()) {
    if (probe != 0) deps_.not_claimed(first, probe);
    return;
  }
  ++jobs_;
  tasks_ += batch.size();
  std::vector<Event> claims;
  claims.reserve(batch.size());
  for (const io::DueItem& item : batch) {
    const Ms gated = deps_.gates.waited(deps_.names.name(item.queue), item.at);
    claims.push_back({item.id, event::Claim{kAhead, gated, probe}});
  }
  const auto work = [events = std::move(claims), fence = deps_.shards.fence(),
                     decide = decider(deps_.rules)](TaskStore& store) -> Result<Answer> {
    auto decisions = apply_claims(store, events, fence, decide);
    if (!decisions) return tl::unexpected(decisions.error());
    std::vector<TaskId> ours;
    std::size_t bytes = 0;  // messages beyond this are fetched when there is room
    for (const Decision& decision : *decisions) {
      if (decision.verdict != Decision::Verdict::applied) continue;
      bytes += bytes_of(decision.task);
      if (!ours.empty() && bytes > kMostBytes) break;
      ours.push_back(decision.task.id);
    }
    auto messages = read_messages(store, ours);
    if (!messages) return tl::unexpected(messages.error());
    return Answer{std::move(*decisions), std::move(*messages)};
  };
  deps_.jobs.submit<Answer>(Lane::flow, work, [this, lane, probe, batch](Result<Answer> result) {
    --jobs_;
    tasks_ -= batch.size();
    deps_.tracker.end_claim(batch);
    claimed(batch, lane, probe, std::move(result));
    deps_.done();
  });
}

void Claims::claimed(const std::vector<io::DueItem>& batch, PublishLane lane, int probe,
                     Result<Answer> result) {
  if (!result) {
    log::error("claim failed", {{"tasks", batch.size()}, {"reason", result.error().message}});
    for (const io::DueItem& item : batch) deps_.tracker.not_claimed(item);  // the sweep finds them again
    return;
  }
  std::vector<ClaimedTask> ours;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Decision& decision = result->decisions[i];
    if (decision.verdict == Decision::Verdict::applied) {
      const std::size_t bytes = bytes_of(decision.task);
      auto task = std::make_shared<const Task>(std::move(decision.task));
      ours.push_back({std::move(task), batch[i].queue, bytes, lane, decision.claimed_again});
      deps_.tracker.claimed(ours.back());
      continue;
    }
    deps_.tracker.not_claimed(batch[i]);
    deps_.not_claimed(batch[i], probe);
    // Not due yet by the database's clock, which is more exact than our reading of it.
    const Task& task = decision.task;
    if (task.state == State::scheduled && task.next_at)
      deps_.horizon.schedule(deps_.names.item(task, *task.next_at));
  }
  // In order: `messages` belong to the first tasks.
  const auto here = static_cast<std::ptrdiff_t>(std::min(result->messages.size(), ours.size()));
  deps_.publisher.publish({ours.begin(), ours.begin() + here}, result->messages);
  unfetched_.insert(unfetched_.end(), ours.begin() + here, ours.end());
  if (draining_ && !planted(Bug::b2)) release_unfetched();  // no fetch follows during a drain
}

void Claims::fetch() {
  auto batch = std::make_shared<std::vector<ClaimedTask>>();
  std::vector<TaskId> ids;
  std::size_t bytes = 0;
  while (!unfetched_.empty() && ids.size() < kMostTasks) {
    ClaimedTask& next = unfetched_.front();
    bytes += next.bytes;
    if (!ids.empty() && bytes > kMostBytes) break;
    if (!deps_.shards.held(next.task->shard) || !is_covered(deps_.shards, next)) {
      deps_.tracker.release(next);
    } else {
      ids.push_back(next.task->id);
      batch->push_back(std::move(next));
    }
    unfetched_.pop_front();
  }
  if (ids.empty()) return;
  ++jobs_;
  deps_.jobs.submit<Messages>(
      Lane::flow, [ids = std::move(ids)](TaskStore& store) { return read_messages(store, ids); },
      [this, batch](const Result<Messages>& messages) {
        --jobs_;
        fetched(*batch, messages);
        deps_.done();
      });
}

void Claims::fetched(const std::vector<ClaimedTask>& batch, const Result<Messages>& messages) {
  if (messages) return deps_.publisher.publish(batch, *messages);
  log::error("reading message bodies failed",
             {{"tasks", batch.size()}, {"reason", messages.error().message}});
  for (const ClaimedTask& claimed : batch) deps_.tracker.release(claimed);
}

void Claims::release_unfetched() {
  for (; !unfetched_.empty(); unfetched_.pop_front()) deps_.tracker.release(unfetched_.front());
}

void Claims::drain() {
  draining_ = true;
  release_unfetched();
}

}  // namespace rung::bridge
