// rung doctor on a healthy system, and on broken ones.

#include "tests/integration/cli/admin.h"
#include "tests/integration/cli/fixture.h"
#include "tests/support/http_between.h"

namespace rung::cli {
namespace {

class Doctor : public CliTest {
 protected:
  Doctor() {
    admin.queue("orders");
    store();  // makes the tables
    use(admin.url("guest", "guest"), db.url());
    if (rung({"attach", "orders"}).exit != 0) throw std::runtime_error("rung attach failed");
  }
  ~Doctor() override {
    if (!database_user_.empty()) db.exec("DROP USER IF EXISTS '" + database_user_ + "'@'%'");
  }
  void use(const std::string& broker_url, const std::string& store_url,
           const std::string& management = needed("RUNG_TEST_MANAGEMENT"),
           const std::string& queue_type = "classic", const std::string& more = "") {
    std::ofstream(config_path()) << "broker: { url: \"" << broker_url << "\", prefix: " << prefix
                                 << ", management: \"" << management << "\", queue_type: " << queue_type
                                 << " }\n"
                                 << "store: { url: \"" << store_url << "\" }\n"
                                 << "queues: { orders: {} }\n"
                                 << more;
  }
  // Creates a database user with the password "pw" and these privileges; returns the URL.
  std::string database_url(const std::string& privileges, const std::string& password = "pw") {
    database_user_ = "doc" + std::to_string(getpid());
    db.exec("CREATE USER '" + database_user_ + "'@'%' IDENTIFIED BY 'pw'");
    db.exec("GRANT " + privileges + " ON `" + db.name() + "`.* TO '" + database_user_ + "'@'%'");
    std::string url = db.url();
    const auto host = url.rfind('@') + 1;
    return "mysql://" + database_user_ + ":" + password + "@" + url.substr(host);
  }
  // The result of the check of this name: "status: what, fix".
  std::string said(const std::string& name) {
    for (const json& check : answer["checks"]) {
      if (check["name"] == name)
        return check["status"].get<std::string>() + ": " + check["what"].get<std::string>() + ", " +
               (check["fix"].is_null() ? "" : check["fix"].get<std::string>());
    }
    return "no such check";  // not the whole answer: a test may look for a text of another check
  }
  int examine() {
    const Ran ran = rung({"doctor", "--json"});
    answer = json::parse(ran.out, nullptr, false);
    EXPECT_TRUE(answer.is_object()) << ran.out << ran.err;
    return ran.exit;
  }

  BrokerAdmin admin;
  json answer;

