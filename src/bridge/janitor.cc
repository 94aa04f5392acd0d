#include "src/bridge/janitor.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

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
constexpr Ms kForgotten{60'000};  // in `publishing` under our own epoch for this long, and not in hand

}  // namespace

Janitor::Janitor(io::Loop& loop, Parts parts)
    : parts_(std::move(parts)),
      timer_(loop, [this] { tick(); }),
      sweep_(loop, [this] { sweep(); }),
      sweep_on_(loop, [this] { sweep_on(); }) {}

void Janitor::start() {
  timer_.start(kEvery, kEvery);
  sweep_.start(kSweepEvery, kSweepEvery);
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
  parts_.heap.check_clock();
  if (!parts_.shards.any()) return;
  parts_.dispatch.tick();
  parts_.horizon.extend();
  deadlines();
  copies();
  stranded();
  if (++ticks_ % kSlowTicks == 0) forgotten();
}

void Janitor::sweep() {
  if (sweeping_ || !parts_.shards.any()) return;
  sweeping_ = true;
  const EpochMs until = parts_.clock.now() - kSweepGrace;
  std::optional<EpochMs> after;
  if (parts_.dispatch.ready() > kEnoughReady || look_recent_) after = until - kRecent;
  parts_.threads.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = parts_.shards.list(), after, until](Store& store) {
        return store.due(State::scheduled, shards, after, until, kPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        sweeping_ = false;
        if (!rows) return log::error("the sweep failed", {{"reason", rows.error().message}});
        std::vector<io::DueItem> items;
        for (const DueEntry& row : *rows) {
          const io::DueItem item = parts_.names.item(row);
          if (!parts_.dispatch.in_hand(item)) items.push_back(item);
        }
        // Pages full of what waits for a queue that stands still: behind them may be what a person fired.
        const bool standing = rows->size() - items.size() >= kPerShard;
        look_recent_ = standing && !look_recent_;
        if (!items.empty()) parts_.dispatch.due(items);
        if (items.size() >= kPerShard || look_recent_) sweep_on_.start(kSweepOn);
      });
}

void Janitor::sweep_on() {
  if (parts_.dispatch.ready() > kEnoughReady) return sweep_on_.start(kSweepOn);
  sweep();
}

void Janitor::deadlines() {
  if (ending_busy_) return;
  ending_busy_ = true;
  parts_.threads.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = parts_.shards.list(), until = parts_.clock.now()](Store& store) {
        return store.due(State::awaiting, shards, std::nullopt, until, kPerShard * 10);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        ending_busy_ = false;
        if (!rows) return log::error("silence could not be looked for", {{"reason", rows.error().message}});
        for (const DueEntry& row : *rows) {
          if (!ending_.insert(row.id).second) continue;
          parts_.transitions.add({row.id, event::SilenceOver{}},
                                 [this, id = row.id](const Result<Decision>& decision) {
                                   ending_.erase(id);
                                   if (decision) parts_.settled(*decision);
                                 });
        }
        parts_.transitions.flush();
      });
}

void Janitor::copies() {
  if (copies_busy_ || !parts_.can_publish()) return;
  copies_busy_ = true;
  parts_.threads.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = parts_.shards.list(), until = parts_.clock.now()](Store& store) {
        return store.due(State::parked, shards, std::nullopt, until, kPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        copies_busy_ = false;
        if (!rows)
          return log::error("parked copies could not be looked for", {{"reason", rows.error().message}});
        std::vector<TaskId> ids;
        for (const DueEntry& row : *rows) {
          if (copying_.insert(row.id).second) ids.push_back(row.id);
        }
        if (!ids.empty()) send_copies(ids);
      });
}

