// A service is unavailable when the sidecar starts: the sidecar keeps running, logs it once, and recovers by
// itself.
#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

class NotThereAtStart : public OutageTest {
 protected:
  void messages_flow() {
    const std::string queue = attached();
    fail(queue, Message{.properties = {}, .headers = {}, .body = "hello"});
    EXPECT_EQ(int_header(delivery(queue).message, "retry-attempt"), 1);
  }
};

TEST_F(NotThereAtStart, Rabbitmq) {
  rabbit.refuse();
  start_unready();
  some_tries(rabbit);
  EXPECT_EQ(times("broker unavailable"), 1);
  rabbit.refuse(false);
  EXPECT_TRUE(rung().logged("broker reconnected"));
  messages_flow();
  EXPECT_EQ(times("broker unavailable"), 1);
  EXPECT_EQ(times("broker reconnected"), 1);
  EXPECT_EQ(times("database unavailable"), 0);
}

TEST_F(NotThereAtStart, Mysql) {
  mysql.refuse();
  start_unready();
  some_tries(mysql);
  EXPECT_TRUE(rung().logged("database unavailable"));
  ASSERT_TRUE(rung().logged("broker connected"));
  // Messages that arrive meanwhile wait, unacked.
  const std::string queue = attached();
  fail(queue, Message{.properties = {}, .headers = {}, .body = "early bird"});
  mysql.refuse(false);
  EXPECT_TRUE(rung().logged("database available again"));
  EXPECT_EQ(delivery(queue).message.body, "early bird");
  messages_flow();
  EXPECT_EQ(times("database unavailable"), 1);
  EXPECT_EQ(times("database available again"), 1);
  EXPECT_EQ(times("broker unavailable"), 0);
}

TEST_F(NotThereAtStart, ADatabaseThatTakesEncryptedConnectionsOnly) {
  db.exec("SET GLOBAL require_secure_transport = ON");
  start_unready();
  EXPECT_TRUE(rung().logged("set store.tls: verify")) << rung().log_tail();
  EXPECT_TRUE(rung().running());
  db.exec("SET GLOBAL require_secure_transport = OFF");
  EXPECT_TRUE(rung().logged("database available again"));
  messages_flow();
}

TEST(StartWarns, OfWhatTheServersSettingsPutAtRisk) {
  MysqlSchema admin;
  admin.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
  SidecarConfig config;
  config.store_url = admin.url();
  Sidecar sidecar(config);
  sidecar.start();
  EXPECT_TRUE(sidecar.logged("check=database.flush")) << sidecar.log_tail();
  admin.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
  EXPECT_EQ(sidecar.log().find("check=database.wsrep"), std::string::npos);
}

}  // namespace
}  // namespace rung::test
