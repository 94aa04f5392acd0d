// The program with several addresses: its log, no loss when it moves from one to the other, and the output of
// rung check and rung doctor.
#include "tests/support/sidecar.h"

#include "src/core/base/url.h"
#include "tests/integration/addresses/second_database.h"
#include "tests/support/proxy.h"
#include "tests/support/silent.h"

namespace rung::test {
namespace {

class SidecarAddresses : public SidecarTest {
 protected:
  // A message that failed climbs until it is parked.
  void climbs(const std::string& queue, const std::string& body) {
    Message message;
    message.body = body;
    fail(queue, message);
    // A publish whose confirm was cut off comes again: not what is looked for here.
    std::string came;
    for (int i = 0; i < 5 && came != body; ++i) came = delivery(queue).message.body;
    EXPECT_EQ(came, body);
  }
  std::string proxied(const std::string& url, const TcpProxy& proxy) { return with_port(url, proxy.port()); }
  Ran doctor() { return run_shell("'" + rung_program() + "' doctor -c '" + rung().config_path() + "'"); }
};

// Two proxies before one broker and before one database, as two nodes: each in turn dies.
TEST_F(SidecarAddresses, TheOneThatServesDies) {
  const auto amqp_at = *parse_url(amqp_url()), db_at = *parse_url(db.url());
  TcpProxy broker_a(amqp_at.host, amqp_at.port), broker_b(amqp_at.host, amqp_at.port);
  TcpProxy db_a(db_at.host, db_at.port), db_b(db_at.host, db_at.port);
  config.broker_urls = {proxied(amqp_url(), broker_a), proxied(amqp_url(), broker_b)};
  config.store_urls = {proxied(db.url(), db_a), proxied(db.url(), db_b)};
  const std::string queue = attached();
  start();
  climbs(queue, "before");
  for (TcpProxy* one : {&broker_a, &db_a}) {
    one->refuse();
    one->cut();
  }
  climbs(queue, "with b");
  EXPECT_TRUE(rung().logged("database connected address=127.0.0.1:" + std::to_string(db_b.port())))
      << rung().log_tail();
  for (TcpProxy* one : {&broker_a, &db_a}) one->refuse(false);
  for (TcpProxy* one : {&broker_b, &db_b}) {
    one->refuse();
    one->cut();
  }
  climbs(queue, "with a again");
}

TEST_F(SidecarAddresses, DoctorTellsBrokersThatAreNotOfOneCluster) {
  SecondDatabase second;
  config.broker_urls = {amqp_url(), second.broker()};
  sidecar_ = std::make_unique<Sidecar>(config);
  const Ran ran = doctor();
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.out.find("to different brokers, which do not share queues"), std::string::npos) << ran.out;
}

TEST_F(SidecarAddresses, DoctorTellsDatabasesThatBothTakeWrites) {
  SecondDatabase second;
  second.sql("CREATE DATABASE IF NOT EXISTS " + db.name());
  config.store_urls = {db.url(), with_port(db.url(), second.port())};
  sidecar_ = std::make_unique<Sidecar>(config);
  const Ran ran = doctor();
  EXPECT_NE(ran.out.find("several addresses accept writes"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace rung::test
