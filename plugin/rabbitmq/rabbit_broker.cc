// RabbitMQ as a Broker: threads with a connection and a channel each. One consumes, one publishes, so that an
// alarm or a slow consumer of ours on one side does not block the other; one checks the topology. Error
// queues have a consumer of their own. Two further publishers start when they are first needed.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugin/brokers.h"
#include "plugin/rabbitmq/consume/error_queues.h"
#include "plugin/rabbitmq/consume/own_queues.h"
#include "plugin/rabbitmq/publish/publisher.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "plugin/rabbitmq/topology_keeper.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung {
namespace {

// The publishers: the main one, and two helpers, which connect when they are first needed. unproven: for
// exchanges and bindings that have not answered yet. probe: for PublishLane::probe.
// Thread: any, except for stopping: one thread calls order_stop() and join() once each, in that order.
class Publishers {
 public:
  // REQUIRES: what `deps` refers to outlives it.
  explicit Publishers(const rabbit::ConnectionLoop::Deps& deps)
      : deps_(deps),
        proven_(deps.addresses.clock()),
        main_(deps, rabbit::Role::main,
              {.proven = proven_,
               .pass_on = [this](std::vector<Outgoing> batch) { publish_unproven(std::move(batch)); },
               .rights_lost = {}}),
        probe_{rabbit::Role::probe, helper_options(deps.options, " (probe)"), {}},
        unproven_{rabbit::Role::unproven, helper_options(deps.options, " (unproven exchanges)"), {}} {}

  void start() { main_.start(); }

  void publish(std::vector<Outgoing> batch) {
    const auto probes = std::stable_partition(batch.begin(), batch.end(),
                                              [](const Outgoing& o) { return o.lane == PublishLane::main; });
    if (probes != batch.end()) {
      if (rabbit::Publisher* probe = started(probe_)) {
        probe->publish({std::make_move_iterator(probes), std::make_move_iterator(batch.end())});
        batch.erase(probes, batch.end());
      }
    }
    main_.publish(std::move(batch));
  }

  void allow_until(BootMs deadline) {
    const std::lock_guard lock(mutex_);
    allowed_until_ = deadline;
    main_.allow_until(deadline);
    for (Helper* helper : {&probe_, &unproven_}) {
      if (helper->publisher) helper->publisher->allow_until(deadline);
    }
  }

  void drop(PublishLane lane, std::string reason) {
    const std::lock_guard lock(mutex_);
    if (lane == PublishLane::main) main_.drop(reason);
    Helper& helper = lane == PublishLane::main ? unproven_ : probe_;
    if (helper.publisher) helper.publisher->drop(std::move(reason));
  }

  // Exchanges and bindings have changed: proves each again before its next use.
  void forget_proven() { proven_.clear(); }

  void order_stop(BootMs deadline) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    for (rabbit::Publisher* one : all()) one->order_stop(deadline);
  }
  void join() {
    // Twice: before it ended, one may have passed messages to another that had already ended.
    for (int i = 0; i < 2; ++i) {
      for (rabbit::Publisher* one : all()) one->join();
    }
  }

 private:
  // It sends one message at a time: a refusal closes its channel.
  struct Helper {
    const rabbit::Role role;
    const BrokerOptions options;
    std::unique_ptr<rabbit::Publisher> publisher;  // created when first needed
  };
  static BrokerOptions helper_options(BrokerOptions options, const char* suffix) {
    options.connection_name += suffix;
    options.max_unconfirmed = 1;
    return options;
  }

  // nullptr if we are stopping.
  rabbit::Publisher* started(Helper& helper) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return nullptr;
    if (!helper.publisher) {
      helper.publisher = std::make_unique<rabbit::Publisher>(
          rabbit::ConnectionLoop::Deps{helper.options, deps_.addresses, deps_.access, deps_.sink},
          helper.role,
          rabbit::PublisherPeers{
              .proven = proven_,
              .pass_on = [this](std::vector<Outgoing> batch) { main_.publish(std::move(batch)); },
              .rights_lost = [this](std::string reason) { main_.drop(std::move(reason)); }});
      helper.publisher->allow_until(allowed_until_);
      helper.publisher->start();
    }
    return helper.publisher.get();
  }

  void publish_unproven(std::vector<Outgoing> batch) {
    if (rabbit::Publisher* publisher = started(unproven_)) return publisher->publish(std::move(batch));
    std::vector<PublishResult> results;
    for (const Outgoing& outgoing : batch)
      results.push_back({outgoing.token, PublishResult::How::lost, "stopped before it was sent"});
    deps_.sink.sink().on_published(std::move(results));
  }

  std::vector<rabbit::Publisher*> all() {
    std::vector<rabbit::Publisher*> all{&main_};
    const std::lock_guard lock(mutex_);
    for (Helper* helper : {&probe_, &unproven_}) {
      if (helper->publisher) all.push_back(helper->publisher.get());
    }
    return all;
  }

  const rabbit::ConnectionLoop::Deps deps_;
  rabbit::ProvenExchanges proven_;
  rabbit::Publisher main_;

  std::mutex mutex_;
  // Guarded by mutex_. The helpers do not change once stopping_ is set.
  BootMs allowed_until_{0};
  Helper probe_, unproven_;
  bool stopping_ = false;
};

