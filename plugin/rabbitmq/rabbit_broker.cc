#include "plugin/rabbitmq/rabbit_broker.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "plugin/rabbitmq/consumer.h"
#include "plugin/rabbitmq/place.h"
#include "plugin/rabbitmq/publisher.h"
#include "plugin/rabbitmq/return_route.h"
#include "plugin/rabbitmq/topology_keeper.h"
#include "plugin/rabbitmq/voice.h"
#include "src/core/addresses.h"

namespace rung {
namespace {

class RabbitBroker final : public Broker {
 public:
  RabbitBroker(BrokerOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  ~RabbitBroker() override { stop(Ms{0}); }

  Result<void> start(BrokerSink& sink) override {
    std::lock_guard lock(mutex_);
    if (consumer_) return permanent("the broker was started before");
    auto place = rabbit::place_of(options_, clock_);
    if (!place) return tl::unexpected(place.error());
    addresses_ = std::move(place->addresses);
    const std::shared_ptr<rabbit::Tls> tls = place->tls;
    if (options_.rabbitmq.queue_type != "classic" && options_.rabbitmq.queue_type != "quorum") {
      return permanent("broker.queue_type: \"" + options_.rabbitmq.queue_type +
                       "\" is not one of: classic, quorum");
    }
    tls_ = tls;
    voice_.emplace(sink);
    probe_voice_.emplace(sink, rabbit::Voice::Status::untold);
    consumer_ = std::make_unique<rabbit::Consumer>(options_, *addresses_, tls, *voice_);
    topology_ = std::make_unique<rabbit::TopologyKeeper>(options_, *addresses_, tls, *voice_);
    publisher_ = std::make_unique<rabbit::Publisher>(
        options_, *addresses_, tls, *voice_,
        rabbit::Siblings{rabbit::Role::main,
                         proven_,
                         [this](std::vector<Outgoing> batch) { publish_unproven(std::move(batch)); },
                         {}});
    publisher_->allow_until(allowed_);
    consumer_->start();
    publisher_->start();
    topology_->start();
    return {};
  }

  std::string_view name() const override { return "RabbitMQ"; }
  // RabbitMQ blocks a channel that has more than 32 commands with a quorum queue that doesn't answer, and one
  // with more than 400 messages with a classic queue (its credit flow); a blocked channel blocks the
  // connection for all. With so few under way a dead queue never gets there.
  BrokerLimits limits() const override { return {.first_window = 16}; }

  void publish(std::vector<Outgoing> batch) override {
    if (!publisher_) return;
    for (Outgoing& outgoing : batch) rabbit::route_to_queue(outgoing, return_exchange_);
    const auto probes = std::stable_partition(batch.begin(), batch.end(),
                                              [](const Outgoing& o) { return o.lane == PublishLane::main; });
    if (probes != batch.end()) {
      if (rabbit::Publisher* probe = helper(probe_)) {
        probe->publish({std::make_move_iterator(probes), std::make_move_iterator(batch.end())});
        batch.erase(probes, batch.end());
      }
    }
    publisher_->publish(std::move(batch));
  }
  void ack(std::vector<DeliveryTag> tags) override {
    if (consumer_) consumer_->ack(std::move(tags));
  }
  void stop_intake() override {
    if (consumer_) consumer_->stop_intake();
  }
  void pause_intake(bool yes) override {
    if (consumer_) consumer_->pause_intake(yes);
  }
  void allow_publish_until(BootMs deadline) override {
    std::lock_guard lock(probe_mutex_);
    allowed_ = deadline;
    if (publisher_) publisher_->allow_until(deadline);
    for (Helper* one : {&probe_, &unproven_}) {
      if (one->publisher) one->publisher->allow_until(deadline);
    }
  }

  bool stands(const DeliveryTag& tag) const override {
    return consumer_ && consumer_->stands(tag.connection);
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (consumer_) consumer_->requeue(std::move(tags));
  }
  void drop_publishing(PublishLane lane, std::string reason) override {
    std::lock_guard lock(probe_mutex_);
    if (lane == PublishLane::main && publisher_) publisher_->drop(reason);
    Helper& one = lane == PublishLane::main ? unproven_ : probe_;
    if (one.publisher) one.publisher->drop(std::move(reason));
  }

  void stop(Ms most) override {
    std::lock_guard lock(mutex_);
    if (!consumer_ || stopped_) return;
    stopped_ = true;
    const auto deadline = clock_.boot() + most;
    consumer_->order_stop(deadline);
    topology_->order_stop(deadline);
    std::vector<rabbit::Publisher*> all{publisher_.get()};
    {
      std::lock_guard probe(probe_mutex_);
      probe_stopped_ = true;
      for (Helper* one : {&probe_, &unproven_}) {
        if (one->publisher) all.push_back(one->publisher.get());
      }
    }
    topology_->join();
    for (rabbit::Publisher* one : all) one->order_stop(deadline);
    for (rabbit::Publisher* one : all) one->join();
    // Once more: before it ended, one may have passed messages to another that had ended already.
    for (rabbit::Publisher* one : all) one->join();
    consumer_->join();
  }

 private:
  // A publisher beside the main one. Its connection is made when it is first needed.
  struct Helper {
    BrokerOptions options;
    rabbit::Role role;
    std::unique_ptr<rabbit::Publisher> publisher;
  };

  // nullptr: we are stopping.
  rabbit::Publisher* helper(Helper& one) {
    std::lock_guard lock(probe_mutex_);
    if (probe_stopped_) return nullptr;
    if (!one.publisher) {
      one.publisher = std::make_unique<rabbit::Publisher>(
          one.options, *addresses_, tls_, *probe_voice_,
          rabbit::Siblings{one.role, proven_,
                           [this](std::vector<Outgoing> batch) { publisher_->publish(std::move(batch)); },
                           [this](std::string reason) { publisher_->drop(std::move(reason)); }});
      one.publisher->allow_until(allowed_);
      one.publisher->start();
    }
    return one.publisher.get();
  }

  void publish_unproven(std::vector<Outgoing> batch) {
    if (rabbit::Publisher* publisher = helper(unproven_)) return publisher->publish(std::move(batch));
    std::vector<PublishResult> results;
    for (const Outgoing& outgoing : batch)
      results.push_back({outgoing.token, PublishResult::How::lost, "stopped before it was sent"});
    voice_->sink().on_published(std::move(results));
  }

  static BrokerOptions named(BrokerOptions options, const char* suffix, int max_unconfirmed) {
    options.connection_name += suffix;
    options.max_unconfirmed = max_unconfirmed;
    return options;
  }

  const BrokerOptions options_;
  const std::string return_exchange_ = rabbit::return_exchange(options_.prefix);
  const Clock& clock_;
  std::mutex mutex_;  // start against stop
  bool stopped_ = false;
  std::unique_ptr<Addresses> addresses_;
  std::shared_ptr<rabbit::Tls> tls_;
  std::optional<rabbit::Voice> voice_, probe_voice_;
  rabbit::ProvenExchanges proven_{clock_};
  // Set once, in start(), before any other call.
  std::unique_ptr<rabbit::Consumer> consumer_;
  std::unique_ptr<rabbit::Publisher> publisher_;
  std::unique_ptr<rabbit::TopologyKeeper> topology_;

  std::mutex probe_mutex_;
  // All below: guarded by probe_mutex_; once probe_stopped_ is set, probe_ stays as it is.
  BootMs allowed_{0};
  // One message at a time: a refused binding closes the channel.
  Helper probe_{named(options_, " (probe)", 1), rabbit::Role::probe, {}};
  Helper unproven_{named(options_, " (unproven exchanges)", 1), rabbit::Role::unproven, {}};
  bool probe_stopped_ = false;
};

}  // namespace

std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock) {
  return std::make_unique<RabbitBroker>(std::move(options), clock);
}

}  // namespace rung
