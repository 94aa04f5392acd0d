#include "plugin/rabbitmq/rabbit_broker.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/broker_endpoints.h"
#include "plugin/rabbitmq/consumer.h"
#include "plugin/rabbitmq/error_consumers.h"
#include "plugin/rabbitmq/error_queue_watch.h"
#include "plugin/rabbitmq/own_queues.h"
#include "plugin/rabbitmq/publishers.h"
#include "plugin/rabbitmq/return_route.h"
#include "plugin/rabbitmq/sink_adapter.h"
#include "plugin/rabbitmq/topology_keeper.h"

namespace rung {
namespace {

constexpr std::uint8_t kOwnIntake = 0, kErrorIntake = 1;  // IntakeSession::intake

bool is_of_errors(const DeliveryTag& tag) { return tag.session().intake == kErrorIntake; }

// The connections, created when the broker starts.
struct Connections {
  Connections(const BrokerOptions& options, rabbit::BrokerEndpoints at, BrokerSink& to)
      : endpoints(std::move(at)),
        sink(to),
        deps{options, *endpoints.addresses, endpoints.tls, sink},
        own_queues(options, sink),
        error_queues(options, endpoints.addresses->clock()),
        consumer(deps, own_queues, {"rung-consume", "intake", rabbit::SinkAdapter::Side::intake, kOwnIntake}),
        error_consumer(deps, error_queues, {"rung-errconsume", "error intake", {}, kErrorIntake}),
        publishers(options, endpoints, sink),
        topology(deps),
        errors(deps, error_queues, [this] { error_consumer.wake(); }) {}

  rabbit::BrokerEndpoints endpoints;
  rabbit::SinkAdapter sink;
  rabbit::ConnectionLoop::Deps deps;
  rabbit::OwnQueues own_queues;
  rabbit::ErrorConsumers error_queues;
  rabbit::Consumer consumer;
  rabbit::Consumer error_consumer;  // started only if the config has error queues
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
    if (!options_.error_queues->empty()) {
      connections_->error_consumer.start();
      connections_->errors.start();
    }
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
    if (!connections_) return;
    connections_->error_consumer.ack(take_those_of_errors(tags));
    connections_->consumer.ack(std::move(tags));
  }
  void stop_intake() override {
    if (!connections_) return;
    connections_->consumer.stop_intake();
    connections_->error_consumer.stop_intake();
  }
  void pause_intake(bool yes) override {
    if (!connections_) return;
    connections_->consumer.pause_intake(yes);
    connections_->error_consumer.pause_intake(yes);
  }
  void allow_publish_until(BootMs deadline) override {
    if (!connections_) {
      allowed_until_ = deadline;
      return;
    }
    connections_->publishers.allow_until(deadline);
  }
  bool stands(const DeliveryTag& tag) const override {
    if (!connections_) return false;
    const auto& its = is_of_errors(tag) ? connections_->error_consumer : connections_->consumer;
    return its.stands(tag.session());
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (!connections_) return;
    connections_->error_consumer.requeue(take_those_of_errors(tags));
    connections_->consumer.requeue(std::move(tags));
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
    connections_->error_consumer.order_stop(deadline);
    connections_->topology.order_stop(deadline);
    connections_->errors.order_stop(deadline);
    connections_->topology.join();
    connections_->errors.join();
    connections_->publishers.order_stop(deadline);
    connections_->publishers.join();
    connections_->consumer.join();
    connections_->error_consumer.join();
  }

 private:
  static std::vector<DeliveryTag> take_those_of_errors(std::vector<DeliveryTag>& tags) {
    const auto middle =
        std::ranges::partition(tags, [](const auto& tag) { return !is_of_errors(tag); }).begin();
    std::vector<DeliveryTag> taken(middle, tags.end());
    tags.erase(middle, tags.end());
    return taken;
  }

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
