// RabbitMQ as a Broker: threads with a connection and a channel each. One consumes, one publishes, so that an
// alarm or a slow consumer of ours on one side does not block the other; one checks the topology. Two further
// publishers start when they are first needed.
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

constexpr std::uint8_t kOwnIntake = 0, kErrorIntake = 1;  // IntakeSession::intake

// The queues <prefix>.failed ...
struct OwnIntake {
  OwnIntake(const rabbit::ConnectionLoop::Deps& deps, rabbit::OwnQueueTypes& types)
      : queues(deps.options, types, deps.sink),
        consumer(deps, queues,
                 {.intake = kOwnIntake,
                  .max_bytes = rabbit::own_intake_bytes(deps.options),
                  .loop = {.thread_name = "rung-consume",
                           .purpose = "intake",
                           .side = rabbit::SinkAdapter::Side::intake,
                           .prepare_decides_on_address = true}}) {}

  rabbit::OwnQueues queues;
  rabbit::Consumer consumer;
};

struct ErrorIntake {
  explicit ErrorIntake(const rabbit::ConnectionLoop::Deps& deps)
      : queues(deps.options, deps.addresses.clock(), deps.sink.sink()),
        consumer(deps, queues,
                 {.intake = kErrorIntake,
                  .max_bytes = rabbit::error_intake_bytes(deps.options),
                  .loop = {.thread_name = "rung-errconsume",
                           .purpose = "intake of error queues",
                           .side = {},
                           .prepare_decides_on_address = true,
                           .address_failed_when_over = false}}) {}

  rabbit::ErrorQueueBook queues;
  rabbit::Consumer consumer;
};

// The publishers: the main one, and two helpers, which connect when they are first needed. unproven: for
// exchanges and bindings that have not answered yet. probe: for PublishLane::probe.
// Thread: any, except for stopping: one thread calls order_stop() and join() once each, in that order.
class Publishers {
 public:
  // REQUIRES: the references outlive it.
  Publishers(const BrokerOptions& options, const rabbit::BrokerEndpoints& endpoints,
             rabbit::SinkAdapter& sink)
      : endpoints_(endpoints),
        sink_(sink),
        helpers_sink_(sink.sink(), rabbit::SinkAdapter::Status::silent),
        proven_(endpoints.addresses->clock()),
        main_({options, *endpoints.addresses, *endpoints.access, sink}, rabbit::Role::main,
              {.proven = proven_,
               .pass_on = [this](std::vector<Outgoing> batch) { publish_unproven(std::move(batch)); },
               .rights_lost = {}}),
        probe_{rabbit::Role::probe, helper_options(options, " (probe)"), {}},
        unproven_{rabbit::Role::unproven, helper_options(options, " (unproven exchanges)"), {}} {}

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
          rabbit::ConnectionLoop::Deps{helper.options, *endpoints_.addresses, *endpoints_.access,
                                       helpers_sink_},
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
    sink_.sink().on_published(std::move(results));
  }

  std::vector<rabbit::Publisher*> all() {
    std::vector<rabbit::Publisher*> all{&main_};
    const std::lock_guard lock(mutex_);
    for (Helper* helper : {&probe_, &unproven_}) {
      if (helper->publisher) all.push_back(helper->publisher.get());
    }
    return all;
  }

  const rabbit::BrokerEndpoints& endpoints_;
  rabbit::SinkAdapter& sink_;
  rabbit::SinkAdapter helpers_sink_;
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
        own(deps, types),
        errors(options.error_queues->empty() ? nullptr : std::make_unique<ErrorIntake>(deps)),
        publishers(options, endpoints, sink),
        topology(deps, types, errors != nullptr ? &errors->queues : nullptr,
                 [this] { publishers.forget_proven(); }) {
    if (errors != nullptr)
      errors->queues.listen([this] { topology.wake(); }, [this] { errors->consumer.wake(); });
  }

  rabbit::BrokerEndpoints endpoints;
  rabbit::SinkAdapter sink;
  rabbit::ConnectionLoop::Deps deps;
  rabbit::OwnQueueTypes types;
  OwnIntake own;
  std::unique_ptr<ErrorIntake> errors;  // nullptr: the config has no error queues
  Publishers publishers;
  rabbit::TopologyKeeper topology;

  rabbit::Consumer* consumer_of(const IntakeSession& session) {
    if (session.intake == kOwnIntake) return &own.consumer;
    return errors != nullptr ? &errors->consumer : nullptr;
  }
  // Calls `call` (Consumer&) for each intake.
  template <typename Call>
  void for_each_consumer(Call&& call) {
    call(own.consumer);
    if (errors != nullptr) call(errors->consumer);
  }
  // Calls `settle` with the tags of each intake.
  void split(std::vector<DeliveryTag> tags, void (rabbit::Consumer::*settle)(std::vector<DeliveryTag>)) {
    // std::ranges::partition returns a subrange, which clang 14 (clang-tidy) cannot compile with GCC's
    // library.
    const auto others = std::partition(
        tags.begin(), tags.end(), [](const DeliveryTag& tag) { return tag.session.intake == kOwnIntake; });
    std::vector<DeliveryTag> of_errors(others, tags.end());
    tags.erase(others, tags.end());
    (own.consumer.*settle)(std::move(tags));
    if (errors != nullptr) (errors->consumer.*settle)(std::move(of_errors));
  }
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
    const std::string& type = options_.rabbitmq.queue_type;
    if (type != "auto" && type != "classic" && type != "quorum")
      return permanent("broker.queue_type: \"" + type + "\" is not one of: auto, classic, quorum");
    connections_ = std::make_unique<Connections>(options_, *std::move(endpoints), sink);
    connections_->publishers.allow_until(allowed_until_);
    connections_->for_each_consumer([this](rabbit::Consumer& consumer) {
      if (paused_) consumer.pause_intake(true);
      consumer.start();
    });
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
    if (connections_) connections_->split(std::move(tags), &rabbit::Consumer::ack);
  }
  void stop_intake() override {
    if (!connections_) return;
    connections_->for_each_consumer([](rabbit::Consumer& consumer) { consumer.stop_intake(); });
  }
  void pause_intake(bool yes) override {
    if (!connections_) {
      paused_ = yes;
      return;
    }
    connections_->for_each_consumer([yes](rabbit::Consumer& consumer) { consumer.pause_intake(yes); });
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
    const rabbit::Consumer* consumer = connections_->consumer_of(tag.session);
    return consumer != nullptr && consumer->stands(tag.session);
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (connections_) connections_->split(std::move(tags), &rabbit::Consumer::requeue);
  }
  void drop_publishing(PublishLane lane, std::string reason) override {
    if (connections_) connections_->publishers.drop(lane, std::move(reason));
  }

  void stop(Ms most) override {
    const std::lock_guard lock(mutex_);
    if (!connections_ || stopped_) return;
    stopped_ = true;
    const auto deadline = clock_.boot() + most;
    connections_->for_each_consumer([&](rabbit::Consumer& consumer) { consumer.order_stop(deadline); });
    connections_->topology.order_stop(deadline);
    connections_->topology.join();
    connections_->publishers.order_stop(deadline);
    connections_->publishers.join();
    connections_->for_each_consumer([](rabbit::Consumer& consumer) { consumer.join(); });
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
