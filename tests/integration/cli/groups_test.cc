// Two groups behind one broker: a prefix, a database and a sidecar each, one rung.yaml. That what fails
// climbs in its own database: examples/cases/two_groups.py, run by tests/integration/examples.
#include <fmt/format.h>

#include "tests/integration/cli/fixture.h"
#include "tests/support/sidecar.h"

namespace rung::cli {
namespace {

class Groups : public ::testing::Test {
 protected:
  Groups() {
    settings_.prefix = name_ + "-eu";
    eu_ = std::make_unique<test::Sidecar>(settings_);
    settings_.prefix = name_ + "-us";
    us_ = std::make_unique<test::Sidecar>(settings_);
    write(text(eu_queue_, us_queue_));
    declare(eu_queue_, name_ + "-eu");
    declare(us_queue_, name_ + "-us");
  }
  ~Groups() override {
    for (const std::string& queue : {eu_queue_, us_queue_}) amqp_.remove(queue);
    for (const char* group : {"-eu", "-us"}) amqp_.remove_place(name_ + group);
  }

  std::string text(const std::string& of_eu, const std::string& of_us, const std::string& more = "") const {
    return fmt::format(
        "broker: {{ url: \"{}\"{} }}\nnode: n\nlease: 1m\nladders: {{ default: {} }}\n{}groups:\n"
        "  eu: {{ prefix: {}-eu, store: {{ url: \"{}\" }}, queues: [\"{}\"] }}\n"
        "  us: {{ prefix: {}-us, store: {{ url: \"{}\" }}, queues: [\"{}\"] }}\n",
        test::amqp_url(), broker_, ladder_, more, name_, eu_db_.url(), of_eu, name_, us_db_.url(), of_us);
  }
  void write(const std::string& text) {
    eu_->rewrite(text);
    us_->rewrite(text);
  }
  static void start(test::Sidecar& sidecar, const char* group) {
    setenv("RUNG_GROUP", group, 1);
    sidecar.start();
    unsetenv("RUNG_GROUP");
    ASSERT_TRUE(sidecar.wait_ready()) << sidecar.log_tail();
  }
  void start_both() {
    start(*eu_, "eu");
    start(*us_, "us");
  }
  Ran rung(std::vector<std::string> words) const {
    words.insert(words.begin(), RUNG_TEST_PROGRAM);
    words.insert(words.end(), {"-c", eu_->config_path()});
    return run_program(words);
  }
  void declare(const std::string& queue, const std::string& prefix) {
    amqp_.declare(queue, {{"x-dead-letter-exchange", prefix + ".failed"}});
  }
  void fail_once(const std::string& queue) {
    Message message;
    message.body = "to " + queue;
    ASSERT_TRUE(amqp_.publish("", queue, message));
    const auto got = amqp_.get_within(queue);
    ASSERT_TRUE(got);
    amqp_.reject(*got);
  }
  static std::string count(test::MysqlSchema& db, const std::string& where) {
    return db.value("SELECT COUNT(*) FROM " + db.name() + ".retry_current WHERE " + where);
  }

