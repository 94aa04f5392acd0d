#include "src/bridge/claims.h"

#include <utility>

#include "src/bridge/single_rows.h"
#include "src/core/decider.h"
#include "src/core/failpoint.h"
#include "src/core/require.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kBesideBody = 512;  // approximate message overhead

std::size_t bytes_of(const Task& task) { return static_cast<std::size_t>(task.body_bytes) + kBesideBody; }

}  // namespace

void Claims::claim(std::vector<io::DueItem> items) {
  if (items.empty()) return;
  ++jobs_;
  std::vector<Event> claims;
  claims.reserve(items.size());
  for (const io::DueItem& item : items) {
    const Flight* flight = deps_.flights.find(item.id);
    RUNG_REQUIRE(flight != nullptr && flight->stage == Flight::Stage::claiming);
    const Ms gated = deps_.gates.waited(deps_.names.name(item.queue), item.at);
    claims.push_back({item.id, event::Claim{kAhead, gated, flight->permit ? flight->permit->probe : 0}});
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
  deps_.jobs.submit<Answer>(Lane::flow, work, [this, batch = std::move(items)](Result<Answer> result) {
    --jobs_;
    claimed(batch, std::move(result));
    deps_.done();
  });
}

void Claims::claimed(const std::vector<io::DueItem>& batch, Result<Answer> result) {
  if (!result) {
    log::error("claim failed", {{"tasks", batch.size()}, {"reason", result.error().message}});
    for (const io::DueItem& item : batch) not_claimed(item);  // the sweep finds them again
    return;
  }
  RUNG_REQUIRE(result->decisions.size() == batch.size());
  std::vector<Flight*> reads;  // in order: the messages belong to the first tasks
  reads.reserve(result->messages.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Decision& decision = result->decisions[i];
    if (decision.verdict == Decision::Verdict::applied) {
      const bool has_message = reads.size() < result->messages.size();
      const std::size_t bytes = bytes_of(decision.task);
      Flight& flight = deps_.flights.claimed(batch[i].id, std::move(decision), bytes, has_message);
      if (has_message) {
        reads.push_back(&flight);
      } else {
        unread_.push_back(&flight);
      }
      continue;
    }
    not_claimed(batch[i]);
    // Not due yet by the database's clock, which is more exact than our reading of it.
    const Task& task = decision.task;
    if (task.state == State::scheduled && task.next_at)
      deps_.horizon.schedule(deps_.names.item(task, *task.next_at));
  }
  deps_.publisher.publish(reads, result->messages);
  if (draining_ && !planted(Bug::b2)) release_unfetched();  // no fetch follows during a drain
}

void Claims::not_claimed(const io::DueItem& item) {
  if (const auto unused = deps_.flights.not_claimed(item.id)) deps_.unused(item.queue, *unused);
}

void Claims::fetch() {
  std::vector<Flight*> batch;
  std::vector<TaskId> ids;
  std::size_t bytes = 0;
  while (!unread_.empty() && ids.size() < kMostTasks) {
    Flight& next = *unread_.front();
    const Task& task = *next.claim->task;
    bytes += next.claim->bytes;
    if (!ids.empty() && bytes > kMostBytes) break;
    unread_.pop_front();
    if (!deps_.shards.held(task.shard) || !is_covered(deps_.shards, task)) {
      deps_.flights.release(next);
    } else {
      deps_.flights.read(next);
      ids.push_back(task.id);
      batch.push_back(&next);
    }
  }
  RUNG_REQUIRE(unread_.size() == deps_.flights.count(Flight::Stage::unread));
  if (ids.empty()) return;
  ++jobs_;
  deps_.jobs.submit<Messages>(
      Lane::flow, [ids = std::move(ids)](TaskStore& store) { return read_messages(store, ids); },
      [this, batch = std::move(batch)](const Result<Messages>& messages) {
        --jobs_;
        fetched(batch, messages);
        deps_.done();
      });
}

void Claims::fetched(const std::vector<Flight*>& batch, const Result<Messages>& messages) {
  if (messages) return deps_.publisher.publish(batch, *messages);
  log::error("reading message bodies failed",
             {{"tasks", batch.size()}, {"reason", messages.error().message}});
  for (Flight* flight : batch) deps_.flights.release(*flight);
}

void Claims::release_unfetched() {
  for (; !unread_.empty(); unread_.pop_front()) deps_.flights.release(*unread_.front());
}

void Claims::drain() {
  draining_ = true;
  release_unfetched();
}

}  // namespace rung::bridge
