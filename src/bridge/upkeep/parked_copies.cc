#include "src/bridge/upkeep/parked_copies.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/bridge/base/health.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/single_rows.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/core/machine/headers.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr int kCopiesPerShard = 100;
constexpr Ms kSendEvery{1000};
constexpr int kBatches = 5;                                 // for each poll: 5,000 copies a second
constexpr std::size_t kMostCopyBytes = 16UL * 1024 * 1024;  // of bodies under way, approximate

std::size_t body_bytes_of(const Task& task) {
  return static_cast<std::size_t>(std::max<std::int64_t>(task.body_bytes, 0));
}

}  // namespace

ParkedCopies::ParkedCopies(const Sidecar& sidecar)
    : sidecar_(sidecar),
      exchange_(sidecar.settings.prefix + ".parked"),
      send_(sidecar_.table.add(
          {"parked copies", kSendEvery, Lane::flow, Jobs::Who::owners, [this] { return next_batch(); }})) {}

void ParkedCopies::found() {
  recorded_.clear();
  batches_left_ = kBatches;
}

Jobs::Work ParkedCopies::next_batch() {
  // A copy for it is tried again after ten minutes at most, if it is owed still.
  const bool missing =
      returned_at_ && sidecar_.clock.here().boot() - *returned_at_ <= std::chrono::minutes{11};
  sidecar_.health.show("parked_copies",
                       missing ? exchange_ + " is missing: copies of parked messages wait for it" : "");
  const bool may_send = sidecar_.shards.any() && sidecar_.dispatch.is_open() && bytes_ < kMostCopyBytes;
  if (batches_left_ == 0 || !may_send) return nullptr;
  --batches_left_;
  auto sent = under_way_;
  sent.insert(recorded_.begin(), recorded_.end());
  return [this, sent = std::move(sent), shards = sidecar_.shards.list(), until = sidecar_.clock.now(),
          room = kMostCopyBytes - bytes_](Store& store) -> Result<Jobs::Then> {
    const auto rows = store.due(State::parked, shards, std::nullopt, until, kCopiesPerShard);
    if (!rows) return tl::unexpected(rows.error());
    std::vector<TaskId> ids;
    for (const DueEntry& row : *rows) {
      if (!sent.contains(row.id) && ids.size() < kMostInBatch) ids.push_back(row.id);
    }
    auto copies = read(store, ids, room);
    if (!copies) return tl::unexpected(copies.error());
    return [this, copies = *std::move(copies), last = rows->size() < kCopiesPerShard] {
      if (last) stop();  // no shard has more
      for (const Copy& copy : copies) send(copy);
      sidecar_.outbox.flush();
    };
  };
}

// On a store thread. Reads copies whose bodies fit in `room` together, but at least one.
Result<std::vector<ParkedCopies::Copy>> ParkedCopies::read(Store& store, const std::vector<TaskId>& ids,
                                                           std::size_t room) {
  if (ids.empty()) return std::vector<Copy>{};
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
  auto messages = read_messages(store, taken);
  if (!messages) return tl::unexpected(messages.error());
  for (Copy& copy : copies) {
    const auto stored = std::ranges::find(*messages, copy.task.id, &StoredMessage::id);
    if (stored != messages->end()) copy.stored = std::move(*stored);
    prove(copy.stored, copy.task);
  }
  return copies;
}

Outgoing ParkedCopies::outgoing_for(const Copy& copy) const {
  const Task& task = copy.task;
  // If somebody delivers it, that is an attempt of its own.
  Task delivered = task;
  ++delivered.attempt;
  delivered.copy_number = task.version | kParkedCopy;
  Message message = dress(*copy.stored.message, delivered, sidecar_.proof.token(delivered));
  Table& headers = *message.headers;
  headers.emplace_back(header::kQueue, task.queue);
  headers.emplace_back(header::kError, task.last_error);
  return {0, exchange_, task.queue, std::move(message)};
}

void ParkedCopies::send(const Copy& copy) {
  const Task& task = copy.task;
  under_way_.insert(task.id);
  bytes_ += body_bytes_of(task);
  const auto never = [this, task](const std::string& reason) {
    log::error("the broker refused a copy of a parked message: only the row has the message",
               {{"id", task.id.value}, {"reason", reason}});
    done(task);
  };
  if (copy.stored.message == nullptr) return never(copy.stored.broken);
  sidecar_.outbox.send(outgoing_for(copy), [this, task, never](const PublishResult& result) {
    if (result.how == PublishResult::How::returned) {
      returned_at_ = sidecar_.clock.here().boot();
      return done(task, true);
    }
    returned_at_.reset();
    if (result.how == PublishResult::How::confirmed) return done(task);
    // Each retry would close the channel for all others. The row has the message.
    if (result.how == PublishResult::How::rejected) return never(result.reason);
    under_way_.erase(task.id);  // retried a second later
    bytes_ -= body_bytes_of(task);
    stop();
  });
}

void ParkedCopies::done(const Task& task, bool no_queue) {
  bytes_ -= body_bytes_of(task);
  sidecar_.transitions.add({task.id, event::ParkedCopySent{no_queue}},
                           [this, id = task.id](const Result<Decision>& decision) {
                             under_way_.erase(id);
                             if (!decision) return stop();  // sent again a second later
                             recorded_.insert(id);
                             if (under_way_.empty()) sidecar_.table.run(send_);
                           });
}

}  // namespace rung::bridge