void Janitor::send_copies(const std::vector<TaskId>& ids) {
  struct Copy {
    Task task;
    MessagePtr message;
  };
  parts_.threads.submit<std::vector<Copy>>(
      Lane::control,
      [ids](Store& store) -> Result<std::vector<Copy>> {
        auto messages = store.messages(ids);
        if (!messages) return tl::unexpected(messages.error());
        std::vector<Copy> copies;
        for (auto& [id, message] : *messages) {
          auto row = store.find(id);
          if (!row) return tl::unexpected(row.error());
          if (*row) copies.push_back({(*row)->task, std::move(message)});
        }
        return copies;
      },
      [this, ids](Result<std::vector<Copy>> copies) {
        if (!copies) {
          for (const TaskId id : ids) copying_.erase(id);
          return;
        }
        for (Copy& copy : *copies) {
          Message message = dress(*copy.message, copy.task, parts_.proof.token(copy.task));
          message.headers->emplace_back(header::kQueue, copy.task.queue);
          message.headers->emplace_back(header::kError, copy.task.last_error);
          const TaskId id = copy.task.id;
          parts_.outbox.send(
              {0, parts_.parked_exchange, copy.task.queue, std::move(message)},
              [this, id](const PublishResult& result) {
                const bool never = result.how == PublishResult::How::rejected;
                if (result.how != PublishResult::How::confirmed && !never) {
                  copying_.erase(id);  // the next tick tries again
                  return;
                }
                // Tried again it would end the channel for all others each time. The row has it.
                if (never)
                  log::error(
                      "a parked message cannot be sent to the parked queue: it stands in its row alone",
                      {{"id", id.value}, {"reason", result.reason}});
                parts_.transitions.add({id, event::ParkedCopySent{}},
                                       [this, id](const Result<Decision>&) { copying_.erase(id); });
              });
        }
        parts_.outbox.flush();
      });
}

void Janitor::stranded() {
  std::vector<Lease> ripe;
  const BootMs now = boot_now();
  std::erase_if(to_recover_, [&](const Gained& g) {
    if (!parts_.shards.held(g.lease.shard)) return true;  // whoever has it now looks for itself
    if (g.recover_at > now) return false;
    ripe.push_back(g.lease);
    return true;
  });
  if (ripe.empty()) return;
  constexpr int kLimit = 5000;
  parts_.threads.submit<std::vector<DueEntry>>(
      Lane::control, [ripe](Store& store) { return store.stranded(ripe, kLimit); },
      [this, ripe](const Result<std::vector<DueEntry>>& rows) {
        if (!rows) {
          for (const Lease& lease : ripe) to_recover_.push_back({lease, boot_now() + kEvery * 5});
          return log::error("stranded tasks could not be looked for", {{"reason", rows.error().message}});
        }
        const bool more = rows->size() == static_cast<std::size_t>(kLimit);
        std::vector<io::DueItem> items;
        std::set<int> unsettled;
        for (const DueEntry& row : *rows) {
          // In hand, it goes on by itself, unless what we are doing with it is still under the former lease:
          // a claim on its way across an outage then comes back empty-handed.
          if (parts_.dispatch.in_hand(row.id))
            unsettled.insert(row.shard);
          else
            items.push_back(parts_.names.item(row));
        }
        for (const Lease& lease : ripe) {
          if (more || unsettled.contains(lease.shard)) to_recover_.push_back({lease, boot_now() + kEvery});
        }
        if (items.empty()) return;
        log::info("publishing again what the former owner left", {{"tasks", items.size()}});
        parts_.dispatch.due(items);
      });
}

// Our own claims whose answer got lost in a way that nobody noticed. None should ever be found.
void Janitor::forgotten() {
  parts_.threads.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = parts_.shards.list(), until = parts_.clock.now() - kForgotten](Store& store) {
        return store.due(State::publishing, shards, std::nullopt, until, kPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        if (!rows) return;
        std::vector<io::DueItem> items;
        for (const DueEntry& row : *rows) {
          const bool waits =
              std::ranges::any_of(to_recover_, [&](const Gained& g) { return g.lease.shard == row.shard; });
          if (!waits && !parts_.dispatch.in_hand(row.id)) items.push_back(parts_.names.item(row));
        }
        if (items.empty()) return;
        log::warn("claims that nobody had in hand: published again", {{"tasks", items.size()}});
        parts_.dispatch.due(items);
      });
}

}  // namespace rung::bridge
