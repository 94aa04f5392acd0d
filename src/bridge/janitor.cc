#include "src/bridge/janitor.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "src/core/failpoint.h"
#include "src/core/headers.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kEvery{1000};
// What a person or another instance has made due is found by the sweep: within this and the grace.
constexpr Ms kSweepEvery{500};
constexpr Ms kSweepGrace{300};  // what has just become due is the heap's
constexpr Ms kSweepOn{50};  // until the next sweep where one found full pages: many were due at one instant
constexpr Ms kRecent{10'000};  // with much in hand: what became due within this, e.g. redriven by a person
constexpr std::size_t kEnoughReady = 5000;
constexpr int kPerShard = 100;
constexpr int kSlowTicks = 10;
constexpr std::size_t kCopyBytes = 16UL * 1024 * 1024;  // bodies of parked copies on their way, about
constexpr Ms kForgotten{60'000};  // in `publishing` under our own epoch for this long, and not in hand

std::size_t body_bytes_of(const Task& task) {
  return static_cast<std::size_t>(std::max<std::int64_t>(task.body_bytes, 0));
}

}  // namespace

Janitor::Janitor(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)),
      timer_(loop, [this] { tick(); }),
      sweep_(loop, [this] { sweep(); }),
      sweep_on_(loop, [this] { sweep_on(); }) {}

void Janitor::start() {
  timer_.start(kEvery, kEvery);
  if (!planted(Bug::sweep_forgotten)) sweep_.start(kSweepEvery, kSweepEvery);
}
void Janitor::stop() {
  timer_.stop();
  sweep_.stop();
  sweep_on_.stop();
}

void Janitor::gained(const std::vector<Gained>& gained) {
  to_recover_.insert(to_recover_.end(), gained.begin(), gained.end());
  stranded();
}

void Janitor::tick() {
  deps_.horizon.check_clock();
  if (!deps_.shards.any()) return;
  deps_.dispatch.tick();
  deps_.horizon.extend();
  deadlines();
  copies();
  stranded();
  if (++ticks_ % kSlowTicks == 0) forgotten();
}

void Janitor::sweep() {
  if (sweeping_ || !deps_.shards.any()) return;
  sweeping_ = true;
  const EpochMs until = deps_.clock.now() - kSweepGrace;
  std::optional<EpochMs> after;
  if (deps_.dispatch.ready() > kEnoughReady || look_recent_) after = until - kRecent;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = deps_.shards.list(), after, until](TaskStore& store) {
        return store.due(State::scheduled, shards, after, until, kPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        sweeping_ = false;
        if (!rows) return log::error("the sweep failed", {{"reason", rows.error().message}});
        std::vector<io::DueItem> items;
        for (const DueEntry& row : *rows) {
          const io::DueItem item = deps_.names.item(row);
          if (!deps_.dispatch.tracker().contains(item)) items.push_back(item);
        }
        // Pages full of what waits for a queue that stands still: behind them may be what a person fired.
        const bool standing = rows->size() - items.size() >= kPerShard;
        look_recent_ = standing && !look_recent_;
        if (!items.empty()) deps_.dispatch.due(items);
        if (items.size() >= kPerShard || look_recent_) sweep_on_.start(kSweepOn);
      });
}

void Janitor::sweep_on() {
  if (deps_.dispatch.ready() > kEnoughReady) return sweep_on_.start(kSweepOn);
  sweep();
}

void Janitor::deadlines() {
  if (ending_busy_) return;
  ending_busy_ = true;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = deps_.shards.list(), until = deps_.clock.now()](TaskStore& store) {
        return store.due(State::awaiting, shards, std::nullopt, until, kPerShard * 10);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        ending_busy_ = false;
        if (!rows) return log::error("silence could not be looked for", {{"reason", rows.error().message}});
        for (const DueEntry& row : *rows) {
          if (!ending_.insert(row.id).second) continue;
          deps_.transitions.add({row.id, event::SilenceOver{}},
                                [this, id = row.id](const Result<Decision>& decision) {
                                  ending_.erase(id);
                                  if (decision) deps_.observer.decided(*decision);
                                });
        }
        deps_.transitions.flush();
      });
}

void Janitor::copies() {
  if (copies_busy_ || copy_bytes_ >= kCopyBytes || !deps_.can_publish()) return;
  copies_busy_ = true;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = deps_.shards.list(), until = deps_.clock.now()](TaskStore& store) {
        return store.due(State::parked, shards, std::nullopt, until, kPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        copies_busy_ = false;
        if (!rows)
          return log::error("parked copies could not be looked for", {{"reason", rows.error().message}});
        std::vector<TaskId> ids;
        for (const DueEntry& row : *rows) {
          if (!copying_.contains(row.id) && ids.size() < kMostInBatch) ids.push_back(row.id);
        }
        if (!ids.empty()) send_copies(ids);
      });
}

