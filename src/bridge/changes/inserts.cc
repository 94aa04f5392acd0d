#include "src/bridge/changes/inserts.h"

#include <algorithm>
#include <utility>

#include "src/bridge/base/outbox.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/failpoint.h"

namespace rung::bridge {
namespace {

constexpr Ms kDeliveryWaits{20};
constexpr Ms kCallTimeout{5000};  // how long submitted tasks wait for a lease or a slot
constexpr Ms kLookAgain{500};

std::size_t bytes_of(const Inserts::Item& item) {
  std::size_t bytes = 0;
  for (const NewTask& fresh : item.tasks) bytes += fresh.message->body.size();
  return bytes;
}

void refuse(const Inserts::Item& item, const Error& why) { item.done(item, tl::unexpected(why)); }

Error not_now(const char* why) { return {Error::Kind::transient, why}; }
Error shutting_down() { return not_now("this instance is shutting down"); }

}  // namespace

Inserts::Inserts(const Sidecar& sidecar)
    : sidecar_(sidecar),
      linger_(sidecar.loop, kDeliveryWaits, [this] { flush(); }),
      dice_(sidecar.settings.identity.incarnation),
      expiry_timer_(sidecar.loop, [this] {
        give_up_old();
        flush();
      }) {}

void Inserts::add(Item item) {
  if (draining_) return refuse(item, shutting_down());
  // A person waits for the answer to what is submitted. What is due at once would be late.
  const EpochMs soon = sidecar_.clock.latest() + kDeliveryWaits + Dispatch::kAhead;
  const auto is_soon = [&](const NewTask& fresh) { return fresh.task.next_at && *fresh.task.next_at < soon; };
  if (!item.is_delivery() || std::ranges::any_of(item.tasks, is_soon)) linger_.skip();
  if (!item.is_delivery()) {
    if (item.since.ms == 0) item.since = sidecar_.loop.clock().boot();
    if (!expiry_timer_.active()) expiry_timer_.start(kLookAgain, kLookAgain);
  }
  auto& line = item.from_backlog ? backlog_ : fresh_;
  line.push_back(std::move(item));
}

void Inserts::forget_before(const IntakeSession& session) {
  for (auto* line : {&fresh_, &backlog_})
    std::erase_if(*line, [&](const Item& item) { return item.tag.session.before(session); });
}

void Inserts::give_up_old() {
  const BootMs now = sidecar_.loop.clock().boot();
  std::vector<Item> old;
  std::erase_if(fresh_, [&](Item& item) {
    if (item.is_delivery() || now - item.since <= kCallTimeout) return false;
    old.push_back(std::move(item));
    return true;
  });
  if (std::ranges::all_of(fresh_, &Item::is_delivery)) expiry_timer_.stop();
  for (const Item& item : old)
    refuse(item,
           not_now("nothing could be written in time: the database is unavailable, or no shard is held"));
}

void Inserts::drain() {
  draining_ = true;
  expiry_timer_.stop();
  backlog_.clear();
  for (const Item& item : std::exchange(fresh_, {})) refuse(item, shutting_down());
}

// Sends a second batch beside the one under way only if it is worth a transaction: otherwise many small
// batches would alternate, each costing the database a commit and the broker an ack.
bool Inserts::should_flush() {
  if (fresh_.size() + backlog_.size() >= kMostInBatch / 2 || line().front().alone) return true;
  if (in_flight_ == 0) return !linger_.hold();
  std::size_t bytes = 0;
  for (const auto* line : {&fresh_, &backlog_}) {
    for (const Item& item : *line) bytes += bytes_of(item);
  }
  return bytes >= kBytesInBatch / 2;
}

void Inserts::flush() {
  while (!line().empty() && in_flight_ < kMostInFlight && should_flush()) {
    // One shard per batch: one lease to check, neighbouring rows in the index. An instance that gave its
    // shards up because it cannot publish continues to insert: the shard's owner finds the rows in its sweep.
    const bool for_others = sidecar_.shards.stepped_back();
    const int shard =
        for_others ? std::uniform_int_distribution<>(0, kShards - 1)(dice_) : sidecar_.shards.home();
    if (shard < 0) return;  // called again when a lease is taken
    Batch batch;
    std::size_t rows = 0, bytes = 0;
    while (!line().empty()) {
      Item& next = line().front();
      rows += next.tasks.size();
      bytes += bytes_of(next);
      const bool alone = next.alone || rows > kMostInBatch || bytes > kBytesInBatch;
      if (!batch.empty() && (alone || batch.back().alone)) break;
      batch.push_back(std::move(next));
      line().pop_front();
    }
    linger_.end();
    insert(std::move(batch), shard, for_others);
  }
}

// `for_others`: the shard's owner carries on with the tasks.
void Inserts::insert(Batch items, int shard, bool for_others) {
  for (Item& item : items) {
    for (NewTask& fresh : item.tasks) {
      if (fresh.task.id == TaskId{}) fresh.task.id = sidecar_.shards.new_id(sidecar_.clock.latest());
      fresh.task.shard = shard;
      fresh.task.node = sidecar_.shards.node();
    }
    if (planted(Bug::ack_before_commit) && item.is_delivery()) sidecar_.acks.add(item.tag);
  }
  if (planted(Bug::ack_before_commit)) sidecar_.acks.flush();
  Fence fence = sidecar_.shards.fence();
  fence.by_hand = for_others;
  ++in_flight_;
  const auto batch = std::make_shared<const Batch>(std::move(items));
  sidecar_.jobs.submit<Answers>(
      Lane::flow,
      [this, batch, fence = std::move(fence)](Store& store) { return insert_standing(store, *batch, fence); },
      [this, batch](const Result<Answers>& result) {
        --in_flight_;
        inserted(*batch, result);
        sidecar_.acks.flush();
        flush();
      });
}

// On a store thread, at each try. If a delivery's connection is gone, because it waited for the database or
// the process was suspended, another instance has received it by now and may have finished its task:
// inserting it would make a second task. It is skipped; if no other instance had it, the broker redelivers
// it.
Inserts::Answers Inserts::insert_standing(Store& store, const Batch& batch, const Fence& fence) const {
  Answers answers;
  std::vector<NewTask> tasks;
  tasks.reserve(batch.size());
  for (const Item& item : batch) {
    const bool stands = !item.is_delivery() || sidecar_.broker.stands(item.tag);
    if (stands) tasks.insert(tasks.end(), item.tasks.begin(), item.tasks.end());
    answers.insert(answers.end(), item.tasks.size(), stands ? std::optional(Inserted{}) : std::nullopt);
  }
  const auto inserted = store.insert(tasks, fence);
  auto next = inserted.begin();
  for (auto& answer : answers) {
    if (answer) answer = *next++;
  }
  return answers;
}

void Inserts::inserted(const Batch& batch, const Result<Answers>& result) {
  // The database refuses one of them: each alone, so that it does not fail the others.
  const bool apart = !result && !result.error().is_transient() && batch.size() > 1;
  std::vector<DeliveryTag> left;
  std::size_t next = 0;
  for (const Item& item : batch) {
    if (apart) {
      Item single = item;
      single.alone = true;
      add(std::move(single));
    } else if (!result) {
      refuse(item, result.error());
    } else if (!(*result)[next]) {
      left.push_back(item.tag);
      next += item.tasks.size();
    } else {
      std::vector<Inserted> answers;
      while (answers.size() < item.tasks.size()) answers.push_back(*(*result)[next++]);
      answered(item, answers);
    }
  }
  // In case the connection is open after all (the only doubt was that this process had been suspended).
  if (!left.empty()) sidecar_.acks.requeue(std::move(left));
}

void Inserts::answered(const Item& item, const std::vector<Inserted>& answers) {
  using How = Inserted::How;
  const auto again = [](const Inserted& answer) {
    return answer.how == How::not_held || answer.how == How::id_taken;
  };
  if (std::ranges::any_of(answers, again)) {
    Item rest = item;  // those that are written keep their ids, and are found
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].how == How::not_held) sidecar_.shards.refused();
      if (answers[i].how == How::id_taken) rest.tasks[i].task.id = {};  // the next turn gives it a new one
    }
    return add(std::move(rest));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].how == How::inserted) sidecar_.transitions.inserted(item.tasks[i]);
  }
  item.done(item, answers);
}