// The connections, created when the broker starts.
struct Connections {
  Connections(const BrokerOptions& options, rabbit::BrokerEndpoints at, BrokerSink& to)
      : endpoints(std::move(at)),
        sink(to),
        deps{options, *endpoints.addresses, *endpoints.access, sink},
        own(options, types, to),
        errors(options.error_queues->empty()
                   ? nullptr
                   : std::make_unique<rabbit::ErrorQueueBook>(options, deps.addresses.clock(), to)),
        publishers(deps),
        topology(deps, types, errors.get(), [this] { publishers.forget_proven(); }) {
    consume(own, rabbit::own_intake_bytes(options),
            {.thread_name = "rung-consume",
             .purpose = "intake",
             .side = rabbit::SinkAdapter::Side::intake,
             .prepare_decides_on_address = true});
    if (errors == nullptr) return;
    consume(*errors, rabbit::error_intake_bytes(options),
            {.thread_name = "rung-errconsume",
             .purpose = "intake of error queues",
             .side = {},
             .prepare_decides_on_address = true,
             .address_failed_when_over = false});
    errors->listen([this] { topology.wake(); }, [this] { intakes.back()->wake(); });
  }

  void consume(rabbit::ConsumedQueues& queues, std::size_t max_bytes,
               rabbit::ConnectionLoop::Settings settings) {
    const auto number = static_cast<std::uint8_t>(intakes.size());
    intakes.push_back(std::make_unique<rabbit::Consumer>(
        deps, queues, rabbit::Consumer::Settings{number, max_bytes, std::move(settings)}));
  }
  // Calls `settle` with the tags of each intake.
  void split(const std::vector<DeliveryTag>& tags,
             void (rabbit::Consumer::*settle)(std::vector<DeliveryTag>)) {
    for (std::size_t i = 0; i < intakes.size(); ++i) {
      std::vector<DeliveryTag> its;
      std::ranges::copy_if(tags, std::back_inserter(its),
                           [i](const DeliveryTag& tag) { return tag.session.intake == i; });
      ((*intakes[i]).*settle)(std::move(its));
    }
  }

  rabbit::BrokerEndpoints endpoints;
  rabbit::SinkAdapter sink;
  rabbit::ConnectionLoop::Deps deps;
  rabbit::OwnQueueTypes types;
  rabbit::OwnQueues own;
  std::unique_ptr<rabbit::ErrorQueueBook> errors;  // nullptr: the config has no error queues
  // By IntakeSession::intake: Rung's own queues, and the error queues.
  std::vector<std::unique_ptr<rabbit::Consumer>> intakes;
  Publishers publishers;
  rabbit::TopologyKeeper topology;
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
    connections_ = std::make_unique<Connections>(options_, *std::move(endpoints), sink);
    connections_->publishers.allow_until(allowed_until_);
    for (const auto& intake : connections_->intakes) {
      if (paused_) intake->pause_intake(true);
      intake->start();
    }
    connections_->publishers.start();
    connections_->topology.start();
    return {};
  }

  std::string_view name() const override { return "RabbitMQ"; }
  // RabbitMQ blocks a channel with more than 32 commands pending at an unresponsive quorum queue, or more
  // than 400 messages at a classic queue (its credit flow). A blocked channel blocks the connection for all.
  // With so few publishes in flight, a dead queue never gets there.
  BrokerLimits limits() const override { return {.first_window = 16}; }

  void claim(std::string database, bool mark) override {
    if (connections_) connections_->topology.claim(std::move(database), mark);
  }
  void serve_only(std::string cluster) override {
    if (connections_) connections_->endpoints.access->serve_only(std::move(cluster));
  }
  void publish(std::vector<Outgoing> batch) override {
    if (!connections_) return;
    for (Outgoing& outgoing : batch) rabbit::route_to_queue(outgoing, return_exchange_);
    connections_->publishers.publish(std::move(batch));
  }
  void ack(std::vector<DeliveryTag> tags) override {
    if (connections_) connections_->split(tags, &rabbit::Consumer::ack);
  }
  void stop_intake() override {
    if (!connections_) return;
    for (const auto& intake : connections_->intakes) intake->stop_intake();
  }
  void pause_intake(bool yes) override {
    if (!connections_) {
      paused_ = yes;
      return;
    }
    for (const auto& intake : connections_->intakes) intake->pause_intake(yes);
  }
  void allow_publish_until(BootMs deadline) override {
    if (!connections_) {
      allowed_until_ = deadline;
      return;
    }
    connections_->publishers.allow_until(deadline);
  }
  bool stands(const DeliveryTag& tag) const override {
    return connections_ && tag.session.intake < connections_->intakes.size() &&
           connections_->intakes[tag.session.intake]->stands(tag.session);
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (connections_) connections_->split(tags, &rabbit::Consumer::requeue);
  }
  void drop_publishing(PublishLane lane, std::string reason) override {
    if (connections_) connections_->publishers.drop(lane, std::move(reason));
  }

  void stop(Ms most) override {
    const std::lock_guard lock(mutex_);
    if (!connections_ || stopped_) return;
    stopped_ = true;
    const auto deadline = clock_.boot() + most;
    for (const auto& intake : connections_->intakes) intake->order_stop(deadline);
    connections_->topology.order_stop(deadline);
    connections_->topology.join();
    connections_->publishers.order_stop(deadline);
    connections_->publishers.join();
    for (const auto& intake : connections_->intakes) intake->join();
  }

 private:
  const BrokerOptions options_;
  const std::string return_exchange_ = rabbit::return_exchange(options_.prefix);
  const Clock& clock_;
  std::mutex mutex_;  // serializes start and stop
  bool stopped_ = false;
  // The values from before start().
  BootMs allowed_until_{0};
  bool paused_ = false;
  // Set once, in start(), before any other call.
  std::unique_ptr<Connections> connections_;
};

}  // namespace

std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock) {
  return std::make_unique<RabbitBroker>(std::move(options), clock);
}

}  // namespace rung
