// Two sidecars with a small prefetch, continuous traffic, and the /readyz answers of each.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/sidecar.h"

namespace rung::test {

// Publishes failed messages at about 60 a second, each confirmed by the broker, until it is destroyed.
class Traffic {
 public:
  Traffic(std::string failed, std::string queue);
  ~Traffic() { stop(); }
  void stop();
  std::size_t count() const { return count_; }  // confirmed by the broker

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> count_{0};
  std::thread thread_;
};

class TroubleTest : public SidecarTest {
 protected:
  static constexpr int kPrefetch = 50;

  TroubleTest();
  ~TroubleTest() override;

  // Starts both, waits until they share the shards, and begins the traffic.
  void begin();
  HttpAnswer ready(int port);
  bool both_ready();
  // Whether both answer 503 with the problem `name`.
  bool both_tell(const std::string& name);
  static bool has_problem(const HttpAnswer& answer, const std::string& name);
  // Ends the traffic and checks that each message became one task, delivered once, as attempt 1.
  void all_arrived();
  void all_delivered_once(std::size_t count);
  // A database user with all rights on the schema; from then on the sidecars log in as that user.
  std::string own_user();
  // Ends the connections of that user: the server checks rights on a schema when a connection begins.
  void end_connections(const std::string& user);

  std::string queue;
  int ports[2];
  std::unique_ptr<Sidecar> second;
  std::unique_ptr<Traffic> traffic;
  std::string user;
};

}  // namespace rung::test