// --- by hand

void Inserts::submit(std::vector<Submission> batch, SubmitDone done) {
  sidecar_.loop.post([this, batch = std::move(batch), done = std::move(done)] {
    if (!sidecar_.clock.known()) return done(tl::unexpected(not_now("the database has not answered yet")));
    if (batch.empty()) return done(std::vector<Submitted>{});
    Item call;
    // A lag of our reading of the database's clock never cuts a delay short.
    const EpochMs now = sidecar_.clock.latest();
    for (const Submission& submission : batch) call.tasks.push_back(submission.begun(*sidecar_.rules, now));
    call.done = [done](const Item& item, const Result<std::vector<Inserted>>& answers) {
      if (!answers) return done(tl::unexpected(answers.error()));
      std::vector<Submitted> submitted;
      for (std::size_t i = 0; i < answers->size(); ++i)
        submitted.push_back({(*answers)[i], item.tasks[i].task});
      done(std::move(submitted));
    };
    add(std::move(call));
    flush();
  });
}

void Inserts::change(std::vector<Event> events, ChangeDone done) {
  struct Pending {
    std::vector<Decision> decisions;
    std::size_t missing = 0;
    std::optional<Error> error;
    ChangeDone done;
  };
  auto answers = std::make_shared<Pending>();
  answers->decisions.resize(events.size());
  answers->missing = events.size();
  answers->done = std::move(done);
  sidecar_.loop.post([this, answers, events = std::move(events)]() mutable {
    if (draining_) return answers->done(tl::unexpected(shutting_down()));
    if (events.empty()) return answers->done(std::vector<Decision>{});
    for (std::size_t i = 0; i < events.size(); ++i) {
      sidecar_.transitions.add(std::move(events[i]), [i, answers](const Result<Decision>& decision) {
        if (decision) {
          answers->decisions[i] = *decision;
        } else {
          answers->error = decision.error();
        }
        if (--answers->missing > 0) return;
        if (answers->error) return answers->done(tl::unexpected(*answers->error));
        answers->done(std::move(answers->decisions));
      });
    }
    sidecar_.transitions.flush();
  });
}

}  // namespace rung::bridge
