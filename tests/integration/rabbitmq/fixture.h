// A RabbitBroker on a real RabbitMQ, with its own prefix and queue, which are removed afterwards.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/base/url.h"
#include "tests/support/amqp_probe.h"
#include "tests/support/broker_recorder.h"
#include "tests/support/clock.h"
#include "tests/support/messages.h"
#include "tests/support/proxy.h"

namespace rung::test {

using How = PublishResult::How;
using testing::HasSubstr;

inline constexpr Ms kSoon{120'000};  // time limit for something that takes milliseconds, on a busy machine

// An environment variable of tests/servers; the test fails if it is not set.
inline std::string env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0')
    throw std::runtime_error(std::string(name) + " is not set: see tests/run");
  return value;
}

inline Message text(std::string body) {
  Message m;
  m.body = std::move(body);
  return m;
}

class RabbitTest : public testing::Test {
 protected:
  RabbitTest() {
    options_.urls = {*parse_url(amqp_url())};
    options_.prefix = unique_name("it");
    options_.heartbeat = Ms{60'000};  // longer than a busy machine takes for anything
    queue_ = options_.prefix + "-orders";
  }
  void TearDown() override {
    if (broker_) broker_->stop(Ms{2000});
    AmqpProbe probe;
    probe.remove(queue_);
    probe.remove_place(options_.prefix);
  }
  void start() {
    broker_ = make_rabbit_broker(options_, test_clock());
    const auto started = broker_->start(sink_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    broker_->allow_publish_until(test_clock().boot() + Ms{300000});
  }
  void start_up() {
    probe().declare(queue_);
    start();
    ASSERT_TRUE(sink_.up()) << sink_.statuses().back().reason;
  }
  // Through a proxy from now on.
  TcpProxy& through_proxy() {
    const auto url = parse_url(amqp_url());
    proxy_ = std::make_unique<TcpProxy>(url->host, url->port);
    options_.urls = {*parse_url(with_port(amqp_url(), proxy_->port()))};
    return *proxy_;
  }
  AmqpProbe& probe() {
    if (!probe_) probe_ = std::make_unique<AmqpProbe>();
    return *probe_;
  }
  Outgoing outgoing(std::uint64_t token, Message message = {}) {
    return {token, "", queue_, std::move(message)};
  }
  // What it takes in next.
  Delivery next() {
    auto got = sink_.deliveries(1);
    if (got.size() != 1) throw std::runtime_error(std::to_string(got.size()) + " deliveries came, not one");
    return std::move(got[0]);
  }
  std::string failed() const { return options_.prefix + ".failed"; }
  How how(std::uint64_t token) {
    const auto result = sink_.result(token, Ms{120'000});
    EXPECT_TRUE(result) << "token " << token << " has no result, or several";
    return result ? result->how : How::lost;
  }

  BrokerOptions options_;
  std::string queue_;
  BrokerRecorder sink_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<AmqpProbe> probe_;
  std::unique_ptr<Broker> broker_;
};

}  // namespace rung::test