 private:
  std::string database_user_;
};

TEST_F(Doctor, AllIsRight) {
  const json before = admin.get("/api/definitions/" + admin.vhost);
  EXPECT_EQ(examine(), 0) << answer.dump(1);
  EXPECT_EQ(answer["healthy"], true);
  for (const json& check : answer["checks"]) {
    if (check["name"] == "http.listen") continue;
    EXPECT_EQ(check["status"], "ok") << check.dump();
  }
  EXPECT_THAT(said("queue.orders"), HasSubstr("attached by policy rung-orders"));
  // It leaves nothing behind.
  EXPECT_EQ(admin.get("/api/definitions/" + admin.vhost), before);
}

// Each finding has the command that mends it: it is run as printed. The broker's API shows a policy at
// different times for different queues, up to five seconds later.
TEST_F(Doctor, SettingsOfOthersOnItsOwnQueues) {
  admin.policy("all", ".*", {{"message-ttl", 60000}});
  admin.operator_policy("limits", "^" + prefix, {{"max-length", 1000}});
  // The command that mends the first finding.
  const auto first_fix = [&] {
    for (const json& check : answer["checks"]) {
      if (check["status"] == "wrong") return check["fix"].get<std::string>();
    }
    return std::string();
  };
  const auto run = [&](std::string command) {
    ASSERT_TRUE(command.starts_with("rabbitmqctl ")) << answer.dump(1);
    command.replace(0, std::string("rabbitmqctl").size(), needed("RUNG_TEST_RABBITMQCTL"));
    EXPECT_EQ(std::system((command + " >/dev/null").c_str()), 0) << command;
  };
  const std::string name = "settings." + prefix + ".failed";
  ASSERT_TRUE(test::eventually(
      [&] { return examine() == 1 && said(name).find("sets m") != std::string::npos; }, Ms{120'000}))
      << answer.dump(1);
  EXPECT_THAT(said(name), HasSubstr("wrong: "));
  for (int i = 0; i < 3 && examine() == 1; ++i) {
    const std::string fix = first_fix();
    run(fix);
    EXPECT_TRUE(test::eventually([&] { return examine() == 0 || first_fix() != fix; })) << answer.dump(1);
  }
  EXPECT_EQ(examine(), 0) << answer.dump(1);
  EXPECT_THAT(said("settings"), HasSubstr("ok: "));
}

TEST_F(Doctor, ACertificateThatExpiresSoon) {
  const std::string cert = std::filesystem::path(config_path()).parent_path() / "cert.pem",
                    key = cert + ".key";
  const auto make = [&](const char* days) {
    const auto made = run_program({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", days,
                                   "-keyout", key, "-out", cert, "-subj", "/CN=rung"});
    ASSERT_EQ(made.exit, 0) << made.err;
    examine();
  };
  use(admin.url("guest", "guest"), db.url(), needed("RUNG_TEST_MANAGEMENT"), "classic",
      "http: { listen: \"127.0.0.1:8025\", cert: \"" + cert + "\", key: \"" + key + "\" }\n");
  make("1");
  EXPECT_THAT(said("files.http_cert"), ContainsRegex("^warn: .*cert.pem expires in (1d|23h)"));
  make("60");
  EXPECT_THAT(said("files.http_cert"), HasSubstr("ok: "));
}

TEST_F(Doctor, ATargetQueueThatDeadLettersWhatItRefuses) {
  admin.policy(
      "full", "^orders$",
      {{"dead-letter-exchange", prefix + ".failed"}, {"max-length", 10}, {"overflow", "reject-publish-dlx"}},
      9);
  ASSERT_TRUE(test::eventually(
      [&] {
        examine();
        return said("queue.orders.overflow").find("reject-publish-dlx") != std::string::npos;
      },
      Ms{120'000}))
      << answer.dump(1);
  const Ran ran = rung({"attached", "orders"});
  EXPECT_THAT(ran.out, HasSubstr("set overflow: reject-publish"));
  EXPECT_THAT(rung({"attach", "orders"}).out, HasSubstr("reject-publish-dlx"));
}

TEST_F(Doctor, AWrongPasswordOfTheDatabase) {
  use(admin.url("guest", "guest"), database_url("ALL PRIVILEGES", "wrong"));
  EXPECT_EQ(examine(), 1);
  EXPECT_THAT(said("database.login"), HasSubstr("wrong: the database rejected user"));
  EXPECT_THAT(said("database.clock"), HasSubstr("skipped"));
  EXPECT_THAT(said("broker.login"), HasSubstr("ok"));
}

TEST_F(Doctor, AServiceThatIsAwayIsExitCode2) {
  use("amqp://guest:guest@127.0.0.1:1/%2f", db.url());
  EXPECT_EQ(examine(), 2) << answer.dump(1);
  EXPECT_THAT(said("broker.login"), HasSubstr("wrong: cannot connect to"));
  use(admin.url("guest", "guest"), "mysql://rung@127.0.0.1:1/rung");
  EXPECT_EQ(examine(), 2) << answer.dump(1);
  EXPECT_THAT(said("database.login"), HasSubstr("wrong: cannot connect to"));
}

TEST_F(Doctor, AMissingGrant) {
  use(admin.url("guest", "guest"),
      database_url("SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, LOCK TABLES, INDEX"));
  EXPECT_EQ(examine(), 1);
  EXPECT_THAT(said("database.grants"), HasSubstr("lacks: CREATE VIEW, GRANT CREATE VIEW ON"));
}

TEST_F(Doctor, AWrongPasswordOfTheBroker) {
  const std::string user = admin.user("management");
  admin.permit(user, ".*", ".*", ".*");
  use(admin.url(user, "wrong"), db.url());
  EXPECT_EQ(examine(), 1);
  EXPECT_THAT(said("broker.login"), HasSubstr("wrong password"));
  EXPECT_THAT(said("management"), HasSubstr("is wrong"));
}

TEST_F(Doctor, MissingRightsAtTheBroker) {
  const std::string user = admin.user("management");
  admin.permit(user, "^other", "^other", "^other");
  use(admin.url(user), db.url());
  EXPECT_EQ(examine(), 1);
  for (const char* name : {"broker.configure", "broker.write", "broker.write_queues"})
    EXPECT_THAT(said(name), HasSubstr("rabbitmqctl set_permissions -p " + admin.vhost + " " + user));
  admin.permit(user, "^" + prefix, "^(" + prefix + "|amq.default)", "^" + prefix);
  EXPECT_EQ(examine(), 0) << answer.dump(1);
  EXPECT_THAT(said("queue.orders.routing_key"), HasSubstr("warn: retries lose their routing key"));
}

// The management API of a cluster, simulated in front of the real one.
TEST_F(Doctor, ClassicQueuesOfItsOwnOnACluster) {
  const test::HttpBetween cluster(needed("RUNG_TEST_MANAGEMENT"), [](const std::string& path, auto& said) {
    if (path == "/api/nodes") said = {200, R"([{"name": "rabbit@a"}, {"name": "rabbit@b"}])"};
  });
  use(admin.url("guest", "guest"), db.url(), cluster.url());
  EXPECT_EQ(examine(), 0) << answer.dump(1);
  EXPECT_THAT(said("broker.queue_type"), HasSubstr("warn: RabbitMQ is a cluster of 2 nodes"));
  EXPECT_THAT(said("broker.queue_type"), HasSubstr("set broker.queue_type: quorum"));
  use(admin.url("guest", "guest"), db.url(), cluster.url(), "quorum");
  examine();
  EXPECT_THAT(said("broker.queue_type"), HasSubstr("ok: "));
}

TEST_F(Doctor, AQueueThatIsNotThereKeepsNoRoutingKey) {
  admin.remove_queue("orders");
  examine();
  EXPECT_THAT(said("queue.orders.routing_key"), HasSubstr("skipped"));
}

TEST_F(Doctor, RoutingKeysOfTheQueuesThatAPatternMatches) {
  admin.queue("shop.a");
  admin.queue("shop.b");
  const std::string user = admin.user("policymaker");
  admin.permit(user, ".*", ".*", ".*");
  std::ofstream(config_path()) << "broker: { url: \"" << admin.url(user) << "\", prefix: " << prefix
                               << ", management: \"" << needed("RUNG_TEST_MANAGEMENT") << "\" }\n"
                               << "store: { url: \"" << db.url() << "\" }\n"
                               << "queues: { \"shop.*\": {} }\n";
  const auto both_match = [&] {
    examine();
    return said("queue.shop.*").find("ok: 2 queues match") == 0;
  };
  ASSERT_TRUE(test::eventually(both_match)) << answer.dump(1);
  EXPECT_THAT(said("queue.shop.b.routing_key"), HasSubstr("no such check"));
  admin.permit(user, ".*", "^(?!shop\\.b$)", ".*");
  examine();
  EXPECT_THAT(said("queue.shop.b.routing_key"), HasSubstr("warn: retries lose their routing key"));
  EXPECT_THAT(said("queue.shop.a.routing_key"), HasSubstr("no such check"));
}

// Its dead letters are published without confirms, and a quorum queue without a leader drops them.
TEST_F(Doctor, AClassicQueueBeforeAnInletThatIsAQuorumQueue) {
  ASSERT_TRUE(test::eventually([&] {
    examine();
    return said("queue.orders").find("ok: attached") != std::string::npos;
  }));
  EXPECT_EQ(said("queue.orders.strategy"), "no such check");
  admin.remove_queue(prefix + ".failed");
  admin.queue(prefix + ".failed", {{"x-queue-type", "quorum"}});
  admin.bind(prefix + ".failed", prefix + ".failed", "");
  EXPECT_TRUE(test::eventually([&] {
    examine();
    return said("queue.orders.strategy").find("warn: a classic queue loses what its consumers reject") == 0;
  })) << said("queue.orders.strategy");
}

TEST_F(Doctor, ErrorQueues) {
  const std::string user = admin.user("management");
  admin.permit(user, ".*", ".*", "^(" + prefix + "|orders_error|lost_error|failures$|temporary)");
  for (const char* queue : {"orders_error", "lost_error", "failures", "secret_error"}) admin.queue(queue);
  admin.publish("failures", "m");
  admin.queue("temporary", json::object(), true);
  admin.queue("temporary_error", json::object(), true);
  admin.queue(prefix + ".other_error");
  use(admin.url(user), db.url(), needed("RUNG_TEST_MANAGEMENT"), "classic",
      "error_queues:\n"
      "  - { from: failures, dialect: nservicebus }\n"
      "  - { from: secret_error, to: orders }\n"
      "  - { from: \"*_error\", dialect: masstransit }\n"
      "  - { from: nowhere, to: orders }\n"
      "  - { from: temporary, to: orders }\n"
      "  - { from: \"none-*\", to: orders }\n");
  // A queue that was just declared is listed a moment later.
  EXPECT_TRUE(test::eventually([&] {
    EXPECT_EQ(examine(), 1);
    return said("error_queue.*_error").find("ok: 2 queues match") == 0;
  })) << answer.dump(1);
  EXPECT_THAT(
      said("error_queue.failures"),
      HasSubstr(
          "ok: exists and can be read; dialect nservicebus, its messages go back to the queue that each"));
  EXPECT_THAT(said("error_queue.secret_error"), HasSubstr("wrong: it cannot be read: "));
  EXPECT_THAT(said("error_queue.secret_error"), HasSubstr("docs/permissions.md"));
  EXPECT_THAT(said("error_queue.lost_error"),
              HasSubstr("warn: its messages go back to 'lost', which does not exist"));
  EXPECT_THAT(said("error_queue.temporary"),
              HasSubstr("wrong: it is deleted with its messages when its last consumer leaves"));
  EXPECT_THAT(answer.dump(), Not(HasSubstr("temporary_error")));
  EXPECT_THAT(answer.dump(), Not(HasSubstr("other_error")));
  EXPECT_THAT(said("error_queue.nowhere"), HasSubstr("warn: no such queue: 'nowhere'"));
  EXPECT_THAT(said("error_queue.none-*"), HasSubstr("warn: no queue matches"));
  const json messages = admin.take("failures");
  ASSERT_EQ(messages.size(), 1U) << "the check takes no message";
  EXPECT_EQ(messages[0]["redelivered"], false);
}

TEST_F(Doctor, ADetachedQueueIsAWarning) {
  admin.remove_policy("rung-orders");
  EXPECT_TRUE(test::eventually([&] {
    EXPECT_EQ(examine(), 0);
    return said("queue.orders").find("warn: not attached") != std::string::npos;
  }));
  EXPECT_THAT(said("queue.orders"), HasSubstr("rung attach orders"));
}

}  // namespace
}  // namespace rung::cli
