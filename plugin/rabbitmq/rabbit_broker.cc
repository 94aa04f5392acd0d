#include "plugin/rabbitmq/rabbit_broker.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "plugin/rabbitmq/consumer.h"
#include "plugin/rabbitmq/publisher.h"
#include "plugin/rabbitmq/voice.h"
#include "src/core/url.h"

namespace rung {
namespace {

using rabbit::Clock;

class RabbitBroker final : public Broker {
 public:
  explicit RabbitBroker(BrokerOptions options) : options_(std::move(options)) {}
  ~RabbitBroker() override { stop(Ms{0}); }

  Result<void> start(BrokerSink& sink) override {
    std::lock_guard lock(mutex_);
    if (consumer_) return permanent("the broker was started before");
    auto url = parse_url(options_.url);
    if (!url) return tl::unexpected(url.error());
    url_ = std::move(*url);
    std::shared_ptr<rabbit::Tls> tls;
    if (url_.scheme == "amqps") {
      auto loaded = rabbit::Tls::load(options_);
      if (!loaded) return tl::unexpected(loaded.error());
      tls = std::move(*loaded);
    } else if (url_.scheme != "amqp") {
      return permanent("broker.url: \"" + url_.scheme + "\" is not a broker's scheme: amqp:// or amqps://");
    }
    if (options_.queue_type != "classic" && options_.queue_type != "quorum") {
      return permanent("broker.queue_type: \"" + options_.queue_type + "\" is not one of: classic, quorum");
    }
    tls_ = tls;
    voice_.emplace(sink);
    probe_voice_.emplace(sink, rabbit::Voice::Status::untold);
    consumer_ = std::make_unique<rabbit::Consumer>(options_, url_, tls, *voice_);
    publisher_ = std::make_unique<rabbit::Publisher>(options_, url_, tls, *voice_);
    publisher_->allow_until(allowed_);
    consumer_->start();
    publisher_->start();
    return {};
  }

  void publish(std::vector<Outgoing> batch) override {
    if (!publisher_) return;
    const auto probes = std::stable_partition(batch.begin(), batch.end(),
                                              [](const Outgoing& o) { return o.lane == PublishLane::main; });
    if (probes != batch.end()) {
      if (rabbit::Publisher* probe = prober()) {
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
  void allow_publish_until(BootMs deadline) override {
    std::lock_guard lock(probe_mutex_);
    allowed_ = deadline;
    if (publisher_) publisher_->allow_until(deadline);
    if (probe_) probe_->allow_until(deadline);
  }

  bool stands(const DeliveryTag& tag) const override {
    return consumer_ && consumer_->stands(tag.connection);
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (consumer_) consumer_->requeue(std::move(tags));
  }
  void drop_publishing(PublishLane lane, std::string reason) override {
    std::lock_guard lock(probe_mutex_);
    rabbit::Publisher* publisher = lane == PublishLane::main ? publisher_.get() : probe_.get();
    if (publisher != nullptr) publisher->drop(std::move(reason));
  }

  void stop(Ms most) override {
    std::lock_guard lock(mutex_);
    if (!consumer_ || stopped_) return;
    stopped_ = true;
    const auto deadline = Clock::now() + most;
    consumer_->order_stop(deadline);
    publisher_->order_stop(deadline);
    {
      std::lock_guard probe(probe_mutex_);
      probe_stopped_ = true;
    }
    if (probe_) {
      probe_->order_stop(deadline);
      probe_->join();
    }
    publisher_->join();
    consumer_->join();
  }

 private:
  // Its connection is made when it is first needed, and that is hardly ever. nullptr: we are stopping.
  rabbit::Publisher* prober() {
    std::lock_guard lock(probe_mutex_);
    if (probe_stopped_) return nullptr;
    if (!probe_) {
      probe_options_.connection_name += " (probe)";
      probe_ = std::make_unique<rabbit::Publisher>(probe_options_, url_, tls_, *probe_voice_);
      probe_->allow_until(allowed_);
      probe_->start();
    }
    return probe_.get();
  }

  const BrokerOptions options_;
  std::mutex mutex_;  // start against stop
  bool stopped_ = false;
  Url url_;
  std::shared_ptr<rabbit::Tls> tls_;
  std::optional<rabbit::Voice> voice_, probe_voice_;
  // Set once, in start(), before any other call.
  std::unique_ptr<rabbit::Consumer> consumer_;
  std::unique_ptr<rabbit::Publisher> publisher_;

  std::mutex probe_mutex_;
  // All below: guarded by probe_mutex_; once probe_stopped_ is set, probe_ stays as it is.
  BootMs allowed_{0};
  BrokerOptions probe_options_ = options_;
  std::unique_ptr<rabbit::Publisher> probe_;
  bool probe_stopped_ = false;
};

}  // namespace

std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options) {
  return std::make_unique<RabbitBroker>(std::move(options));
}

}  // namespace rung
