// error_queues and dialects of the config.
#include "src/core/rules/dialect.h"
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ErrorQueueConfig : public ConfigTest {
 protected:
  std::vector<std::string> with(const std::string& entry) const { return problems(kServers + entry); }
};

TEST_F(ErrorQueueConfig, IsTakenAsWritten) {
  const auto loaded = load(kServers + R"(
ladders: { short: [1s] }
error_queues:
  - { from: orders_error, dialect: masstransit, ladder: short }
  - { from: "*_error", dialect: masstransit }
  - { from: error, dialect: nservicebus, ladder: none }
  - { from: payments.dead, to: payments }
)");
  ASSERT_TRUE(loaded.ok());
  const ErrorQueues& queues = loaded.config.rules->error_queues();
  EXPECT_EQ(loaded.config.broker.error_queues.get(), loaded.config.rules->error_queues_ptr().get());
  ASSERT_NE(queues.find("orders_error"), nullptr);
  EXPECT_EQ(queues.find("orders_error")->ladder, "short");
  EXPECT_EQ(target_by_name(*queues.find("orders_error"), "orders_error"), "orders");
  ASSERT_NE(queues.find("bills_error"), nullptr);
  EXPECT_TRUE(queues.find("bills_error")->retries);
  EXPECT_FALSE(queues.find("error")->retries);
  EXPECT_EQ(queues.find("payments.dead")->dialect->name, "plain");
  EXPECT_EQ(target_by_name(*queues.find("payments.dead"), "payments.dead"), "payments");
  EXPECT_EQ(queues.find("orders"), nullptr);
}

TEST_F(ErrorQueueConfig, ReadsDialectsOfOnesOwn) {
  write("mine.yaml", "name: mine\nqueue: [ { queue_name: true, match: 'dead-(.+)' } ]\n");
  const auto loaded =
      load(kServers + "dialects: mine.yaml\nerror_queues: [ { from: dead-orders, dialect: mine } ]\n");
  ASSERT_TRUE(loaded.ok()) << loaded.problems.front().str();
  const ErrorQueue* entry = loaded.config.rules->error_queues().find("dead-orders");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(target_by_name(*entry, "dead-orders"), "orders");

  write("other.yaml", "name: masstransit\nerror: [ { header: E } ]\n");
  const auto replaced =
      load(kServers +
           "dialects: [mine.yaml, other.yaml]\nerror_queues: [ { from: a_error, dialect: masstransit } ]\n");
  ASSERT_TRUE(replaced.ok());
  EXPECT_EQ(replaced.config.rules->error_queues().find("a_error")->dialect->error.size(), 1U);
  EXPECT_TRUE(replaced.config.rules->error_queues().find("a_error")->dialect->queue.empty());
}

TEST_F(ErrorQueueConfig, ReportsProblemsInADialectFileWithItsName) {
  write("mine.yaml", "name: mine\nqueue: 5\n");
  EXPECT_THAT(with("dialects: mine.yaml\nerror_queues: [ { from: a, dialect: mine } ]\n"),
              testing::Contains(HasSubstr("mine.yaml:2:8: queue: expected a list: write [{ header: NAME }")));
  EXPECT_THAT(with("dialects: none.yaml\n"), ElementsAre(HasSubstr("none.yaml\" cannot be read")));
  write("again.yaml", "name: mine\n");
  write("mine.yaml", "name: mine\n");
  EXPECT_THAT(with("dialects: [mine.yaml, again.yaml]\n"),
              ElementsAre(HasSubstr("another file has a dialect named mine")));
}

TEST_F(ErrorQueueConfig, BelongsToAGroup) {
  const std::string groups =
      "groups:\n  eu: { queues: [orders], store: { url: \"mysql://r@h/a\" } }\n"
      "  us: { queues: [bills], store: { url: \"mysql://r@h/b\" } }\n";
  const std::string broker = "broker: { url: \"amqp://guest@127.0.0.1/%2f\" }\n";
  const std::string entries =
      "error_queues: [ { from: orders_error, dialect: masstransit, group: eu }, { from: bills_error, "
      "dialect: "
      "masstransit, group: us } ]\n";
  const auto loaded =
      load_config(write("rung.yaml", broker + groups + entries), ConfigFor::sidecar, {.name = "eu"});
  ASSERT_TRUE(loaded.ok()) << loaded.problems.front().str();
  EXPECT_NE(loaded.config.rules->error_queues().find("orders_error"), nullptr);
  EXPECT_EQ(loaded.config.rules->error_queues().find("bills_error"), nullptr);
  EXPECT_THAT(problems(broker + groups + "error_queues: [ { from: a } ]\n"),
              testing::Contains(HasSubstr("set the group that takes these messages in")));
}

}  // namespace
}  // namespace rung
