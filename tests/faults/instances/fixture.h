// What the tests of several instances share: sidecars by number, who holds what, a consumer that fails
// everything from a thread of its own, and a load that does not end by itself.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sidecar.h"

namespace rung::test {

// Takes from a queue and rejects everything; each delivery by Rung is noted.
class Climber {
 public:
  explicit Climber(std::string queue);
  ~Climber();
  Climber(const Climber&) = delete;
  Climber& operator=(const Climber&) = delete;

  std::size_t count() const { return count_; }
  // By body, then attempt: how often it came.
  std::map<std::string, std::map<std::int64_t, int>> seen() const;

 private:
  void run();

  const std::string queue_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::int64_t, int>> seen_;  // guarded by mutex_
  std::thread thread_;
};

class InstancesTest : public SidecarTest {
 protected:
  static constexpr Ms kLease{3000};
  static constexpr int kLevels = 3;

  InstancesTest();
  ~InstancesTest() override;

  // Node "n-<i>", started and not waited for. `broker_url`: another way to the broker, the first time.
  Sidecar& start_node(int i, const std::string& broker_url = "");
  void start_nodes(const std::vector<int>& nodes);  // all at once, until they take in
  Sidecar& node(int i) { return *nodes_.at(i); }

  std::map<std::string, int> held();  // by node, only by leases that are in force; "" = by nobody
  // The fair share each of `nodes`, and nobody else anything.
  bool balanced(const std::vector<int>& nodes);
  // How long it takes until they are; a failure of the test where it takes longer than `within`.
  Ms until_balanced(const std::vector<int>& nodes, Ms within);
  int live();                                       // nodes
  std::map<std::string, std::int64_t> delivered();  // by node: attempts in the history that were confirmed
  std::int64_t number(const std::string& sql);

  // `count` failed messages for `queue`, confirmed, with message-ids.
  void publish_failed(std::size_t count, const std::string& name, std::size_t body_bytes = 0);
  // Publishes such all the time, until the end of the test or stop_load(): how many there were.
  void start_load(std::size_t per_second);
  std::size_t stop_load();

  // Each of `count` messages climbed its ladder and is parked: one row each, each attempt once in the history
  // and at least once with the consumer. How many deliveries were repeats.
  std::size_t all_ended(std::size_t count);

  std::string queue;
  std::unique_ptr<Climber> consumer;

 private:
  std::map<int, std::unique_ptr<Sidecar>> nodes_;
  std::atomic<bool> stop_{false};
  std::size_t loaded_ = 0;
  std::thread load_;
};

}  // namespace rung::test
