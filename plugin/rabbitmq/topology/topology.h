// What Rung declares in RabbitMQ: durable exchanges, each with a durable queue of the same name bound to it,
// and the exchange <prefix>.return (return_route.h). The topology is data, and one comparison of what is
// wanted with what is there declares it, for the sidecar and for `rung attach`. Thread: the caller's, on its
// connection.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/calls.h"

namespace rung::rabbit {

struct Declared {
  std::string name;            // of the exchange (fanout) and of its queue
  std::optional<Inlet> inlet;  // what is consumed from it; none = nothing
};
std::vector<Declared> topology(const BrokerOptions& options);

// The types that Rung's own queues have, as far as known, if broker.queue_type is auto: found out by
// declaring them, which the broker refuses, and logs, for another type. So it is asked once. Thread: any.
class OwnQueueTypes {
 public:
  // The type to declare the queue with: its own, else that of new queues: broker.queue_type, or for auto
  // quorum on a cluster and classic on a single node. The first call for auto asks the management API, which
  // may block for some seconds. If that does not tell the nodes: classic before RabbitMQ 4, and quorum since.
  std::string of(const std::string& queue, const BrokerOptions& options, int major_version);
  void found(const std::string& queue, std::string type);

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> types_;  // by queue; "" = of new queues; guarded by mutex_
};

enum class Pass : std::uint8_t {
  // Before anything is consumed. What is refused ends the pass, but for <prefix>.return, without which
  // retries only lose their routing key, and for a queue that exists with other arguments: it is used as it
  // is. A classic queue of ours that is empty and unused becomes a quorum queue, if broker.queue_type says
  // so.
  start,
  // On the channel that consumes, which a refusal would close: it ends the pass. Without <prefix>.return.
  consuming,
  // Each exchange and queue is looked at first (a passive declare, which needs no right), so that the report
  // says what was missing. What is refused is reported, too.
  check,
};

// Declares what is missing, and binds all. Except with Pass::consuming it may close and reopen the channel.
// Kind::refused: it exists with other arguments, or we lack the right. Other errors: the connection has
// ended.
Result<TopologyReport> declare_topology(const BrokerOptions& options, OwnQueueTypes& types,
                                        const Calls& calls, Pass pass);

}  // namespace rung::rabbit
