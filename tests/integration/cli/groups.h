// Two groups behind one broker: a prefix, a database and a sidecar each, one rung.yaml.
// Thread: one at a time.
#pragma once

#include <fmt/format.h>

#include "tests/integration/cli/fixture.h"
#include "tests/support/sidecar.h"

namespace rung::cli {

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
    for (const char* group : {"-eu.", "-us."}) {
      for (const char* inlet : {"failed", "results", "delay", "parked", "return"}) {
        amqp_.remove(name_ + group + inlet);
        amqp_.remove_exchange(name_ + group + inlet);
      }
    }
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
    auto ran = run_program(words, std::chrono::seconds{300});
    if (!ran) throw std::runtime_error(ran.error().message);
    return *ran;
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

}  // namespace rung::cli
