#include "tests/simulator/sim_jobs.h"

#include <algorithm>
#include <utility>

namespace rung::sim {
namespace {

using bridge::Lane;

std::size_t place(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

SimJobs::SimJobs(Deps deps, OnStatus on_status)
    : deps_(std::move(deps)), on_status_(std::move(on_status)), answered_(deps_.loop.clock().boot()) {
  workers_[0].lane = Lane::leases;
  workers_[1].lane = Lane::upkeep;
  workers_[2].lane = Lane::gates;
  workers_[3].lane = Lane::sweeps;
  workers_[4].lane = Lane::gate_writes;
  workers_[5].lane = Lane::retention;
}

void SimJobs::enqueue(Lane lane, Job job) {
  queues_[place(lane)].push_back(std::move(job));
  pump(lane);
}

void SimJobs::pump(Lane lane) {
  auto& queue = queues_[place(lane)];
  for (Worker& worker : workers_) {
    if (worker.lane != lane || worker.job || queue.empty()) continue;
    worker.job = std::make_shared<Job>(std::move(queue.front()));
    queue.pop_front();
    worker.pause = kFirstPause;
    attempt(worker);
  }
}

void SimJobs::attempt(Worker& worker) {
  auto attempt = std::make_shared<Attempt>();
  auto error = std::make_shared<std::optional<Error>>();
  if (!worker.connection)
    worker.connection = std::make_shared<FaultyStore>(FaultyStore::Deps{
        deps_.world, deps_.process, deps_.trouble, deps_.watcher, deps_.dice,
        [this, &worker](const std::shared_ptr<Attempt>& late) {
          if (late != worker.attempt) return;
          abandon(worker);
          ended(worker, Error{Error::Kind::transient, "the database did not answer in time"});
        },
        deps_.step});
  const std::shared_ptr<FaultyStore> store = worker.connection;
  store->serve(attempt);
  attempt->fiber =
      std::make_unique<Fiber>([job = worker.job, store, error] { *error = job->attempt(*store); });
  attempt->ended = [this, &worker, error] { ended(worker, *error); };
  worker.attempt = attempt;
  deps_.world.events.after(deps_.dice.between(5, 60), deps_.process, [attempt] {
    if (!attempt->abandoned) attempt->go();
  });
}

void SimJobs::ended(Worker& worker, const std::optional<Error>& error) {
  // Not at once: this may be called within the attempt's own last step.
  deps_.world.events.after(0, deps_.process, [this, &worker, error] {
    worker.attempt.reset();
    if (error && error->is_transient()) worker.connection.reset();
    if (!error || error->kind != Error::Kind::transient) answered_ = deps_.loop.clock().boot();
    const bool given_up = error && error->kind == Error::Kind::refused && sees_refusals(worker.lane);
    if (!error || !error->is_transient() || given_up) {
      tell(outage_.goes_on(worker.away));
      if (error) worker.job->give_up(*error);
      return end(worker);
    }
    tell(outage_.waits(worker.away, *error));
    if (stopping_) {
      worker.job->give_up({Error::Kind::transient, "stopping: " + error->message});
      return end(worker);
    }
    const std::int64_t pause = worker.pause.count();
    worker.pause = std::min(worker.pause * 2, kLongestPause);
    deps_.world.events.after(deps_.dice.between(pause / 2, pause) * kMs, deps_.process,
                             [this, &worker] { attempt(worker); });
  });
}

void SimJobs::end(Worker& worker) {
  const auto job = std::move(worker.job);
  worker.job.reset();
  deps_.loop.post([job] { job->deliver(); });
  pump(worker.lane);
}

void SimJobs::tell(const std::optional<Status>& status) {
  if (status) deps_.loop.post([this, status = *status] { on_status_(status); });
}

// Calls that reached the server may still take effect; waiting for their answers ends now.
void SimJobs::abandon(Worker& worker) {
  const auto attempt = std::exchange(worker.attempt, nullptr);
  if (!attempt || attempt->abandoned) return;
  attempt->abandoned = true;
  worker.connection.reset();
  if (!attempt->in_server) attempt->fiber->cancel();
}

void SimJobs::kill() {
  for (Worker& worker : workers_) abandon(worker);
}

std::string SimJobs::state() const {
  const auto busy = std::ranges::count_if(workers_, [](const Worker& w) { return w.job != nullptr; });
  std::size_t waiting = 0;
  for (const auto& queue : queues_) waiting += queue.size();
  return std::to_string(busy) + " jobs under way, " + std::to_string(waiting) + " wait";
}

bool SimJobs::join(Ms /*most*/) {
  return std::ranges::none_of(workers_, [](const Worker& worker) { return worker.job != nullptr; });
}

}  // namespace rung::sim
