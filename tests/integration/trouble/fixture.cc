#include "tests/integration/trouble/fixture.h"

#include "src/core/base/url.h"

namespace rung::test {
namespace {

constexpr Ms kEvery{16};

std::string listen_on(int port) { return "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\" }\n"; }

}  // namespace

Traffic::Traffic(std::string failed, std::string queue)
    : thread_([this, failed = std::move(failed), queue = std::move(queue)] {
        AmqpProbe probe;
        while (!stop_) {
          probe.publish(failed, "", failed_message(queue, "m-" + std::to_string(count_)));
          ++count_;
          std::this_thread::sleep_for(kEvery);
        }
      }) {}

void Traffic::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

TroubleTest::TroubleTest() : ports{free_port(), free_port()} {
  config.broker = "  prefetch: " + std::to_string(kPrefetch) + "\n";
  config.ladder = "[200ms, 1h]";
}

TroubleTest::~TroubleTest() {
  traffic.reset();
  if (second && HasFailure())
    std::fprintf(stderr, "--- the log of node-2:\n%s---\n", second->log_tail().c_str());
  second.reset();
  sidecar_.reset();
  if (!user.empty()) db.exec("DROP USER '" + user + "'@'%'");
}

void TroubleTest::begin() {
  SidecarConfig other = config;
  other.node = "node-2";
  config.more += listen_on(ports[0]);
  other.more += listen_on(ports[1]);
  if (other.store_url.empty()) other.store_url = db.url();
  start();
  second = std::make_unique<Sidecar>(other);
  second->start();
  ASSERT_TRUE(second->wait_ready(kBound, 2));
  ASSERT_TRUE(eventually([&] { return both_ready(); }, kBound));
  rows("SELECT 1");  // into the schema
  queue = attached();
  traffic = std::make_unique<Traffic>(failed(), queue);
  ASSERT_TRUE(eventually([&] { return amqp.depth(queue).value_or(0) > 20; }, kBound));
}

HttpAnswer TroubleTest::ready(int port) {
  HttpClient http(port);
  return http.call("GET", "/readyz");
}

bool TroubleTest::both_ready() { return ready(ports[0]).status == 200 && ready(ports[1]).status == 200; }

bool TroubleTest::has_problem(const HttpAnswer& answer, const std::string& name) {
  const auto json = answer.json();
  if (!json.is_object() || !json.contains("problems")) return false;
  for (const auto& problem : json["problems"]) {
    if (problem["name"] == name) return true;
  }
  return false;
}

bool TroubleTest::both_tell(const std::string& name) {
  for (const int port : ports) {
    const HttpAnswer answer = ready(port);
    if (answer.status != 503 || !has_problem(answer, name)) return false;
  }
  return true;
}

void TroubleTest::all_arrived() {
  traffic->stop();
  all_delivered_once(traffic->count());
}

void TroubleTest::all_delivered_once(std::size_t count) {
  EXPECT_TRUE(eventually([&] { return amqp.depth(queue).value_or(0) >= count; }, kBound))
      << amqp.depth(queue).value_or(0) << " of " << count << " were delivered";
  EXPECT_TRUE(eventually([&] { return amqp.depth(failed()).value_or(1) == 0; }, kBound));
  const std::string of_queue = " WHERE queue = '" + queue + "'";
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current" + of_queue), std::to_string(count));
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_history" + of_queue), std::to_string(count));
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current" + of_queue + " AND attempt <> 1"), "0");
  EXPECT_EQ(amqp.depth(queue).value_or(0), count) << "some were delivered twice";
  EXPECT_EQ(amqp.depth(parked()).value_or(0), 0U) << "a trouble of the database's must park nothing";
}

std::string TroubleTest::own_user() {
  user = "u" + std::to_string(wall_ms() % 1'000'000'000);
  db.exec("CREATE DATABASE IF NOT EXISTS `" + db.name() + "`");
  db.exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'word'");
  db.exec("GRANT ALL ON `" + db.name() + "`.* TO '" + user + "'@'%'");
  auto url = parse_url(db.url());
  url->user = user;
  url->password = "word";
  config.store_url = format_url(*url);
  return user;
}

void TroubleTest::end_connections(const std::string& of) {
  for (const auto& row : db.query("SELECT id FROM " + db.processlist() + " WHERE user = '" + of + "'")) {
    try {
      db.exec("KILL " + row[0]);
    } catch (const std::exception&) {
      // it was gone by then
    }
  }
}

}  // namespace rung::test
