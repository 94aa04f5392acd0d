#include "tests/faults/outage/fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "src/core/base/url.h"

namespace rung::test {
namespace {

std::string own_dir;  // set before the first test

int port_of(const std::string& url, int otherwise) {
  const auto parsed = parse_url(url);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return parsed->port == 0 ? otherwise : parsed->port;
}

// Servers of this binary's own: other tests must not see them die. They end with this process, whatever ends
// it.
class OwnServers : public ::testing::Environment {
 public:
  void SetUp() override {
    std::string dir = (std::filesystem::temp_directory_path() / "rung-outage.XXXXXX").string();
    if (mkdtemp(dir.data()) == nullptr) throw std::runtime_error("mkdtemp " + dir);
    own_dir = dir;
    own_servers("start --owner-pid " + std::to_string(getpid()));
    for (const char* name : {"RUNG_TEST_AMQP", "RUNG_TEST_MYSQL", "RUNG_TEST_RABBITMQCTL"}) {
      const Ran value = run_shell(". '" + own_dir + "/env'; printf %s \"$" + name + "\"");
      setenv(name, value.out.c_str(), 1);
    }
  }
  void TearDown() override { own_servers("stop"); }
};

const ::testing::Environment* const kServers = ::testing::AddGlobalTestEnvironment(new OwnServers);

}  // namespace

void own_servers(const std::string& command) {
  const auto space = command.find(' ');
  const std::string options = space == std::string::npos ? "" : command.substr(space);
  const Ran ran = run_shell("'" RUNG_TEST_SERVERS_SCRIPT "' " + command.substr(0, space) + " '" + own_dir +
                            "'" + options);
  if (ran.code != 0) throw std::runtime_error("tests/servers " + command + ": " + ran.out);
}

std::string own_rabbitmqctl() { return std::getenv("RUNG_TEST_RABBITMQCTL"); }

OutageTest::OutageTest()
    : rabbit("127.0.0.1", port_of(amqp_url(), 5672)), mysql("127.0.0.1", port_of(db.url(), 3306)) {
  config.broker_url = with_port(amqp_url(), rabbit.port());
  config.store_url = with_port(db.url(), mysql.port());
  config.broker = "  heartbeat: 300s\n";
  config.store = "  timeout: 600s\n";
  config.ladder = "[500ms, 1s, 1500ms]";
  config.more = "lease: 10m\ndrain: 3s\n";
}

void OutageTest::notices_silence() {
  config.broker = "  heartbeat: 1s\n";
  config.store = "  timeout: 2s\n";
  config.more = "lease: 2s\ndrain: 3s\n";
}

OutageTest::~OutageTest() = default;

void OutageTest::start_unready() {
  sidecar_ = std::make_unique<Sidecar>(config);
  sidecar_->start();
  ASSERT_TRUE(sidecar_->logged("rung starting"));
}

std::vector<std::vector<std::string>> OutageTest::look(std::string sql) {
  try {
    if (!eyes_) eyes_ = std::make_unique<MysqlSchema>();
    for (std::size_t at; (at = sql.find("{}")) != std::string::npos;)
      sql.replace(at, 2, "`" + db.name() + "`");
    return eyes_->query(sql);
  } catch (const std::exception&) {
    eyes_.reset();
    return {};
  }
}

std::int64_t OutageTest::number(const std::string& sql) {
  const auto rows = look(sql);
  return rows.empty() || rows[0][0] == "NULL" ? -1 : std::stoll(rows[0][0]);
}

std::int64_t OutageTest::in_state(const std::string& queue, const std::string& state) {
  return number("SELECT COUNT(*) FROM {}.retry_current WHERE queue = '" + queue + "' AND state = '" + state +
                "'");
}

bool OutageTest::until_in_state(const std::string& queue, const std::string& state, std::size_t count,
                                Ms within) {
  return eventually([&] { return in_state(queue, state) == static_cast<std::int64_t>(count); }, within);
}

int OutageTest::times(const std::string& text) {
  const std::string log = rung().log();
  int n = 0;
  for (std::size_t at = 0; (at = log.find(text, at)) != std::string::npos; at += text.size()) ++n;
  return n;
}

void OutageTest::some_tries(const TcpProxy& proxy) {
  const auto tries = [&] { return proxy.accepted() + proxy.requests(); };
  ASSERT_TRUE(eventually([&, from = tries()] { return tries() >= from + 6 || !rung().running(); }, kBound));
  ASSERT_TRUE(rung().running()) << rung().log_tail();
}

void OutageTest::leases_run_out() {
  const char* held = "SELECT COUNT(*) FROM {}.rung_shards WHERE expires_at > UTC_TIMESTAMP(3)";
  ASSERT_TRUE(eventually([&] { return number(held) == 0; }, kBound));
}

std::size_t OutageTest::all_ended(const std::string& queue, const FailingConsumer& consumer,
                                  std::size_t count) {
  EXPECT_TRUE(until_in_state(queue, "parked", count)) << [&] {
    std::string states = "what ended and what did not:";
    for (const auto& row :
         look("SELECT state, COUNT(*) FROM {}.retry_current WHERE queue = '" + queue + "' GROUP BY state"))
      states += " " + row[0] + "=" + row[1];
    return states;
  }();
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_current WHERE queue = '" + queue + "'"),
            static_cast<std::int64_t>(count));
  std::map<std::string, std::map<std::int64_t, std::int64_t>> due;  // id -> attempt -> due
  for (const auto& row : look("SELECT retry_id, attempt, due_at FROM {}.retry_history WHERE queue = '" +
                              queue + "' ORDER BY retry_id, attempt"))
    due[row[0]][std::stoll(row[1])] = ms_of(row[2]);
  EXPECT_EQ(due.size(), count);
  std::set<std::int64_t> whole;
  for (int i = 1; i <= kLevels; ++i) whole.insert(i);
  for (const auto& [id, attempts] : due) {
    std::set<std::int64_t> numbers;
    for (const auto& [attempt, at] : attempts) numbers.insert(attempt);
    EXPECT_EQ(numbers, whole) << id << ": an outage of ours must neither eat nor multiply attempts";
  }
  std::map<std::string, std::set<std::string>> ids;
  std::map<std::string, std::map<std::int64_t, int>> deliveries;
  std::size_t repeats = 0;
  for (const auto& seen : consumer.seen()) {
    if (seen.attempt == 0) continue;
    ids[seen.body].insert(seen.id);
    if (++deliveries[seen.id][seen.attempt] > 1) ++repeats;
    EXPECT_GE(seen.at, due[seen.id][seen.attempt]) << seen.id << "/" << seen.attempt << " came early";
  }
  EXPECT_EQ(ids.size(), count) << "messages are lost";
  for (const auto& [body, names] : ids) EXPECT_EQ(names.size(), 1U) << body << " is two tasks";
  for (const auto& [id, attempts] : deliveries)
    EXPECT_EQ(attempts.size(), whole.size()) << id << ": an attempt never reached the consumer";
  if (repeats > 0) std::printf("%zu deliveries came twice, under the same name\n", repeats);
  return repeats;
}

}  // namespace rung::test
