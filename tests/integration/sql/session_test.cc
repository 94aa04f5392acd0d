// A connection under faults of the server, the network, or by a person.
#include "src/store/mysql/session.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "src/core/base/url.h"
#include "tests/integration/sql/fixture.h"
#include "tests/support/clock.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

class Hurt : public testing::Test {
 protected:
  void SetUp() override {
    store_ = open_mysql_store(schema_.options(), test_clock());
    fence_.node = store_->register_node({"a", "0.1.0", "h:1", 1}, Ms{3'600'000});
    const std::vector<int> shard{0};
    fence_.leases = store_->acquire(fence_.node, 1, shard, Ms{3'600'000});
  }

  NewTask task(std::int64_t id, std::string body = "x") {
    NewTask n;
    n.task.id = {id};
    n.task.queue = "q";
    n.task.next_at = EpochMs{1'789'000'000'000};
    n.message = std::make_shared<const Message>(Message{{}, {}, std::move(body)});
    n.origin_json = "{}";
    return n;
  }

  // Ends every connection that the store has.
  void kill() {
    for (const auto& row : schema_.query("SELECT id FROM " + schema_.processlist() + " WHERE db = '" +
                                         schema_.name() + "' AND id <> CONNECTION_ID()")) {
      try {
        schema_.exec("KILL " + row[0]);
      } catch (const std::exception&) {
        // it was gone by then
      }
    }
  }

  static Decision claim(const Task& task, const Circumstances& at) {
    Decision d{Decision::Verdict::applied, "", task, Attempt{}, false};
    d.task.state = State::publishing;
    ++d.task.attempt;
    d.attempt->task = task.id;
    d.attempt->attempt = d.task.attempt;
    d.attempt->due_at = at.now;
    return d;
  }

  static Event confirm_of(const Task& claimed) {
    return {claimed.id, event::Confirmed{1, claimed.created_at}, {}, std::make_shared<const Task>(claimed)};
  }
  static Decision confirm(const Task& task, const Happening&, const Circumstances& at) {
    Decision d{Decision::Verdict::applied, "", task, Attempt{}, false};
    d.task.state = State::awaiting;
    d.attempt->task = task.id;
    d.attempt->attempt = task.attempt;
    d.attempt->published_at = at.now;
    return d;
  }

  std::shared_ptr<MysqlSchema> shared_ = MysqlSchema::shared();
  MysqlSchema& schema_ = *shared_;
  std::unique_ptr<MysqlStore> store_;
  Fence fence_;
};

TEST_F(Hurt, KilledInTheMiddleOfAWriteNothingOfItIsThereAndARepeatDoesIt) {
  const NewTask n = task(1);
  store_->insert(std::span(&n, 1), fence_);
  const Event event{n.task.id, event::Claim{}};
  int asked = 0;
  const Decider decider = [&](const Task& t, const Happening&, const Circumstances& at) {
    if (++asked == 1) kill();
    return claim(t, at);
  };
  const auto first = result_of([&] { return store_->apply(std::span(&event, 1), fence_, decider); });
  ASSERT_FALSE(first);
  EXPECT_TRUE(first.error().is_transient()) << first.error().message;
  EXPECT_EQ(schema_.value("SELECT state FROM rung_tasks"), "scheduled");
  EXPECT_EQ(store_->apply(std::span(&event, 1), fence_, decider).at(0).verdict, Decision::Verdict::applied);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(schema_.value("SELECT state FROM rung_tasks"), "publishing");
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_attempts"), "1");
}

