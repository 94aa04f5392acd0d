#include "tests/contract/broker/world.h"

#include <set>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/base/url.h"
#include "tests/support/amqp_probe.h"
#include "tests/support/clock.h"
#include "tests/support/memory/memory_broker.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

class MemoryWorld final : public World {
 public:
  explicit MemoryWorld(BrokerOptions options) : broker_(with_prefix(std::move(options), prefix_)) {}
  Broker& broker() override { return broker_; }
  void declare(const std::string& queue) override { broker_.declare(queue); }
  void remove(const std::string& queue) override { broker_.remove(queue); }
  bool reject(const std::string& queue) override {
    return eventually([&] { return broker_.reject(queue); });
  }
  bool put(const std::string& exchange, const std::string& key, const Message& message) override {
    return broker_.put(exchange, key, message);
  }
  std::optional<Message> take(const std::string& queue) override {
    std::optional<Message> message;
    eventually([&] { return (message = broker_.take(queue)).has_value(); });
    return message;
  }
  std::size_t depth(const std::string& queue) override { return broker_.depth(queue); }
  void cut() override { broker_.drop_connection(); }
  void cut_error_intake() override { broker_.drop_error_intake(); }
  void go_away() override { broker_.go_away(); }
  void come_back() override { broker_.come_back(); }

 private:
  static BrokerOptions with_prefix(BrokerOptions options, std::string& prefix) {
    prefix = options.prefix = unique_name("contract");
    return options;
  }
  MemoryBroker broker_;
};

class RabbitWorld final : public World {
 public:
  explicit RabbitWorld(BrokerOptions options) {
    const auto url = parse_url(amqp_url());
    proxy_.emplace(url->host, url->port);
    prefix_ = options.prefix = unique_name("contract");
    options.urls = {*parse_url(with_port(amqp_url(), proxy_->port()))};
    broker_ = make_rabbit_broker(options, test_clock());
  }
  ~RabbitWorld() override {
    broker_->stop(Ms{2000});
    for (const std::string& queue : queues_) probe_.remove(queue);
    probe_.remove_place(prefix_);
  }
  Broker& broker() override { return *broker_; }
  void declare(const std::string& queue) override {
    probe_.declare(queue, {{"x-dead-letter-exchange", prefix_ + ".failed"}});
    queues_.insert(queue);
  }
  void remove(const std::string& queue) override { probe_.remove(queue); }
  bool reject(const std::string& queue) override {
    const auto received = probe_.get_within(queue);
    if (received) probe_.reject(*received);
    return received.has_value();
  }
  bool put(const std::string& exchange, const std::string& key, const Message& message) override {
    return probe_.publish(exchange, key, message);
  }
  std::optional<Message> take(const std::string& queue) override {
    auto received = probe_.get_within(queue);
    if (!received) return std::nullopt;
    probe_.ack(*received);
    return std::move(received->message);
  }
  std::size_t depth(const std::string& queue) override { return probe_.depth(queue).value_or(0); }
  void cut() override { proxy_->cut(); }
  void cut_error_intake() override {
    proxy_->cut_those_with("intake of error queues");  // the connection's name
    proxy_->cut_those_with("");
  }
  void go_away() override {
    proxy_->refuse(true);
    proxy_->cut();
  }
  void come_back() override { proxy_->refuse(false); }

 private:
  AmqpProbe probe_;
  std::optional<TcpProxy> proxy_;
  std::unique_ptr<Broker> broker_;
  std::set<std::string> queues_;
};

}  // namespace

std::unique_ptr<World> make_memory_world(const BrokerOptions& options) {
  return std::make_unique<MemoryWorld>(options);
}
std::unique_ptr<World> make_rabbit_world(const BrokerOptions& options) {
  return std::make_unique<RabbitWorld>(options);
}

}  // namespace rung::test