  std::string broker_;                     // more keys of broker: ", management: ..."
  std::string ladder_ = "[200ms, 400ms]";  // ladders.default
  const std::string name_ = test::unique_name("g");
  const std::string eu_queue_ = name_ + ".orders", us_queue_ = name_ + ".payments";
  test::MysqlSchema eu_db_, us_db_;
  test::AmqpProbe amqp_;
  test::SidecarConfig settings_;
  std::unique_ptr<test::Sidecar> eu_, us_;
};

TEST_F(Groups, ASubmittedTaskGoesToTheGroupOfItsQueue) {
  ASSERT_EQ(rung({"migrate", "--group", "eu"}).exit, 0);
  ASSERT_EQ(rung({"migrate", "--group", "us"}).exit, 0);
  const Ran good = rung({"submit", "--queue", us_queue_, "--delay", "1h", "--body", "x"});
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  const Ran other = rung({"submit", "--queue", us_queue_, "--delay", "1h", "--body", "x", "--group", "eu"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("belongs to the group us, and this is eu"));
  EXPECT_EQ(count(eu_db_, "TRUE"), "0");
  const Ran unknown = rung({"submit", "--queue", "nobodys", "--delay", "1h", "--body", "x"});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no group has queue \"nobodys\""));
  const std::string id = us_db_.value("SELECT retry_id FROM " + us_db_.name() + ".retry_current");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"list"}, {"show", id}})
    EXPECT_THAT(rung(words).err, HasSubstr("choose one with --group NAME or RUNG_GROUP: eu, us"));
  EXPECT_EQ(rung({"doctor"}).exit, 1);
  EXPECT_THAT(rung({"list", "--queue", us_queue_}).out, HasSubstr(id));
  EXPECT_EQ(rung({"show", id, "--group", "eu"}).exit, 3);
  EXPECT_EQ(rung({"cancel", "--queue", us_queue_, "--dry-run"}).exit, 0);
  const Ran elsewhere = rung({"redrive", id, "--group", "us", "--to-queue", eu_queue_});
  EXPECT_EQ(elsewhere.exit, 1);
  EXPECT_THAT(elsewhere.err, HasSubstr("belongs to the group eu, and this is us"));
}

// A message in rung.delay that names a queue of another group is parked.
TEST_F(Groups, ADelayForAnotherGroupsQueueIsParked) {
  start(*eu_, "eu");
  ASSERT_TRUE(test::eventually([&] { return rung({"stats", "--group", "eu"}).exit == 0; }));
  Message message;
  message.headers = Table{{"x-delay", std::int64_t{1}}};
  ASSERT_TRUE(amqp_.publish(name_ + "-eu.delay", us_queue_, message));
  ASSERT_TRUE(test::eventually([&] { return count(eu_db_, "state = 'parked'") == "1"; }));
  EXPECT_THAT(eu_db_.value("SELECT last_error FROM " + eu_db_.name() + ".retry_current"),
              HasSubstr("belongs to the group us"));
  EXPECT_FALSE(amqp_.get(us_queue_));
}

// docs/performance.md, "Moving a queue": what the old group has pending still goes out; what fails again
// after the move climbs in the new one.
TEST_F(Groups, AQueueMoves) {
  start_both();
  fail_once(eu_queue_);
  const auto first = amqp_.get_within(eu_queue_);
  ASSERT_TRUE(first);
  amqp_.reject(*first);  // on level 2 of eu
  ASSERT_TRUE(test::eventually([&] { return count(eu_db_, "level = 2") == "1"; }));
  write(text("nothing", name_ + ".*"));
  for (test::Sidecar* sidecar : {eu_.get(), us_.get()}) {
    sidecar->signal(SIGHUP);
    ASSERT_TRUE(sidecar->logged("config reloaded"));
  }
  const auto second = amqp_.get_within(eu_queue_);
  ASSERT_TRUE(second) << "the old group's retry comes all the same";
  // As the queue's dead letters go now.
  Message again = second->message;
  again.headers->push_back({"retry-queue", eu_queue_});
  ASSERT_TRUE(amqp_.publish(name_ + "-us.failed", "", again));
  amqp_.ack(*second);
  const auto third = amqp_.get_within(eu_queue_);
  ASSERT_TRUE(third) << us_->log_tail();
  amqp_.ack(*third);
  EXPECT_EQ(count(us_db_, "level = 1 AND queue = '" + eu_queue_ + "'"), "1") << "it begins its ladder there";
  // The broker's confirm may be recorded after the other group's whole turn.
  EXPECT_TRUE(test::eventually([&] { return count(eu_db_, "state = 'awaiting'") == "1"; }))
      << "the old row ends by what silence means; it is "
      << eu_db_.value("SELECT state FROM " + eu_db_.name() + ".retry_current") << "\n"
      << eu_->log_tail();
}

}  // namespace
}  // namespace rung::cli
