// The fixture of the tests with several instances: numbered sidecars, the owners of the shards, and a
// continuous load.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/failing_consumer.h"
#include "tests/support/sidecar.h"

namespace rung::test {

class InstancesTest : public SidecarTest {
 protected:
  static constexpr int kLevels = 3;

  InstancesTest();
  ~InstancesTest() override;

  // Starts node "n-<i>" without waiting for it. `broker_url`: another URL of the broker; set at the
  // first start.
  Sidecar& start_node(int i, const std::string& broker_url = "");
  void start_nodes(const std::vector<int>& nodes);  // all at once; waits until they consume
  Sidecar& node(int i) { return *nodes_.at(i); }

  std::map<std::string, int> held();  // shards by node, counting only valid leases; "" = no owner
  // Whether each of `nodes` holds its fair share, and no other node holds a shard.
  bool balanced(const std::vector<int>& nodes);
  void until_balanced(const std::vector<int>& nodes);  // waits until they do
  int live();                                          // nodes
  std::map<std::string, std::int64_t> delivered();     // by node: confirmed attempts in the history
  std::int64_t number(const std::string& sql);

  // Publishes failed messages continuously, until the end of the test or stop_load(), which returns their
  // number.
  void start_load(std::size_t per_second);
  std::size_t stop_load();

  // Checks that each of `count` messages climbed its ladder and is parked: one row each, each attempt once in
  // the history and delivered at least once. Returns the number of repeated deliveries.
  std::size_t all_ended(std::size_t count);

  std::string queue;
  std::unique_ptr<FailingConsumer> consumer;

 private:
  std::map<int, std::unique_ptr<Sidecar>> nodes_;
  std::atomic<bool> stop_{false};
  std::size_t loaded_ = 0;
  std::thread load_;
};

}  // namespace rung::test
