#include "plugin/rabbitmq/rabbit_broker.h"

#include <mutex>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/broker_endpoints.h"
#include "plugin/rabbitmq/consumer.h"
#include "plugin/rabbitmq/error_queue_watch.h"
#include "plugin/rabbitmq/publishers.h"
#include "plugin/rabbitmq/return_route.h"
#include "plugin/rabbitmq/sink_adapter.h"
#include "plugin/rabbitmq/topology_keeper.h"

namespace rung {
namespace {

// The connections, created when the broker starts.
struct Connections {
  Connections(const BrokerOptions& options, rabbit::BrokerEndpoints at, BrokerSink& to)
      : endpoints(std::move(at)),
        sink(to),
        consumer({options, *endpoints.addresses, endpoints.tls, sink}),
        publishers(options, endpoints, sink),
        topology({options, *endpoints.addresses, endpoints.tls, sink}),
        errors({options, *endpoints.addresses, endpoints.tls, sink}, consumer.error_queues(),
               [this] { consumer.wake(); }) {}

  rabbit::BrokerEndpoints endpoints;
  rabbit::SinkAdapter sink;
  rabbit::Consumer consumer;
  rabbit::Publishers publishers;
  rabbit::TopologyKeeper topology;
  rabbit::ErrorQueueWatch errors;
};

class RabbitBroker final : public Broker {
 public:
  RabbitBroker(BrokerOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  ~RabbitBroker() override { stop(Ms{0}); }

  Result<void> start(BrokerSink& sink) override {
    const std::lock_guard lock(mutex_);
    if (connections_) return permanent("the broker was started before");
    auto endpoints = rabbit::make_endpoints(options_, clock_);
    if (!endpoints) return tl::unexpected(endpoints.error());
    if (options_.rabbitmq.queue_type != "classic" && options_.rabbitmq.queue_type != "quorum") {
      return permanent("broker.queue_type: \"" + options_.rabbitmq.queue_type +
                       "\" is not one of: classic, quorum");
    }
    connections_ = std::make_unique<Connections>(options_, *std::move(endpoints), sink);
    connections_->publishers.allow_until(allowed_until_);
    connections_->consumer.start();
    connections_->publishers.start();
    connections_->topology.start();
    connections_->errors.start();
    return {};
  }

  std::string_view name() const override { return "RabbitMQ"; }
  // RabbitMQ blocks a channel with more than 32 commands pending at an unresponsive quorum queue, or more
  // than 400 messages at a classic queue (its credit flow). A blocked channel blocks the connection for all.
  // With so few publishes in flight, a dead queue never gets there.
  BrokerLimits limits() const override { return {.first_window = 16}; }

  void publish(std::vector<Outgoing> batch) override {
    if (!connections_) return;
    for (Outgoing& outgoing : batch) rabbit::route_to_queue(outgoing, return_exchange_);
    connections_->publishers.publish(std::move(batch));
  }
  void ack(std::vector<DeliveryTag> tags) override {
    if (connections_) connections_->consumer.ack(std::move(tags));
  }
  void stop_intake() override {
    if (connections_) connections_->consumer.stop_intake();
  }
  void pause_intake(bool yes) override {
    if (connections_) connections_->consumer.pause_intake(yes);
  }
  void allow_publish_until(BootMs deadline) override {
    if (!connections_) {
      allowed_until_ = deadline;
      return;
    }
    connections_->publishers.allow_until(deadline);
  }
  bool stands(const DeliveryTag& tag) const override {
    return connections_ && connections_->consumer.stands(tag.connection);
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (connections_) connections_->consumer.requeue(std::move(tags));
  }
  void rest(std::string error_queue, std::size_t copies) override {
    if (connections_) connections_->errors.rest(std::move(error_queue), copies);
  }
  void drop_publishing(PublishLane lane, std::string reason) override {
    if (connections_) connections_->publishers.drop(lane, std::move(reason));
  }

  void stop(Ms most) override {
    const std::lock_guard lock(mutex_);
    if (!connections_ || stopped_) return;
    stopped_ = true;
    const auto deadline = clock_.boot() + most;
    connections_->consumer.order_stop(deadline);
    connections_->topology.order_stop(deadline);
    connections_->errors.order_stop(deadline);
    connections_->topology.join();
    connections_->errors.join();
    connections_->publishers.order_stop(deadline);
    connections_->publishers.join();
    connections_->consumer.join();
  }

 private:
  const BrokerOptions options_;
  const std::string return_exchange_ = rabbit::return_exchange(options_.prefix);
  const Clock& clock_;
  std::mutex mutex_;  // serializes start and stop
  bool stopped_ = false;
  BootMs allowed_until_{0};  // the value from before start()
  // Set once, in start(), before any other call.
  std::unique_ptr<Connections> connections_;
};

}  // namespace

std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock) {
  return std::make_unique<RabbitBroker>(std::move(options), clock);
}

}  // namespace rung
