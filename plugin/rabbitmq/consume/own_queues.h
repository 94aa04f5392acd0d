// The queues <prefix>.failed, .results and .delay, as a Consumer consumes them. Declares the topology. The
// consumer tag is the queue's name. Thread: the consumer's.
#pragma once

#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/consume/consumer.h"
#include "plugin/rabbitmq/topology/topology.h"

namespace rung::rabbit {

class OwnQueues final : public ConsumedQueues {
 public:
  // REQUIRES: all outlive it.
  OwnQueues(const BrokerOptions& options, OwnQueueTypes& types, BrokerSink& sink);

  Result<void> declare(const Calls& calls) override { return declare(calls, Pass::start); }
  // The queues are still to be reported: RabbitMQ 4.3 ends the connection if a quorum queue is declared and
  // bound again before its deletion has come to its end.
  void begin_channel() override { cancelled_.due = false; }
  Result<void> consume(const Calls& calls) override;
  Result<void> cancel(const Calls& calls) override;
  void send_cancel(Connection& connection) override;
  bool must_change(bool) const override { return cancelled_.due; }
  Result<Changed> change(const Calls& calls, bool consuming) override;
  void cancelled(std::string_view consumer_tag) override;
  Origin origin(std::string_view consumer_tag) const override;

 private:
  Result<void> declare(const Calls& calls, Pass pass);

  const BrokerOptions& options_;
  OwnQueueTypes& types_;
  BrokerSink& sink_;
  std::vector<Declared> inlets_;  // those that are consumed
  // The broker has cancelled consumers, because their queues were deleted or a consumer timed out: declare
  // and consume again.
  struct Cancelled {
    bool due = false;
    std::vector<std::string> queues;  // for the report
  } cancelled_;
};

}  // namespace rung::rabbit
