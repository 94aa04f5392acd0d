// RabbitMQ at several addresses: addresses that are silent, refuse, or reject the login are skipped.
#include <gmock/gmock.h>

#include <set>

#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/wire/connection.h"
#include "src/core/base/url.h"
#include "src/store/mysql/mysql_store.h"
#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/clock.h"
#include "tests/support/mysql.h"
#include "tests/support/own_servers.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"
#include "tests/support/silent.h"

namespace rung::test {
namespace {

// A database beside that of all tests, and the broker that comes with it. It takes writes, and does so again
// at the end.
class SecondDatabase {
 public:
  SecondDatabase() { read_only(false); }
  ~SecondDatabase() { read_only(false); }
  void read_only(bool yes) const { sql(std::string("SET GLOBAL read_only = ") + (yes ? "1" : "0")); }
  int port() const { return parse_url(servers().variable("RUNG_TEST_MYSQL"))->port; }
  std::string broker() const { return servers().variable("RUNG_TEST_AMQP"); }
  std::string sql(const std::string& statement) const { return servers().sql(statement); }

 private:
  static OwnServers& servers() {
    static OwnServers of_this_binary;
    return of_this_binary;
  }
};

// Creates a user without special rights, to whom read_only applies, on both servers, while both accept
// writes. Returns the URL of `schema` for that user.
std::string plain_user(const SecondDatabase& second, const std::string& schema, int port) {
  const std::string make = "CREATE USER IF NOT EXISTS 'rung_plain'@'%' IDENTIFIED BY 'word'; GRANT ALL ON " +
                           schema + ".* TO 'rung_plain'@'%'";
  second.sql(make);
  OwnServers::run("\"$RUNG_TEST_SQL\" -e \"" + make + "\"");
  return "mysql://rung_plain:word@127.0.0.1:" + std::to_string(port) + "/" + schema;
}

class BrokerAddresses : public RabbitTest {
 protected:
  static Url at_port(int port) { return *parse_url(with_port(amqp_url(), port)); }

