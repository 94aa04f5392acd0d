// The fixture of the outage tests: private servers of this binary, a proxy in front of each, and database
// queries that survive the server's death.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/failing_consumer.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {

// `tests/servers COMMAND DIR` for the servers of this binary, e.g. "kill-broker". Throws if it fails.
void own_servers(const std::string& command);
std::string own_rabbitmqctl();

class OutageTest : public SidecarTest {
 protected:
  static constexpr int kLevels = 3;

  // Leases, heartbeats and time-outs are longer than any test: on a busy machine none runs out by itself.
  OutageTest();
  ~OutageTest() override;
  // For an outage without an error: they are as short as they can be. Call it before start().
  void notices_silence();
  void start_unready();  // starts the sidecar without waiting for it

  // Queries one number; -1 if the database or the schema does not exist. "{}" stands for the schema.
  std::int64_t number(const std::string& sql);
  std::vector<std::vector<std::string>> look(std::string sql);
  std::int64_t in_state(const std::string& queue, const std::string& state);
  bool until_in_state(const std::string& queue, const std::string& state, std::size_t count,
                      Ms within = kBound);
  int times(const std::string& text);  // number of its occurrences in the log
  // Waits until the sidecar has tried so often to reach a server that a single log line is not luck.
  void some_tries(const TcpProxy& proxy);
  // Waits until no lease holds, as the database says.
  void leases_run_out();

  // Checks that every message of `queue` climbed the whole ladder and is parked: one row each, attempts 1 to
  // kLevels each once in the history and delivered at least once, repeats with the same attempt number, never
  // early. Returns the number of repeated deliveries.
  std::size_t all_ended(const std::string& queue, const FailingConsumer& consumer, std::size_t count);

  TcpProxy rabbit, mysql;

 private:
  std::unique_ptr<MysqlSchema> eyes_;
};

}  // namespace rung::test
