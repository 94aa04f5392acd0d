// RabbitMQ as a Broker: threads with a connection and a channel each. One consumes, one publishes, so that an
// alarm or a slow consumer of ours on one side does not block the other; one checks the topology. Error
// queues have a consumer of their own; what may close a channel, or may not be answered, publishers of its
// own.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/consume/consumer.h"
#include "plugin/rabbitmq/consume/error_queues.h"
#include "plugin/rabbitmq/publish/publisher.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung::rabbit {
namespace {

// What is asked of the broker beside consuming and publishing, on a connection of its own: checks the
// topology and the owner's mark periodically, and finds error queues. A refusal closes the channel, and a
// quorum queue without a leader answers late; neither may disturb consuming. Reports to the sink what it
// repaired and what it cannot repair. The consumer reports an unreachable broker.
//
// Thread: start, claim, order_stop, join from any thread; the sink is called on its own.
class TopologyKeeper final : private ConnectionLoop::Handler {
 public:
  // `errors`: nullptr: the config has no error queues. `return_route_changed`: the bindings of
  // <prefix>.return have to be made again. REQUIRES: all outlive it.
  TopologyKeeper(ConnectionLoop::Deps deps, OwnQueueTypes& types, ErrorQueueBook* errors,
                 std::function<void()> return_route_changed);
  ~TopologyKeeper() override;

  void start();
  void wake() { loop_.wake(); }
  // Broker::claim(). Any thread.
  void claim(std::string database, bool mark);
  void order_stop(BootMs deadline);
  void join() { loop_.join(); }

 private:
  Result<BootMs> turn(Connection& connection) override;
  BootMs idle() override;
  void over(const ConnectionLoop::End& end) override;
  Result<void> check(const Calls& calls);
  Result<void> look_at_owner(const Calls& calls);
  void schedule_next();

  const BrokerOptions& options_;
  const Access& access_;
  OwnQueueTypes& types_;
  ErrorQueueBook* const errors_;
  const std::function<void()> return_route_changed_;

  std::mutex mutex_;
  OwnerClaim claim_;        // guarded by mutex_
  bool claim_due_ = false;  // guarded by mutex_: it has no answer yet

  // Used by the keeper's thread only, after start().
  BootMs next_check_;
  bool channel_open_ = false;

  ConnectionLoop loop_;  // last: it uses the others
};

TopologyKeeper::TopologyKeeper(ConnectionLoop::Deps deps, OwnQueueTypes& types, ErrorQueueBook* errors,
                               std::function<void()> return_route_changed)
    : options_(deps.options),
      access_(deps.access),
      types_(types),
      errors_(errors),
      return_route_changed_(std::move(return_route_changed)),
      loop_(deps,
            {.thread_name = "rung-topology",
             .purpose = "topology",
             .side = {},
             .any_broker = true,  // it is the one that reports another broker
             .address_failed_when_over = false},
            *this) {}

TopologyKeeper::~TopologyKeeper() { join(); }

// The consumer declares the topology when it connects, so the first check comes after one interval.
void TopologyKeeper::start() {
  schedule_next();
  loop_.start();
}

void TopologyKeeper::order_stop(BootMs deadline) {
  if (errors_ != nullptr) errors_->interrupt();
  loop_.order_stop(deadline);
}

void TopologyKeeper::schedule_next() { next_check_ = loop_.now() + options_.rabbitmq.topology_check; }

void TopologyKeeper::claim(std::string database, bool mark) {
  {
    const std::lock_guard lock(mutex_);
    claim_ = {std::move(database), mark};
    claim_due_ = true;
  }
  loop_.wake();
}

Result<BootMs> TopologyKeeper::turn(Connection& connection) {
  if (auto open = loop_.skip_frames(connection); !open) return tl::unexpected(open.error());
  if (loop_.stopping()) return loop_.finish(connection, std::chrono::seconds{1});
  const auto calls = [&] { return loop_.calls(connection); };  // each with its own time
  Result<void> done;
  if (!channel_open_) done = calls().open_channel();
  channel_open_ = done.has_value();
  if (done && loop_.now() >= next_check_) done = check(calls());
  if (done) done = look_at_owner(calls());
  if (done && errors_ != nullptr && access_.accepts(connection.cluster(), connection.address().shown))
    done = errors_->find(calls());
  if (done) done = connection.tick();
  if (!done) return tl::unexpected(done.error());
  return errors_ == nullptr ? next_check_
                            : std::min(next_check_, loop_.now() + ErrorQueueState::kShortestPause);
}

BootMs TopologyKeeper::idle() {
  if (errors_ != nullptr) errors_->report();
  return loop_.now() + ErrorQueueState::kShortestPause;
}

void TopologyKeeper::over(const ConnectionLoop::End& end) {
  channel_open_ = false;
  if (errors_ != nullptr) errors_->finder_down(end.why);
  const std::lock_guard lock(mutex_);
  claim_due_ = !claim_.database.empty();  // the next connection may lead elsewhere
}

Result<void> TopologyKeeper::look_at_owner(const Calls& calls) {
  OwnerClaim claim;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(claim_due_, false)) return {};
    claim = claim_;
  }
  auto report = read_owner(options_, claim, calls);
  if (!report) return tl::unexpected(report.error());
  loop_.sink().on_place(*report);
  return {};
}

