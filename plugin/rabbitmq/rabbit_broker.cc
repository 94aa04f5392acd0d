#include "plugin/rabbitmq/rabbit_broker.h"

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
    voice_.emplace(sink);
    consumer_ = std::make_unique<rabbit::Consumer>(options_, url_, tls, *voice_);
    publisher_ = std::make_unique<rabbit::Publisher>(options_, url_, tls, *voice_);
    if (early_allow_) publisher_->allow_until(*early_allow_);
    consumer_->start();
    publisher_->start();
    return {};
  }

  void publish(std::vector<Outgoing> batch) override {
    if (publisher_) publisher_->publish(std::move(batch));
  }
  void ack(std::vector<DeliveryTag> tags) override {
    if (consumer_) consumer_->ack(std::move(tags));
  }
  void stop_intake() override {
    if (consumer_) consumer_->stop_intake();
  }
  void allow_publish_until(BootMs deadline) override {
    if (publisher_) {
      publisher_->allow_until(deadline);
    } else {
      early_allow_ = deadline;
    }
  }

  bool stands(const DeliveryTag& tag) const override {
    return consumer_ && consumer_->stands(tag.connection);
  }
  void requeue(std::vector<DeliveryTag> tags) override {
    if (consumer_) consumer_->requeue(std::move(tags));
  }
  void drop_publishing(std::string reason) override {
    if (publisher_) publisher_->drop(std::move(reason));
  }

  void stop(Ms most) override {
    std::lock_guard lock(mutex_);
    if (!consumer_ || stopped_) return;
    stopped_ = true;
    const auto deadline = Clock::now() + most;
    consumer_->order_stop(deadline);
    publisher_->order_stop(deadline);
    publisher_->join();
    consumer_->join();
  }

 private:
  const BrokerOptions options_;
  std::mutex mutex_;  // start against stop
  bool stopped_ = false;
  Url url_;
  std::optional<BootMs> early_allow_;
  std::optional<rabbit::Voice> voice_;
  // Set once, in start(), before any other call.
  std::unique_ptr<rabbit::Consumer> consumer_;
  std::unique_ptr<rabbit::Publisher> publisher_;
};

}  // namespace

std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options) {
  return std::make_unique<RabbitBroker>(std::move(options));
}

}  // namespace rung