  // With `bad` among the addresses it is up, at the good one, and what it shall publish is confirmed. Which
  // one is tried first is diced: often enough that each is.
  void serves_beside(const Url& bad) {
    for (int i = 0; i < 4; ++i) {
      BrokerRecorder sink;
      options_.urls = {bad, good_};
      if (i % 2 == 1) std::swap(options_.urls[0], options_.urls[1]);
      const auto broker = make_rabbit_broker(options_, test_clock());
      ASSERT_TRUE(broker->start(sink));
      broker->allow_publish_until(test_clock().boot() + Ms{300'000});
      EXPECT_TRUE(sink.up()) << sink.statuses().back().reason;
      broker->publish({outgoing(1)});
      const auto result = sink.result(1);
      EXPECT_TRUE(result && result->how == How::confirmed);
      EXPECT_EQ(sink.statuses().back().publishing_at, good_.host_port(5672));
      EXPECT_EQ(sink.statuses().back().consuming_at, good_.host_port(5672));
      broker->stop(Ms{2000});
    }
  }

  void SetUp() override { probe().declare(queue_); }

  Url good_ = *parse_url(amqp_url());
};

TEST_F(BrokerAddresses, OneThatTakesConnectionsAndSaysNothing) {
  const SilentPort silent;
  serves_beside(at_port(silent.port()));
}

// As a node of a cluster whose queues have no leader: it takes us in, and does not answer a declare.
TEST_F(BrokerAddresses, OneThatTakesUsInAndAnswersNoDeclare) {
  for (int i = 0; i < 4; ++i) {  // which one is tried first is diced
    BrokerRecorder sink;
    TcpProxy a(good_.host, good_.port), b(good_.host, good_.port);
    for (TcpProxy* one : {&a, &b}) one->deafen("(intake)", failed());
    options_.urls = {at_port(a.port()), at_port(b.port()), good_};
    const auto broker = make_rabbit_broker(options_, test_clock());
    ASSERT_TRUE(broker->start(sink));
    ASSERT_TRUE(sink.up());
    for (const BrokerStatus& told : sink.statuses())
      EXPECT_EQ(told.reason, "") << "an outage is told only where no address serves";
    EXPECT_EQ(sink.statuses().back().consuming_at, good_.host_port(5672));
    broker->stop(Ms{2000});
  }
}

// The management API is asked at the broker's hosts: of them the first that answers.
TEST_F(BrokerAddresses, TheManagementApiOfAHostThatIsNotThere) {
  // Port 15672 is not ours to listen at: what is asked is which hosts are tried, and that none is the last.
  options_.urls = {*parse_url("amqp://guest:guest@127.77.0.1:5672/%2f"),
                   *parse_url("amqp://guest:guest@127.77.0.2:5672/%2f")};
  auto admin = rabbit::management_admin(options_, Ms{1000});
  ASSERT_TRUE(admin);
  EXPECT_EQ((*admin)->name(), "the management API at 127.77.0.1:15672");
  EXPECT_FALSE((*admin)->reach());
  EXPECT_EQ((*admin)->name(), "the management API at 127.77.0.2:15672");
  options_.rabbitmq.management = *parse_url(env("RUNG_TEST_MANAGEMENT"));
  admin = rabbit::management_admin(options_, Ms{120'000});
  ASSERT_TRUE(admin);
  const auto reached = (*admin)->reach();
  EXPECT_TRUE(reached) << reached.error().message;
}

// ---- A database at several addresses: addresses that are silent, refuse, or accept no writes are skipped,
// and all connections of a process use the same one.

using testing::HasSubstr;

class DatabaseAddresses : public testing::Test {
 protected:
  DatabaseAddresses() { schema_.open_store(); }

  std::string at_port(int port) const { return with_port(schema_.url(), port); }
  int port() const { return parse_url(schema_.url())->port; }
  StoreOptions options(const std::string& first, const std::string& other) const {
    StoreOptions made = schema_.options();
    made.urls = {*parse_url(first), *parse_url(other)};
    return made;
  }
  // With `bad` before it the good one serves: `bad` has two seconds of its own, not all of the time-out.
  void serves_after(const std::string& bad, StoreOptions made = {}) {
    if (made.urls.empty()) made = schema_.options();
    made.urls.insert(made.urls.begin(), *parse_url(bad));
    made.timeout = std::chrono::hours{1};
    open_mysql_store(made, test_clock())->now();
  }

  MysqlSchema schema_;
};

TEST_F(DatabaseAddresses, OneThatIsReadOnly) {
  SecondDatabase second;
  second.sql("CREATE DATABASE IF NOT EXISTS " + schema_.name());
  const std::string replica = plain_user(second, schema_.name(), second.port());
  second.read_only(true);
  std::vector<std::string> told;
  StoreOptions made = options(replica, schema_.url());
  made.addresses = mysql_addresses(made, test_clock());
  made.addresses->on_change([&](const std::string& address, const std::string& passed_over) {
    told.push_back(address + " after " + passed_over);
  });
  open_mysql_store(made, test_clock())->check_schema();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0], testing::StartsWith("127.0.0.1:" + std::to_string(port()) + " after "));
  EXPECT_THAT(told[0], HasSubstr("read-only"));
}

// A primary that is deposed while it serves: the write fails, the next goes to the one that takes writes.
TEST_F(DatabaseAddresses, OneThatBecomesReadOnlyWhileItServes) {
  SecondDatabase second;
  const std::string first = plain_user(second, schema_.name(), second.port());
  const auto store = open_mysql_store(options(first, schema_.url()), test_clock());
  store->migrate();
  store->set_setting("where", "second");
  second.read_only(true);
  const auto failed = result_of([&] { store->set_setting("where", "lost"); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, Error::Kind::transient) << failed.error().message;
  store->set_setting("where", "shared");
  EXPECT_EQ(schema_.value("SELECT value FROM rung_settings WHERE name = 'where'"), "shared");
  EXPECT_EQ(second.sql("SELECT value FROM " + schema_.name() + ".rung_settings WHERE name = 'where'"),
            "second\n");
}

// One writer at a time: if one connection had to move, the others follow.
TEST_F(DatabaseAddresses, AllConnectionsAreAtTheSameOne) {
  const auto url = parse_url(schema_.url());
  TcpProxy a(url->host, url->port), b(url->host, url->port);
  StoreOptions made = options(at_port(a.port()), at_port(b.port()));
  made.addresses = mysql_addresses(made, test_clock());
  const auto one = open_mysql_store(made, test_clock()), two = open_mysql_store(made, test_clock());
  EXPECT_EQ(a.connections(), 2U);
  a.refuse();  // new connections only; open ones continue
  const auto three = open_mysql_store(made, test_clock());
  EXPECT_EQ(b.connections(), 1U);
  one->now();
  two->now();
  EXPECT_EQ(b.connections(), 3U);
}

// ---- The program with several addresses: its log, no loss when it moves from one to the other, and the
// output of rung check and rung doctor.

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
