// Whether the same failure was taken in twice: what its key covers, and what not.
#include <gtest/gtest.h>

#include "src/core/machine/headers.h"
#include "src/core/message/identity.h"

namespace rung {
namespace {

struct IntakeKey : ::testing::Test {
  Failure f;
  Message m;
  IntakeKey() {
    f.queue = "orders";
    f.failed_at_s = 1'700'000'000;
    f.failed_count = 2;
    m.body = "body";
    m.properties.message_id = "m-1";
  }
  std::string key() const { return intake_key(f, m, message_digest(strip(m, nullptr))); }
};

TEST_F(IntakeKey, TheSameAgain) {
  const std::string first = key();
  EXPECT_EQ(first.size(), 16u);
  f.error = "another text";
  f.directives.never = true;
  m.headers = Table{{"retry-error", "another text"}, {"retry-executor", "host-2"}};
  EXPECT_EQ(key(), first) << "what describes the failure";
}

TEST_F(IntakeKey, NotTheSame) {
  const std::string first = key();
  const auto differs = [&](const char* what, auto change) {
    const Failure f_before = f;
    const Message m_before = m;
    change();
    EXPECT_NE(key(), first) << what;
    EXPECT_EQ(key().size(), 16u) << what;
    f = f_before;
    m = m_before;
  };
  differs("queue", [&] { f.queue = "orders2"; });
  differs("message-id", [&] { m.properties.message_id = "m-2"; });
  differs("body", [&] { m.body = "bodz"; });
  differs("a header", [&] { m.headers = Table{{"x", 1}}; });
  differs("a property", [&] { m.properties.priority = std::uint8_t{3}; });
  differs("a property that is not published again", [&] { m.properties.expiration = "1000"; });
  differs("exchange", [&] { f.exchange = "events"; });
  differs("routing key", [&] { f.routing_key = "order.created"; });
  differs("died again", [&] { f.failed_count = 3; });
  differs("another death", [&] { f.failed_at_s = 1'700'000'001; });
  differs("no death", [&] { f.failed_at_s.reset(); });
  differs("fields that run together", [&] {
    f.queue = "order";
    m.properties.message_id = "sm-1";
  });
}

TEST_F(IntakeKey, NoneWithoutAMessageId) {
  m.properties.message_id.reset();
  EXPECT_EQ(key(), "");
  m.properties.message_id = "";
  EXPECT_EQ(key(), "");
}

}  // namespace
}  // namespace rung
