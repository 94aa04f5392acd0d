#include "plugin/brokers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rung {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& url) {
  const SystemClock clock;
  BrokerOptions options;
  options.url = url;
  const auto made = make_broker(std::move(options), clock);
  return made ? "" : made.error().message;
}

TEST(MakeBroker, TheSchemeChooses) {
  EXPECT_EQ(refusal("amqp://guest:guest@127.0.0.1/%2f"), "");
  EXPECT_EQ(refusal("AMQPS://broker"), "") << "schemes have no case";
  EXPECT_EQ(refusal("redis://127.0.0.1"),
            "broker.url: unsupported scheme \"redis://\"; supported: amqp://, amqps://");
}

TEST(MakeBroker, ARefusalShowsNoPassword) {
  for (const char* url : {"", "127.0.0.1", "redis://u:secret@host", "amqp://u:secret@host:port"}) {
    EXPECT_THAT(refusal(url), HasSubstr("broker.url: ")) << url;
    EXPECT_THAT(refusal(url), Not(HasSubstr("secret"))) << url;
  }
}

}  // namespace
}  // namespace rung
