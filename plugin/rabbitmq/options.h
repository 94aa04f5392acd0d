// What of the broker's options has a meaning for RabbitMQ alone. Keys of the config: broker.NAME. Thread: a
// value.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/core/time.h"

namespace rung::rabbit {

struct Options {
  std::string queue_type = "classic";  // or quorum: of the queues that Rung declares
  // Exchanges declared beside <prefix>.delay, whose messages go there: delays.*.from of the config.
  std::vector<std::string> delay_exchanges;
  Ms topology_check{std::chrono::seconds{30}};  // how often the topology is checked and repaired
  std::string management;  // URL of the management API; "" = tried at the broker's hosts, port 15672
};

}  // namespace rung::rabbit
