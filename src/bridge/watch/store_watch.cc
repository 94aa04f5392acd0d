#include "src/bridge/watch/store_watch.h"

#include <utility>

#include "src/bridge/base/flow_counts.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kNoticeStands{std::chrono::minutes{10}};  // how long a notice stays a problem, for people to see

}  // namespace

StoreWatch::StoreWatch(const Sidecar& sidecar)
    : sidecar_(sidecar),
      clock_calm_(sidecar.loop, [this] { sidecar_.health.clear("clock"); }),
      restored_calm_(sidecar.loop, [this] { sidecar_.health.clear("restored"); }),
      behind_calm_(sidecar.loop, [this] { sidecar_.health.clear("behind"); }) {}

void StoreWatch::changed(const StoreJobs::Status& status) {
  if (!status.away) {
    refusal_.clear();
    if (!std::exchange(away_, false)) return;
    log::info("database available again",
              {{"away_ms", (sidecar_.loop.clock().boot() - away_since_).count()}});
    return sidecar_.health.clear("database");
  }
  refusal_ = status.refused ? status.reason : "";
  const bool first = !std::exchange(away_, true);
  if (first) away_since_ = sidecar_.loop.clock().boot();
  if (status.refused) {
    log::warn("database refuses this instance: intake waits, nothing is acked", {{"reason", status.reason}});
  } else {
    log::warn(first ? "database unavailable: intake waits, nothing is acked" : "database still unavailable",
              {{"reason", status.reason}});
  }
  sidecar_.health.set("database", status.reason, Health::Effect::not_ready);
}

void StoreWatch::noticed(const Shards::Notice& notice) {
  const bool restored = notice.kind == Shards::Notice::Kind::restored;
  if (restored)
    log::error("the database went back in time, as by a restored backup: registered anew",
               {{"detail", notice.detail}});
  else
    log::warn("the database's clock stepped", {{"detail", notice.detail}});
  sidecar_.health.set(restored ? "restored" : "clock", notice.detail);
  (restored ? restored_calm_ : clock_calm_).start(kNoticeStands);
  sidecar_.record(restored ? "database_restored" : "clock_step", sidecar_.settings.identity.name,
                  notice.detail);
}

void StoreWatch::behind(TaskId id, const std::string& how) {
  ++sidecar_.counts.totals.rows_behind;
  log::warn("row is older than its delivery: updated to that attempt", {{"id", id.value}, {"how", how}});
  const std::string detail =
      "the database lacks commits that it had confirmed (a replica was promoted without them, or a node "
      "lags); latest case: retry-id " +
      id.str() + ", " + how;
  if (!sidecar_.health.has("behind")) sidecar_.record("rows_behind", sidecar_.settings.identity.name, detail);
  sidecar_.health.set("behind", detail);
  behind_calm_.start(kNoticeStands);
}

StoreThreads::StoreThreads(io::Loop& loop, StoreFactory factory, int flow_threads, OnStatus on_status,
                           Ms idle)
    : loop_(loop),
      factory_(std::move(factory)),
      on_status_(std::move(on_status)),
      idle_(idle),
      answered_ms_(loop.clock().boot().ms),
      served_ms_(loop.clock().boot().ms) {
  constexpr std::array kAlone{Lane::leases, Lane::gates,  Lane::gate_writes,
                              Lane::sweeps, Lane::upkeep, Lane::retention};
  running_ = flow_threads + static_cast<int>(kAlone.size());
  for (const Lane lane : kAlone) threads_.emplace_back([this, lane] { run(lane); });
  for (int i = 0; i < flow_threads; ++i) threads_.emplace_back([this] { run(Lane::flow); });
}

StoreThreads::~StoreThreads() {
  stop();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void StoreThreads::enqueue(Lane lane, Job job) {
  Queue& queue = queue_of(lane);
  {
    const std::lock_guard lock(mutex_);
    if (queue.jobs.size() < most_waiting(lane)) {
      queue.jobs.push_back(std::move(job));
      queue.ready.notify_one();
      return;
    }
  }
  job.give_up({Error::Kind::refused, "too many jobs wait for the database"});
  loop_.post(std::move(job.deliver));
}

void StoreThreads::run(Lane lane) {
  Queue& queue = queue_of(lane);
  std::unique_ptr<Store> store;
  Backoff backoff{kFirstPause, kLongestPause};
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      const auto work = [&] { return stopping_ || !queue.jobs.empty(); };
      if (store && !queue.ready.wait_for(lock, idle_, work)) {
        lock.unlock();
        store.reset();
        continue;
      }
      queue.ready.wait(lock, work);
      if (queue.jobs.empty()) break;
      job = std::move(queue.jobs.front());
      queue.jobs.pop_front();
    }
    backoff.reset();
    perform(lane, job, store, backoff);
    loop_.post(std::move(job.deliver));
  }
  store.reset();
  const std::lock_guard lock(mutex_);
  --running_;
  stopped_.notify_all();
}

std::optional<Error> StoreThreads::attempt_once(Job& job, std::unique_ptr<Store>& store) {
  try {
    if (!store) store = factory_();
  } catch (const StoreError& e) {
    return e.error;
  }
  return job.attempt(*store);
}

void StoreThreads::perform(Lane lane, Job& job, std::unique_ptr<Store>& store, Backoff& backoff) {
  bool away = false;
  bool of_an_earlier_job = store != nullptr;
  for (;;) {
    auto error = attempt_once(job, store);
    // A refused login is retried too: somebody may be changing the password right now.
    if (error && !store && !error->is_transient()) error->kind = Error::Kind::refused;
    if (!error || error->kind != Error::Kind::transient) answered_ms_ = loop_.clock().boot().ms;
    if (!error || !error->is_transient()) served_ms_ = answered_ms_.load();
    const bool given_up = error && store && error->kind == Error::Kind::refused && sees_refusals(lane);
    // A session keeps the rights on the schema that it had when it was opened: some may have been granted
    // since.
    if (given_up && std::exchange(of_an_earlier_job, false)) {
      store.reset();
      continue;
    }
    if (!error || !error->is_transient() || given_up) {
      if (away) tell(away, nullptr);
      if (error) job.give_up(*error);
      return;
    }
    store.reset();
    tell(away, &*error);
    if (!pause(backoff.next())) {
      job.give_up({Error::Kind::transient, "stopping: " + error->message});
      return;
    }
  }
}

void StoreThreads::tell(bool& away, const Error* error) {
  const std::lock_guard lock(mutex_);
  const auto status = error != nullptr ? outage_.waits(away, *error) : outage_.goes_on(away);
  if (status) loop_.post([this, status = *status] { on_status_(status); });
}

bool StoreThreads::pause(Ms length) {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, length, [&] { return stopping_; });
}

void StoreThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (Queue& queue : queues_) queue.ready.notify_all();
  stopped_.notify_all();
}

bool StoreThreads::join(Ms most) {
  std::unique_lock lock(mutex_);
  return stopped_.wait_for(lock, most, [&] { return running_ == 0; });
}

}  // namespace rung::bridge