Result<void> TopologyKeeper::check(const Calls& calls) {
  const auto report = declare_topology(options_, types_, calls, Pass::check);
  if (!report) return tl::unexpected(report.error());
  if (report->return_route_changed) return_route_changed_();
  loop_.sink().on_topology(*report);
  schedule_next();
  const std::lock_guard lock(mutex_);
  claim_due_ = !claim_.database.empty();
  return {};
}

}  // namespace
}  // namespace rung::rabbit

namespace rung {
namespace {

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
        proven(deps.addresses.clock()),
        main(deps, rabbit::Role::main,
             {.proven = proven,
              .pass_on = [this](std::vector<Outgoing> batch) { unproven.publish(std::move(batch)); },
              .rights_lost = {}}),
        unproven(deps, rabbit::Role::unproven, peers_of_helper()),
        probe(deps, rabbit::Role::probe, peers_of_helper()),
        // Exchanges and bindings have changed: proves each again before its next use.
        topology(deps, types, errors.get(), [this] { proven.clear(); }) {
    consume(own, rabbit::own_intake_bytes(options),
            {.thread_name = "rung-consume", .purpose = "intake", .side = rabbit::SinkAdapter::Side::intake});
    if (errors == nullptr) return;
    consume(*errors, rabbit::error_intake_bytes(options),
            {.thread_name = "rung-errconsume",
             .purpose = "intake of error queues",
             .side = {},
             .address_failed_when_over = false});
    errors->listen([this] { topology.wake(); }, [this] { intakes.back()->wake(); });
  }

  void consume(rabbit::ConsumedQueues& queues, std::size_t max_bytes,
               rabbit::ConnectionLoop::Settings settings) {
    const auto number = static_cast<std::uint8_t>(intakes.size());
    intakes.push_back(std::make_unique<rabbit::Consumer>(
        deps, queues, rabbit::Consumer::Settings{number, max_bytes, std::move(settings)}));
  }
  rabbit::PublisherPeers peers_of_helper() {
    return {.proven = proven,
            .pass_on = [this](std::vector<Outgoing> batch) { main.publish(std::move(batch)); },
            .rights_lost = [this](std::string reason) { main.drop(std::move(reason)); }};
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
  // main: for exchanges and bindings that have answered; unproven: for all others. probe: for
  // PublishLane::probe.
  rabbit::ProvenExchanges proven;
  rabbit::Publisher main, unproven, probe;
  const std::array<rabbit::Publisher*, 3> publishers{&main, &unproven, &probe};
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
    for (rabbit::Publisher* one : connections_->publishers) one->allow_until(allowed_until_);
    for (const auto& intake : connections_->intakes) {
      if (paused_) intake->pause_intake(true);
      intake->start();
    }
    for (rabbit::Publisher* one : connections_->publishers) one->start();
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
    const auto probes = std::stable_partition(batch.begin(), batch.end(),
                                              [](const Outgoing& o) { return o.lane == PublishLane::main; });
    connections_->probe.publish({std::make_move_iterator(probes), std::make_move_iterator(batch.end())});
    batch.erase(probes, batch.end());
    connections_->main.publish(std::move(batch));
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
    for (rabbit::Publisher* one : connections_->publishers) one->allow_until(deadline);
  }
  bool stands(const DeliveryTag& tag) const override {
    return connections_ && tag.session.intake < connections_->intakes.size() &&
           connections_->intakes[tag.session.intake]->stands(tag.session);
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (connections_) connections_->split(tags, &rabbit::Consumer::requeue);
  }
  void drop_publishing(PublishLane lane, std::string reason) override {
    if (!connections_) return;
    if (lane == PublishLane::probe) return connections_->probe.drop(std::move(reason));
    connections_->main.drop(reason);
    connections_->unproven.drop(std::move(reason));
  }

  void stop(Ms most) override {
    const std::lock_guard lock(mutex_);
    if (!connections_ || stopped_) return;
    stopped_ = true;
    const auto deadline = clock_.boot() + most;
    for (const auto& intake : connections_->intakes) intake->order_stop(deadline);
    connections_->topology.order_stop(deadline);
    connections_->topology.join();
    for (rabbit::Publisher* one : connections_->publishers) one->order_stop(deadline);
    // Twice: before it ended, one may have passed messages to another that had already ended.
    for (int i = 0; i < 2; ++i) {
      for (rabbit::Publisher* one : connections_->publishers) one->join();
    }
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
