// The fixture of the outage tests: private servers of this binary, a proxy in front of each, a consumer that
// fails its messages on its own thread, and database queries that survive the server's death.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {

// `tests/servers COMMAND DIR` for the servers of this binary, e.g. "kill-broker". Throws if it fails.
void own_servers(const std::string& command);
std::string own_rabbitmqctl();

// Takes from a queue and fails everything; records each delivery. Reconnects when the broker is back.
class FailingConsumer {
 public:
  enum class How {
    reject,   // dead-lettered by the broker
    publish,  // to <prefix>.failed with a confirm, then acked: outlives a kill -9 of the broker
    ack,      // acks it and reports nothing
  };
  struct Seen {
    std::string body, id;
    std::int64_t attempt = 0;  // 0 = the first delivery, not by Rung
    std::int64_t at = 0;       // wall ms
  };
  FailingConsumer(std::string queue, std::string failed, How how);
  ~FailingConsumer();
  FailingConsumer(const FailingConsumer&) = delete;
  FailingConsumer& operator=(const FailingConsumer&) = delete;

  std::vector<Seen> seen() const;
  std::size_t count() const { return count_; }  // deliveries by Rung

 private:
  void run();
  void serve();

  const std::string queue_, failed_;
  const How how_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;
  std::vector<Seen> seen_;  // guarded by mutex_
  std::thread thread_;
};

class OutageTest : public SidecarTest {
 protected:
  static constexpr int kLevels = 3;

  // Leases, heartbeats and time-outs are longer than any test: on a busy machine none runs out by itself.
  OutageTest();
  ~OutageTest() override;
  // For an outage without an error: they are as short as they can be. Call it before start().
  void notices_silence();
  void start_unready();  // starts the sidecar without waiting for it
  // Publishes `count` failed messages for `queue`, confirmed, to <prefix>.failed with retry-queue.
  void publish_failed(const std::string& queue, std::size_t count, const std::string& name = "m");

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
