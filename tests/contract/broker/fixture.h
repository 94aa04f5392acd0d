// What the suites of this folder share: a Broker of each kind, in its World.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/broker/world.h"
#include "tests/support/amqp_probe.h"
#include "tests/support/clock.h"
#include "tests/support/messages.h"

namespace rung::test {

using How = PublishResult::How;

inline constexpr Ms kLong{60000};
inline constexpr Ms kSoon{120'000};  // time limit for something that takes milliseconds, on a busy machine

struct Kind {
  const char* name;
  std::unique_ptr<World> (*make)(const BrokerOptions&);
};

class BrokerContract : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { build({}); }
  void TearDown() override {
    world_.reset();
    EXPECT_TRUE(sink_.one_session_each()) << "a batch of several sessions";
  }

  void build(BrokerOptions options) {
    world_.reset();
    world_ = GetParam().make(options);
    queue_ = world_->prefix() + "-orders";
  }
  void start() {
    ASSERT_TRUE(world_->broker().start(sink_).has_value());
    ASSERT_TRUE(sink_.up());
    world_->broker().allow_publish_until(test_clock().boot() + kLong);
  }
  Outgoing outgoing(std::uint64_t token, Message message = {}, std::string queue = {}) {
    return {token, "", queue.empty() ? queue_ : std::move(queue), std::move(message)};
  }
  static Message text(std::string body) {
    Message m;
    m.body = std::move(body);
    return m;
  }
  How how(std::uint64_t token) {
    const auto result = sink_.result(token);
    EXPECT_TRUE(result) << "token " << token << " has no result, or several";
    return result ? result->how : How::lost;
  }

  BrokerRecorder sink_;
  std::unique_ptr<World> world_;
  std::string queue_;
};

inline auto every_broker() {
  return testing::Values(Kind{"memory", make_memory_world}, Kind{"rabbitmq", make_rabbit_world});
}
inline std::string kind_name(const testing::TestParamInfo<Kind>& info) { return info.param.name; }

}  // namespace rung::test
