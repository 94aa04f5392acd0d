#include "src/bridge/changes/submissions.h"

#include <algorithm>
#include <utility>

#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/shards.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostRows = 1000;  // per transaction; a call is not split
constexpr Ms kCallTimeout{5000};         // how long a call waits for a lease or a slot
constexpr Ms kLookAgain{500};

Error not_now(const char* why) { return {Error::Kind::transient, why}; }

std::size_t bytes_of(const std::vector<Submission>& batch) {
  std::size_t bytes = 0;
  for (const Submission& submission : batch) bytes += submission.task.message->body.size();
  return bytes;
}

}  // namespace

Submissions::Submissions(const Sidecar& sidecar)
    : sidecar_(sidecar), expiry_timer_(sidecar.loop, [this] {
        give_up_old();
        flush();
      }) {}

void Submissions::submit(std::vector<Submission> batch, SubmitDone done) {
  auto call = std::make_shared<Call>(Call{std::move(batch), std::move(done), sidecar_.clock.here().boot()});
  sidecar_.loop.post([this, call] { add(std::move(*call)); });
}

void Submissions::add(Call call) {
  if (draining_) return call.done(tl::unexpected(not_now("this instance is shutting down")));
  if (call.batch.empty()) return call.done(std::vector<Submitted>{});
  waiting_.push_back(std::move(call));
  flush();
}

void Submissions::change(std::vector<Event> events, ChangeDone done) {
  struct Answers {
    std::vector<Decision> decisions;
    std::size_t missing = 0;
    std::optional<Error> error;
    ChangeDone done;
  };
  auto answers = std::make_shared<Answers>();
  answers->decisions.resize(events.size());
  answers->missing = events.size();
  answers->done = std::move(done);
  sidecar_.loop.post([this, answers, events = std::move(events)]() mutable {
    if (draining_) return answers->done(tl::unexpected(not_now("this instance is shutting down")));
    if (events.empty()) return answers->done(std::vector<Decision>{});
    for (std::size_t i = 0; i < events.size(); ++i) {
      sidecar_.transitions.add(std::move(events[i]), [this, i, answers](const Result<Decision>& decision) {
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

void Submissions::flush() {
  while (!draining_ && !waiting_.empty() && in_flight_ < kMostInFlight) {
    const int shard = sidecar_.shards.home();
    if (shard < 0) break;  // called again when a lease is taken
    auto batch = std::make_shared<Batch>();
    std::size_t rows = 0, bytes = 0;
    while (!waiting_.empty()) {
      Call& next = waiting_.front();
      rows += next.batch.size();
      bytes += bytes_of(next.batch);
      const bool alone = next.alone || rows > kMostRows || bytes > kBytesInBatch;
      if (!batch->calls.empty() && (alone || batch->calls.back().alone)) break;
      batch->calls.push_back(std::move(next));
      waiting_.pop_front();
    }
    insert(batch, shard);
  }
  wait();
}

void Submissions::wait() {
  if (waiting_.empty()) {
    expiry_timer_.stop();
  } else if (!expiry_timer_.active()) {
    expiry_timer_.start(kLookAgain, kLookAgain);
  }
}

NewTask Submissions::make_task(Submission& submission, int shard) {
  // A lag of our reading of the database's clock never cuts a delay short.
  const EpochMs now = sidecar_.clock.latest();
  NewTask made = submission.task;
  Task& task = made.task;
  task.id = sidecar_.shards.new_id(now);
  task.shard = shard;
  task.node = sidecar_.shards.node();
  task.created_at = now;
  const EpochMs due = submission.at ? *submission.at : now + submission.delay;
  task.rule_headers = rule_headers_of(*made.message, *sidecar_.rules);
  begin_delay(task, submission.directives, *sidecar_.rules, now, due);
  return made;
}

void Submissions::insert(const std::shared_ptr<Batch>& batch, int shard) {
  for (Call& call : batch->calls) {
    for (Submission& submission : call.batch) batch->tasks.push_back(make_task(submission, shard));
  }
  ++in_flight_;
  sidecar_.jobs.submit<std::vector<Inserted>>(
      Lane::flow,
      [batch, fence = sidecar_.shards.fence()](Store& store) { return store.insert(batch->tasks, fence); },
      [this, batch](const Result<std::vector<Inserted>>& result) {
        --in_flight_;
        inserted(*batch, result);
        flush();
      });
}

void Submissions::inserted(Batch& batch, const Result<std::vector<Inserted>>& result) {
  if (!result) {
    // The database refuses one of the calls: each alone, so that it does not fail the others.
    const bool apart = !result.error().is_transient() && batch.calls.size() > 1;
    for (Call& call : batch.calls) {
      if (!apart) {
        call.done(tl::unexpected(result.error()));
      } else {
        call.alone = true;
        wait_again(std::move(call));
      }
    }
    return;
  }
  std::size_t at = 0;
  for (Call& call : batch.calls) {
    std::vector<Submitted> answers;
    int lost = 0;
    for (std::size_t i = 0; i < call.batch.size(); ++i, ++at) {
      const Inserted& answer = (*result)[at];
      lost += answer.how == Inserted::How::not_held ? 1 : 0;
      if (answer.how == Inserted::How::inserted) sidecar_.transitions.inserted(batch.tasks[at]);
      answers.push_back({answer, batch.tasks[at].task});
    }
    if (lost > 0) {
      sidecar_.shards.refused();
      wait_again(std::move(call));  // one shard for the whole call: none of it was written
    } else {
      call.done(std::move(answers));
    }
  }
}

void Submissions::wait_again(Call call) {
  if (draining_) return call.done(tl::unexpected(not_now("this instance is shutting down")));
  waiting_.push_back(std::move(call));
}

void Submissions::give_up_old() {
  const BootMs now = sidecar_.clock.here().boot();
  while (!waiting_.empty() && now - waiting_.front().since > kCallTimeout) {
    const Call call = std::move(waiting_.front());
    waiting_.pop_front();
    call.done(tl::unexpected(
        not_now("nothing could be written in time: the database is unavailable, or no shard is held")));
  }
}

void Submissions::drain() {
  draining_ = true;
  expiry_timer_.stop();
  for (const Call& call : std::exchange(waiting_, {}))
    call.done(tl::unexpected(not_now("this instance is shutting down")));
}

}  // namespace rung::bridge