TEST_F(Hurt, ADeciderThatThrowsLeavesNothingBehind) {
  const NewTask n = task(1);
  store_->insert(std::span(&n, 1), fence_);
  const Event event{n.task.id, event::Claim{}};
  const auto bug = [](auto&&...) -> Decision { throw std::runtime_error("a bug"); };
  const auto result = result_of([&] { return store_->apply(std::span(&event, 1), fence_, bug); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Error::Kind::permanent);
  EXPECT_EQ(store_
                ->apply(std::span(&event, 1), fence_,
                        [](const Task& t, const Happening&, const Circumstances& at) { return claim(t, at); })
                .at(0)
                .verdict,
            Decision::Verdict::applied);
}

TEST_F(Hurt, ALockThatIsHeldTooLongIsTransientAndTheConnectionLives) {
  const NewTask n = task(1);
  store_->insert(std::span(&n, 1), fence_);
  StoreOptions options = schema_.options();
  options.timeout = Ms{2000};
  const auto patient = open_mysql_store(options, test_clock());
  schema_.exec("BEGIN");
  schema_.query("SELECT * FROM rung_tasks WHERE id = 1 FOR UPDATE");
  const Event event{n.task.id, event::Claim{}};
  const Decider decider = [](const Task& t, const Happening&, const Circumstances& at) {
    return claim(t, at);
  };
  const auto blocked = result_of([&] { return patient->apply(std::span(&event, 1), fence_, decider); });
  ASSERT_FALSE(blocked);
  EXPECT_TRUE(blocked.error().is_transient()) << blocked.error().message;
  schema_.exec("ROLLBACK");
  patient->apply(std::span(&event, 1), fence_, decider);
}

// A start looks whether there is something to migrate. With the time-outs of a migration, hours, a connection
// that dies just then would keep the whole sidecar waiting.
TEST_F(Hurt, WhetherTheSchemaIsUpToDateIsAskedWithTheOwnTimeouts) {
  StoreOptions options = schema_.options();
  Url& url = options.urls.front();
  test::TcpProxy proxy(url.host, url.port == 0 ? 3306 : url.port);
  url.host = "127.0.0.1";
  url.port = proxy.port();
  options.timeout = Ms{3000};
  const auto store = open_mysql_store(options, test_clock());
  EXPECT_TRUE(store->migrate().empty());
  proxy.stall();
  const auto hung = result_of([&] { return store->migrate(); });
  ASSERT_FALSE(hung);
  EXPECT_TRUE(hung.error().is_transient()) << hung.error().message;
  proxy.stall(false);
  EXPECT_TRUE(open_mysql_store(options, test_clock())->migrate().empty());
}

TEST_F(Hurt, AnIntakeAndAConfirmAreOneRoundTripEachAndAClaimTwo) {
  StoreOptions options = schema_.options();
  Url& url = options.urls.front();
  test::TcpProxy proxy(url.host, url.port == 0 ? 3306 : url.port);
  url.host = "127.0.0.1";
  url.port = proxy.port();
  const auto store = open_mysql_store(options, test_clock());
  store->now();
  auto before = proxy.requests();
  std::vector<NewTask> tasks;
  for (int i = 1; i <= 20; ++i) tasks.push_back(task(i));
  store->insert(tasks, fence_);
  EXPECT_EQ(proxy.requests() - before, 1U);

  before = proxy.requests();
  const Event one{tasks[0].task.id, event::Claim{}};
  store->apply(std::span(&one, 1), fence_,
               [](const Task& t, const Happening&, const Circumstances& at) { return claim(t, at); });
  EXPECT_EQ(proxy.requests() - before, 2U);

  before = proxy.requests();
  std::vector<Event> many;
  for (std::size_t i = 1; i < tasks.size(); ++i)
    many.push_back({tasks[i].task.id, event::Claim{}, {}, std::make_shared<Task>(tasks[i].task)});
  store->apply(many, fence_,
               [](const Task& t, const Happening&, const Circumstances& at) { return claim(t, at); });
  EXPECT_EQ(proxy.requests() - before, 2U);
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_tasks WHERE state = 'publishing'"), "20");

  const NewTask with_body = task(21);
  store->insert(std::span(&with_body, 1), fence_);
  before = proxy.requests();
  const Event last{with_body.task.id, event::Claim{}};
  const Claimed claimed = store->claim(
      std::span(&last, 1), fence_,
      [](const Task& t, const Happening&, const Circumstances& at) { return claim(t, at); }, 1);
  EXPECT_EQ(claimed.messages.size(), 1U);
  EXPECT_EQ(proxy.requests() - before, 2U);

  before = proxy.requests();
  const Event confirmed = confirm_of(claimed.decisions[0].task);
  store->apply(std::span(&confirmed, 1), fence_, confirm);
  EXPECT_EQ(proxy.requests() - before, 1U);
  EXPECT_EQ(schema_.value("SELECT state FROM rung_tasks WHERE id = 21"), "awaiting");
}

// No lease is read before the decision: the packet itself finds that it has lapsed.
TEST_F(Hurt, AConfirmUnderALapsedLeaseIsDecidedAnewWithoutIt) {
  const NewTask n = task(1);
  store_->insert(std::span(&n, 1), fence_);
  const Event event{n.task.id, event::Claim{}};
  const auto claimed =
      store_->apply(std::span(&event, 1), fence_,
                    [](const Task& t, const Happening&, const Circumstances& at) { return claim(t, at); });
  schema_.exec("UPDATE rung_shards SET expires_at = '2026-01-01'");
  std::vector<std::uint64_t> epochs;
  const Event confirmed = confirm_of(claimed[0].task);
  store_->apply(std::span(&confirmed, 1), fence_,
                [&](const Task& t, const Happening& what, const Circumstances& at) {
                  epochs.push_back(at.epoch);
                  return confirm(t, what, at);
                });
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_NE(epochs[0], 0U);
  EXPECT_EQ(epochs[1], 0U);
}

// Only the leases that the events seem to need are locked; the row itself says which one that is.
TEST_F(Hurt, AStepOfATaskThatHasMovedToAnotherShardIsFencedByThatShard) {
  const std::vector<int> other{1};
  const auto more = store_->acquire(fence_.node, 1, other, Ms{3'600'000}, 40);
  ASSERT_EQ(more.size(), 1U);
  fence_.leases.push_back(more[0]);
  NewTask n = task(1);
  store_->insert(std::span(&n, 1), fence_);
  Event event{n.task.id, event::Claim{}};
  event.expected = std::make_shared<Task>(n.task);  // in shard 0
  schema_.exec("UPDATE rung_tasks SET shard = 1");
  std::uint64_t epoch = 0;
  store_->apply(std::span(&event, 1), fence_, [&](const Task& t, const Happening&, const Circumstances& at) {
    epoch = at.epoch;
    return claim(t, at);
  });
  EXPECT_EQ(epoch, more[0].epoch);
}

// One statement of the packet fails behind others that did not.
TEST_F(Hurt, APacketWithAStatementThatFailsLeavesNothingBehind) {
  const std::array tasks{task(1), task(2)};
  store_->insert(std::span(&tasks[1], 1), fence_);
  schema_.exec(
      "DELETE FROM rung_tasks WHERE id = 2");  // its body stays: a key that the second statement meets
  const auto answer = result_of([&] { return store_->insert(tasks, fence_); });
  ASSERT_FALSE(answer);
  EXPECT_TRUE(answer.error().is_transient()) << answer.error().message;
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_tasks"), "0");
  schema_.exec("DELETE FROM rung_bodies");
  EXPECT_EQ(store_->insert(tasks, fence_).at(1).how, Inserted::How::inserted);
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_bodies"), "2");
}

// What later() has collected, in a session of the test's own.
class Waiting : public Hurt {
 protected:
  std::string connection() {
    return session_.value<std::string>(mysql::Sql::rendered("SELECT CONNECTION_ID()"));
  }
  mysql::Session session_{schema_.options(), mysql_addresses(schema_.options(), test_clock()), Ms{60'000}};
};

TEST_F(Waiting, IsSentBeforeItIsMoreThanThePacketThatTheServerAccepts) {
  session_.connect();
  const auto quarter = mysql::Sql::rendered(
      "DO '" + std::string(static_cast<std::size_t>(session_.max_packet()) / 4, 'x') + "'");
  session_.transaction([&] {
    for (int i = 0; i < 5; ++i) session_.later(quarter);
  });
}

TEST_F(Waiting, IsNotSentIfItsBodyFails) {
  const std::string before = connection();
  const auto fail = [&](const std::string& sql) {
    return [this, sql] {
      session_.later(mysql::Sql::rendered(sql));
      throw StoreError({Error::Kind::permanent, "a bug"});
    };
  };
  EXPECT_THROW(session_.transaction(fail("no SQL")), StoreError);
  EXPECT_THROW(session_.transaction(fail("UPDATE rung_nodes SET name = 'b'")), StoreError);
  session_.transaction([] {});
  EXPECT_EQ(schema_.value("SELECT name FROM rung_nodes"), "a");
  EXPECT_EQ(connection(), before);
}

TEST_F(Hurt, ARenewalEachThirdOfALeaseNeedsNoLogin) {
  class Shifted final : public Clock {
   public:
    BootUs boot_us() const override { return {test_clock().boot_us().us + us}; }
    EpochMs wall() const override { return test_clock().wall(); }
    std::int64_t us = 0;
  } clock;
  constexpr std::int64_t kLeaseUs = 10'000'000;
  const auto store = open_mysql_store(schema_.options(), clock, Ms{kLeaseUs / 1000 * 2 / 3});
  const auto connections = [&] {
    return schema_.value("SELECT GROUP_CONCAT(id ORDER BY id) FROM " + schema_.processlist() +
                         " WHERE db = '" + schema_.name() + "'");
  };
  store->now();
  const std::string before = connections();
  clock.us += kLeaseUs / 3 + 200'000;
  store->now();
  EXPECT_EQ(connections(), before);
  clock.us += kLeaseUs / 2;  // the server ends it soon
  store->now();
  EXPECT_NE(connections(), before);
}

TEST_F(Hurt, TheSessionIsSetAsItMustBe) {
  // What the store's own connection says of itself, by a statement that runs in it: the time zone and the
  // isolation show in what is written.
  const EpochMs now = store_->now();
  schema_.exec("SET time_zone = '+00:00'");
  const NewTask n = task(1);
  store_->insert(std::span(&n, 1), fence_);
  EXPECT_EQ(schema_.value("SELECT next_at FROM rung_tasks"), "2026-09-10 00:26:40.000");
  EXPECT_LT(std::abs(store_->now().ms - now.ms), 60'000);
  EXPECT_EQ(schema_.value("SELECT ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), acquired_at)) < 60 FROM "
                          "rung_shards WHERE id = 0"),
            "1");
}

TEST_F(Hurt, ABodyJustBelowTheServersLimitGoesThroughAndComesBack) {
  const auto limit = std::stoul(schema_.value("SELECT @@max_allowed_packet"));
  std::string body(limit - 20'000, '\xA5');
  const NewTask large = task(1, body);
  ASSERT_EQ(store_->insert(std::span(&large, 1), fence_).at(0).how, Inserted::How::inserted);
  const std::vector<TaskId> ids{large.task.id};
  const auto messages = store_->messages(ids);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(messages[0].message->body == body);
  const std::vector<NewTask> both{task(2, std::string(limit - 10'000, 'x')), task(3)};
  const auto inserted = store_->insert(both, fence_);
  EXPECT_EQ(inserted[0].how, Inserted::How::too_large);
  EXPECT_EQ(inserted[1].how, Inserted::How::inserted);
}

TEST(Connect, AServerThatIsNotThereIsTransient) {
  StoreOptions options;
  options.urls = {*parse_url("mysql://root:hidden-word@127.0.0.1:1/none")};
  const auto store = result_of([&] { return open_mysql_store(options, test_clock()); });
  ASSERT_FALSE(store);
  EXPECT_TRUE(store.error().is_transient()) << store.error().message;
  EXPECT_THAT(store.error().message, testing::HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(store.error().message, testing::Not(testing::HasSubstr("hidden-word")));
}

class Tls : public testing::Test {
 protected:
  void SetUp() override {
    const char* ca = std::getenv("RUNG_TEST_MYSQL_CA");
    ASSERT_TRUE(ca != nullptr && *ca != '\0') << "RUNG_TEST_MYSQL_CA is not set: tests/servers start DIR";
    options_ = schema_.options();
    options_.tls = "verify";
    options_.ca = ca;
  }
  MysqlSchema schema_;
  StoreOptions options_;
};

TEST_F(Tls, AnotherCaIsRefused) {
  options_.ca = "/etc/ssl/certs/ca-certificates.crt";
  const auto store = result_of([&] { return open_mysql_store(options_, test_clock()); });
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, Error::Kind::refused) << store.error().message;
}

TEST_F(Tls, AnotherHostsCertificateIsRefused) {
  // The same address, by a name that the certificate does not hold.
  options_.urls.front().host = "127.1";
  EXPECT_THROW(open_mysql_store(options_, test_clock()), StoreError);
  options_.tls = "off";
  open_mysql_store(options_, test_clock());  // it is there, under that name
}

// MySQL's own way to log in. Without TLS, and with a password that the server has not seen since its start,
// the client must ask for the server's key.
TEST(Login, ByAPasswordThatIsNotInTheServersCache) {
  MysqlSchema schema;
  if (schema.is_mariadb()) GTEST_SKIP() << "caching_sha2_password is MySQL's";
  schema.open_store();
  const std::string user = "cached" + std::to_string(getpid());
  schema.exec("CREATE USER '" + user + "'@'%' IDENTIFIED WITH caching_sha2_password BY 'pw'");
  schema.exec("GRANT ALL ON `" + schema.name() + "`.* TO '" + user + "'@'%'");
  StoreOptions options = schema.options();
  options.urls.front().user = user;
  options.urls.front().password = "pw";
  for (const char* how : {"asks for the key", "is in the cache"}) {
    auto store = open_mysql_store(options, test_clock());
    EXPECT_NO_THROW(store->clock()) << how;
  }
  schema.exec("DROP USER '" + user + "'@'%'");
}

// --- rows that this program has not written

TEST_F(Hurt, AMessageThatCannotBeReadFailsNoOther) {
  const std::vector<NewTask> tasks{task(1), task(2), task(3)};
  store_->insert(tasks, fence_);
  schema_.exec("UPDATE rung_bodies SET properties = '[' WHERE task_id = 2");
  const std::vector<TaskId> ids{{1}, {2}, {3}};
  const auto messages = store_->messages(ids);
  ASSERT_EQ(messages.size(), 3U);
  for (const StoredMessage& stored : messages) {
    EXPECT_EQ(stored.message == nullptr, stored.id == TaskId{2});
    EXPECT_EQ(stored.broken.starts_with("properties: "), stored.id == TaskId{2}) << stored.broken;
  }
}

// During a rolling upgrade. Taken for `scheduled`, as it once was, it would be published.
TEST_F(Hurt, AStateThatThisProgramDoesNotKnowIsRefused) {
  const std::vector<NewTask> tasks{task(1), task(2)};
  store_->insert(tasks, fence_);
  schema_.exec(
      "ALTER TABLE rung_tasks MODIFY state "
      "ENUM('scheduled','publishing','awaiting','succeeded','parked','cancelled',"
      "'discarded','frozen') NOT NULL DEFAULT 'scheduled'");
  schema_.exec("UPDATE rung_tasks SET state = 'frozen' WHERE id = 2");
  const RuleBook rules{RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                       RuleBook::Queues{}};
  const auto decide = [&](const Task& t, const Happening& what, const Circumstances& at) {
    return rung::decide(t, what, rules, at);
  };
  const std::vector<Event> events{{{1}, event::Claim{}}, {{2}, event::Claim{}}};
  const auto decisions = store_->apply(events, fence_, decide);
  EXPECT_EQ(decisions.at(0).verdict, Decision::Verdict::applied);
  EXPECT_EQ(decisions.at(1).verdict, Decision::Verdict::refused);
  EXPECT_EQ(decisions.at(1).reason, kUnknownState);
  EXPECT_EQ(store_->find({2})->task.state, State::unknown);
  EXPECT_EQ(schema_.value("SELECT state FROM rung_tasks WHERE id = 2"), "frozen");
}

}  // namespace
}  // namespace rung::test
