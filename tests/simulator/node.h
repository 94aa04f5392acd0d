// A simulated sidecar: a node name, under which one process runs after another. Thread: one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/bridge/bridge.h"
#include "tests/simulator/broker_server.h"
#include "tests/simulator/faulty_store.h"
#include "tests/simulator/sim_broker.h"
#include "tests/simulator/sim_jobs.h"
#include "tests/simulator/sim_loop.h"

namespace rung::sim {

class Node {
 public:
  Node(World& world, BrokerServer& server, Watcher& watcher, std::string name, int number);
  ~Node();

  // Starts a process, if none runs. What the previous process has in transit still arrives.
  void start();
  // Ends the process at once. `half_open`: the broker does not notice, as when a machine dies.
  void kill(bool half_open);
  // After `steps` more commits, writes or arrivals of this process; 0: never.
  void after_steps(int steps, std::function<void()> what);
  void pause(Us length);
  // Drains and ends the process, by force after a timeout, as after SIGTERM. Calls `ended` when it has ended.
  void drain(std::function<void()> ended);

  bool alive() const { return life_ != nullptr; }
  bool serves() const { return life_ && !life_->process->paused && !draining_; }
  bridge::Bridge& bridge() { return *life_->bridge; }
  SimBroker& broker() { return *life_->broker; }
  const ProcessPtr& process() const { return life_->process; }
  const std::string& name() const { return name_; }
  DbTrouble& trouble() { return trouble_; }
  std::size_t loaded() const { return life_->bridge->vitals().loaded; }
  std::size_t unconfirmed() const { return life_->broker->unconfirmed(); }
  std::string state() const;  // for a story

 private:
  struct Life {
    Life(Node& node, Us offset);
    ProcessPtr process = std::make_shared<Process>();
    NodeClock clock;
    SimLoop loop;
    std::unique_ptr<SimBroker> broker;
    SimJobs* jobs = nullptr;  // the bridge's
    std::unique_ptr<bridge::Bridge> bridge;
    bool looking = false, look_again = false;  // at what is attached
  };
  void watch_attachments();
  void look_at_attachments();
  void step();
  bridge::BridgeSettings settings_of_bridge();

  World& world_;
  BrokerServer& server_;
  Watcher& watcher_;
  const std::string name_;
  Rng dice_;
  DbTrouble trouble_;
  std::unique_ptr<Life> life_;
  int steps_left_ = 0;
  std::function<void()> then_;
  bool draining_ = false;
};

}  // namespace rung::sim
