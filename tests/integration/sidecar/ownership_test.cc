// A database serves one broker, virtual host and prefix, and each of these has one database.
#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "src/core/base/url.h"
#include "tests/integration/sidecar/messages.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class OwnershipOfABroker : public SidecarTest {
 protected:
  OwnershipOfABroker() { config.broker += "  topology_check: 1s\n"; }
  ~OwnershipOfABroker() override { second_.reset(); }

  // A second sidecar with a config of its own.
  Sidecar& start_second(const SidecarConfig& its) {
    second_ = std::make_unique<Sidecar>(its);
    second_->start();
    return *second_;
  }
  SidecarConfig copied(const std::string& node = "node-2") {
    SidecarConfig its = config;
    its.node = node;
    port_ = free_port();
    its.more = "http: { listen: \"127.0.0.1:" + std::to_string(port_) + "\" }\n";
    return its;
  }
  // The second one says what is wrong everywhere, and does nothing.
  void expect_conflict(const SidecarConfig& its, AmqpProbe& there, const std::string& named) {
    // The binding is declared after the queue.
    ASSERT_TRUE(eventually([&] { return there.publish(its.prefix + ".failed", "", with_queue("orders")); }));
    ASSERT_TRUE(second_->logged("broker and database do not belong together")) << second_->log_tail();
    EXPECT_THAT(second_->log(), HasSubstr(named));
    HttpAnswer ready;
    ASSERT_TRUE(eventually([&] {
      ready = HttpClient(port_).call("GET", "/readyz");
      return ready.status == 503 && ready.body.find("ownership") != std::string::npos;
    })) << ready.body;
    EXPECT_THAT(ready.body, HasSubstr("rung adopt"));
    EXPECT_TRUE(eventually([&] {
      return HttpClient(port_).call("GET", "/metrics").body.find("rung_problem{problem=\"ownership\"} 1") !=
             std::string::npos;
    }));
    const Ran doctor = run_shell(rung_program() + " doctor -c " + second_->config_path());
    EXPECT_THAT(doctor.out, testing::ContainsRegex("wrong +ownership"));
    EXPECT_THAT(second_->log(), Not(HasSubstr("shards acquired")));
    EXPECT_EQ(there.depth(its.prefix + ".failed"), 1U);
    EXPECT_EQ(there.consumers(its.prefix + ".failed"), 0U);
    EXPECT_TRUE(second_->running());
  }
  Message with_queue(const std::string& queue) {
    Message message = order(unique_name("body"));
    message.headers->emplace_back("retry-queue", queue);
    return message;
  }
  std::string adopt(Sidecar& sidecar, const std::string& options = "--yes") {
    const Ran ran = run_shell(rung_program() + " adopt " + options + " -c " + sidecar.config_path());
    return std::to_string(ran.code) + ": " + ran.out;
  }
  // An event is written shortly after what it reports.
  bool recorded(const std::string& kind) {
    return eventually(
        [&] { return rows("SELECT * FROM retry_events WHERE kind = '" + kind + "'").size() == 1U; });
  }
  // A running sidecar of another database may set its mark first: the command says so, and is run again.
  bool adopted_beside_another(Sidecar& sidecar) {
    return eventually([&] { return adopt(sidecar).starts_with("0: "); });
  }

  std::unique_ptr<Sidecar> second_;
  int port_ = 0;
};

TEST_F(OwnershipOfABroker, OfAnotherNameIsServedOnlyOnceItIsAdopted) {
  start();
  sidecar_.reset();
  const std::string here = "CONCAT('\"cluster\":', JSON_EXTRACT(value, '$.cluster'))";
  db.exec("USE " + db.name());
  db.exec("UPDATE rung_settings SET value = REPLACE(value, " + here +
          ", '\"cluster\":\"rabbit@old\"') WHERE name = 'serves_broker'");
  SidecarConfig its = copied();
  start_second(its);
  expect_conflict(its, amqp, "this database serves broker 'rabbit@old'");
  EXPECT_THAT(adopt(*second_, ""), AllOf(StartsWith("1: "), HasSubstr("this database")));
  EXPECT_THAT(adopt(*second_), AllOf(StartsWith("0: "), HasSubstr("this database")));
  EXPECT_TRUE(second_->logged("broker and database belong together again")) << second_->log_tail();
  EXPECT_TRUE(eventually([&] { return current("orders").size() == 1; }));
  EXPECT_TRUE(recorded("ownership_changed"));
  EXPECT_THAT(adopt(*second_, ""), HasSubstr("nothing to do"));
}

TEST_F(OwnershipOfABroker, ACopyOfTheDatabaseIsFoundByItsInstancesAndStopsOnceTheOtherIsAdopted) {
  start();
  const MysqlSchema copy;
  SidecarConfig its = copied();
  its.store_url = copy.url();
  second_ = std::make_unique<Sidecar>(its);
  ASSERT_EQ(run_shell(rung_program() + " migrate -c " + second_->config_path()).code, 0);
  db.exec("REPLACE INTO " + copy.name() + ".rung_settings SELECT * FROM " + db.name() + ".rung_settings");
  second_->start();
  for (Sidecar* one : {&rung(), second_.get()}) {
    ASSERT_TRUE(one->logged("instances of another database serve this place, too"))
        << rung().log_tail() << second_->log_tail();
    const Ran doctor = run_shell(rung_program() + " doctor -c " + one->config_path());
    EXPECT_THAT(doctor.out, testing::ContainsRegex("wrong +ownership"));
    EXPECT_THAT(adopt(*one, ""), AllOf(StartsWith("1: "), HasSubstr("use a copy of it")));
  }
  EXPECT_TRUE(recorded("ownership_shared"));
  EXPECT_TRUE(eventually([&] { return amqp.consumers(failed()) == 2U; })) << "a warning stops nothing";
  EXPECT_TRUE(adopted_beside_another(rung()));
  EXPECT_TRUE(second_->logged("broker and database do not belong together")) << second_->log_tail();
  EXPECT_TRUE(eventually([&] { return amqp.consumers(failed()) == 1U; })) << "the first one alone";
  EXPECT_THAT(adopt(rung(), ""), HasSubstr("they fit: nothing to do"));
}

}  // namespace
}  // namespace rung::test
