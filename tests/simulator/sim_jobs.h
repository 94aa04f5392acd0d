// A node's store jobs: the lanes and their rules as in src/bridge/watch/store_threads, in virtual time.
// Thread: one.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/bridge/base/store_jobs.h"
#include "tests/simulator/faulty_store.h"
#include "tests/simulator/sim_loop.h"

namespace rung::sim {

class SimJobs final : public bridge::StoreJobs {
 public:
  struct Deps {
    World& world;
    ProcessPtr process;
    io::Loop& loop;
    const DbTrouble& trouble;
    Watcher& watcher;
    Rng dice;
    std::function<void()> step;
  };
  SimJobs(Deps deps, OnStatus on_status);
  ~SimJobs() override { kill(); }

  BootMs answered() const override { return answered_; }
  void stop() override { stopping_ = true; }
  bool join(Ms /*most*/) override;
  // The process has died: jobs in the database may or may not take effect, and nobody gets their answers.
  void kill();
  // The numbers of jobs under way and waiting.
  std::string state() const;

 private:
  struct Worker {
    bridge::Lane lane = bridge::Lane::flow;
    std::shared_ptr<Job> job;  // nullptr: free
    std::shared_ptr<Attempt> attempt;
    std::shared_ptr<FaultyStore> connection;  // lost with each transient error
    bool away = false;
    Ms pause{0};
  };

  void enqueue(bridge::Lane lane, Job job) override;
  void pump(bridge::Lane lane);
  void attempt(Worker& worker);
  void ended(Worker& worker, const std::optional<Error>& error);
  void end(Worker& worker);
  void tell(const std::optional<Status>& status);
  static void abandon(Worker& worker);

  Deps deps_;
  const OnStatus on_status_;
  std::array<Worker, bridge::kLanes + 1> workers_;  // two for the flow
  std::array<std::deque<Job>, bridge::kLanes> queues_;
  BootMs answered_;
  bridge::StoreOutage outage_;
  bool stopping_ = false;
};

}  // namespace rung::sim
