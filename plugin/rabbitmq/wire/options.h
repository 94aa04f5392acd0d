// Broker options that apply to RabbitMQ only. Config keys: broker.NAME. Thread: a value.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/core/base/time.h"

namespace rung::rabbit {

struct Options {
  // Of the queues that Rung declares: classic, quorum, or auto: what the broker's version suggests
  // (topology.h). A queue of either type stays as it is.
  std::string queue_type = "auto";
  // Exchanges declared in addition to <prefix>.delay, to which their messages go: delays.*.from of the
  // config.
  std::vector<std::string> delay_exchanges;
  Ms topology_check{std::chrono::seconds{30}};  // how often the topology is checked and repaired
  std::string management;  // URL of the management API; "" = try port 15672 of the broker's hosts
};

}  // namespace rung::rabbit