// On a flow lane. Those whose bodies take no more than `room` together, and one at least.
Result<std::vector<Janitor::Copy>> Janitor::read_copies(Store& store, const std::vector<TaskId>& ids,
                                                        std::size_t room) {
  auto rows = store.known(ids);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Copy> copies;
  std::vector<TaskId> taken;
  std::size_t bytes = 0;
  for (KnownTask& known : *rows) {
    bytes += body_bytes_of(known.row.task);
    if (!taken.empty() && bytes > room) break;
    taken.push_back(known.row.task.id);
    const TaskId id = known.row.task.id;
    copies.push_back({std::move(known.row.task), {id, nullptr, "its body is not in the database"}});
  }
  auto messages = store.messages(taken);
  if (!messages) return tl::unexpected(messages.error());
  for (Copy& copy : copies) {
    const auto stored = std::ranges::find(*messages, copy.task.id, &StoredMessage::id);
    if (stored != messages->end()) copy.stored = std::move(*stored);
  }
  return copies;
}

void Janitor::send_copies(const std::vector<TaskId>& ids) {
  copies_busy_ = true;
  deps_.jobs.submit<std::vector<Copy>>(
      Lane::flow,
      [ids, room = kCopyBytes - copy_bytes_](Store& store) { return read_copies(store, ids, room); },
      [this](const Result<std::vector<Copy>>& copies) {
        copies_busy_ = false;
        if (!copies)
          return log::error("parked messages could not be read", {{"reason", copies.error().message}});
        for (const Copy& copy : *copies) send_copy(copy);
        deps_.outbox.flush();
      });
}

void Janitor::send_copy(const Copy& copy) {
  const Task& task = copy.task;
  copying_.insert(task.id);
  copy_bytes_ += body_bytes_of(task);
  const auto never = [this, task](const std::string& reason) {
    log::error("a parked message cannot be sent to the parked queue: it stands in its row alone",
               {{"id", task.id.value}, {"reason", reason}});
    copy_done(task);
  };
  if (copy.stored.message == nullptr) return never(copy.stored.broken);
  Message message = dress(*copy.stored.message, task, deps_.proof.token(task));
  message.headers->emplace_back(header::kQueue, task.queue);
  message.headers->emplace_back(header::kError, task.last_error);
  deps_.outbox.send({0, deps_.parked_exchange, task.queue, std::move(message)},
                    [this, task, never](const PublishResult& result) {
                      if (result.how == PublishResult::How::confirmed) return copy_done(task);
                      // Tried again it would end the channel for all others each time. The row has it.
                      if (result.how == PublishResult::How::rejected) return never(result.reason);
                      copying_.erase(task.id);  // the next tick tries again
                      copy_bytes_ -= body_bytes_of(task);
                    });
}

void Janitor::copy_done(const Task& task) {
  copy_bytes_ -= body_bytes_of(task);
  deps_.transitions.add({task.id, event::ParkedCopySent{}},
                        [this, id = task.id](const Result<Decision>&) { copying_.erase(id); });
}

void Janitor::stranded() {
  std::vector<Lease> ripe;
  const BootMs now = deps_.clock.here().boot();
  std::erase_if(to_recover_, [&](const Gained& g) {
    if (!deps_.shards.held(g.lease.shard)) return true;  // whoever has it now looks for itself
    if (g.recover_at > now) return false;
    ripe.push_back(g.lease);
    return true;
  });
  if (ripe.empty()) return;
  constexpr int kLimit = 5000;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control, [ripe](TaskStore& store) { return store.stranded(ripe, kLimit); },
      [this, ripe](const Result<std::vector<DueEntry>>& rows) {
        if (!rows) {
          for (const Lease& lease : ripe)
            to_recover_.push_back({lease, deps_.clock.here().boot() + kEvery * 5});
          return log::error("stranded tasks could not be looked for", {{"reason", rows.error().message}});
        }
        const bool more = rows->size() == static_cast<std::size_t>(kLimit);
        std::vector<io::DueItem> items;
        std::set<int> unsettled;
        for (const DueEntry& row : *rows) {
          // In hand, it goes on by itself, unless what we are doing with it is still under the former lease:
          // a claim on its way across an outage then comes back empty-handed.
          if (deps_.dispatch.tracker().contains(row.id))
            unsettled.insert(row.shard);
          else
            items.push_back(deps_.names.item(row));
        }
        for (const Lease& lease : ripe) {
          if (more || unsettled.contains(lease.shard))
            to_recover_.push_back({lease, deps_.clock.here().boot() + kEvery});
        }
        if (items.empty()) return;
        log::info("publishing again what the former owner left", {{"tasks", items.size()}});
        deps_.dispatch.due(items);
      });
}

// Our own claims whose answer got lost in a way that nobody noticed. None should ever be found.
void Janitor::forgotten() {
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = deps_.shards.list(), until = deps_.clock.now() - kForgotten](TaskStore& store) {
        return store.due(State::publishing, shards, std::nullopt, until, kPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        if (!rows) return;
        std::vector<io::DueItem> items;
        for (const DueEntry& row : *rows) {
          const bool waits =
              std::ranges::any_of(to_recover_, [&](const Gained& g) { return g.lease.shard == row.shard; });
          if (!waits && !deps_.dispatch.tracker().contains(row.id)) items.push_back(deps_.names.item(row));
        }
        if (items.empty()) return;
        log::warn("claims that nobody had in hand: published again", {{"tasks", items.size()}});
        deps_.dispatch.due(items);
      });
}

}  // namespace rung::bridge
