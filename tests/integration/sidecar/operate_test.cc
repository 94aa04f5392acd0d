// Operating the sidecar: reload, log, exit codes, the command that attaches a queue, two sidecars at once.
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "src/core/base/url.h"
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Operate : public SidecarTest {
 protected:
  void reload(const std::string& text) {
    rung().rewrite(text);
    rung().signal(SIGHUP);
  }
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(line);
    return out;
  }
};

TEST_F(Operate, ReloadedLadderHoldsFromTheNextStep) {
  config.ladder = "[300ms, 1h, 2h]";
  start();
  const std::string queue = attached(), waiting = attached("waiting");
  fail(queue, order());
  const Received first = delivery(queue);
  fail(waiting, order());
  amqp.reject(delivery(waiting));
  ASSERT_TRUE(eventually([&] { return current(waiting)[0]["level"] == "2"; }));
  const Row before = current(waiting)[0];
  SidecarConfig changed = config;
  changed.ladder = "[100ms, 400ms, 500ms, 600ms]";
  reload(changed.text());
  ASSERT_TRUE(rung().logged("reloaded"));
  const std::int64_t at = wall_ms();
  amqp.reject(first);
  const Received second = delivery(queue);
  EXPECT_GE(wall_ms(), at + 400);
  EXPECT_EQ(int_header(second.message, "retry-level"), 2) << "the level is kept";
  EXPECT_EQ(int_header(second.message, "retry-levels"), 4);
  EXPECT_EQ(retry_id(second), retry_id(first));
  amqp.reject(second);
  amqp.reject(delivery(queue));
  amqp.reject(delivery(queue));
  EXPECT_EQ(wait_state(queue, "parked")["attempt"], "4");
  // What waits keeps the step that it is in.
  EXPECT_EQ(current(waiting)[0].at("next_due_at"), before.at("next_due_at"));
}

TEST_F(Operate, ReloadMovesAQueueToAnotherLadder) {
  config.ladder = "[200ms, 1h]";
  start();
  const std::string queue = attached();
  fail(queue, order());
  const Received first = delivery(queue);
  EXPECT_EQ(text_header(first.message, "retry-ladder"), "default");
  SidecarConfig changed = config;
  changed.ladders = "  other: [100ms, 300ms, 400ms]\n";
  changed.queue(queue, "{ ladder: other, success: { presumed_after: 400ms } }");
  reload(changed.text());
  ASSERT_TRUE(rung().logged("reloaded"));
  amqp.reject(first);
  const Received second =
      delivery(queue);  // retry-ladder, forwarded by the broker, is no wish of the consumer's
  EXPECT_EQ(text_header(second.message, "retry-ladder"), "other");
  EXPECT_EQ(int_header(second.message, "retry-level"), 2);
  EXPECT_EQ(int_header(second.message, "retry-levels"), 3);
  amqp.ack(second);
  EXPECT_EQ(wait_state(queue, "succeeded")["finished_by"], "presumed");
}

TEST_F(Operate, ABadFileLeavesTheOldInForce) {
  config.ladder = "[200ms, 400ms]";
  start();
  const std::string queue = attached();
  SidecarConfig bad = config;
  bad.ladder = "[1h, 0s, nonsense]";
  for (const std::string& text : {bad.text(), std::string("{{{ not yaml"), std::string()}) {
    reload(text);
    ASSERT_TRUE(rung().logged("stays in effect")) << rung().log_tail();
    fail(queue, order());
    const Received back = delivery(queue);
    EXPECT_EQ(int_header(back.message, "retry-levels"), 2);
    amqp.ack(back);
  }
  const auto said = lines(rung().log_since_start());
  const std::string where = rung().config_path() + ":";
  EXPECT_TRUE(std::ranges::any_of(said, [&](const std::string& line) {
    const std::size_t at = line.find(where);
    return at != std::string::npos && std::isdigit(static_cast<unsigned char>(line[at + where.size()])) != 0;
  })) << "no file:line:column";
  reload(config.text());
  EXPECT_TRUE(rung().logged("config reloaded"));
}

TEST_F(Operate, TwoStartedAtOnceOnAnEmptyDatabase) {
  config.ladder = "[300ms, 600ms]";
  SidecarConfig second_config = config;
  second_config.node = "node-2";
  sidecar_ = std::make_unique<Sidecar>(config);
  Sidecar second(second_config);
  sidecar_->start();
  second.start();
  ASSERT_TRUE(sidecar_->wait_ready(kBound, 2));
  ASSERT_TRUE(second.wait_ready(kBound, 2)) << second.log_tail();
  const std::string queue = attached();
  constexpr std::size_t kMessages = 60;
  std::vector<Message> messages(kMessages, order());
  for (std::size_t i = 0; i < kMessages; ++i) {
    messages[i].body = std::to_string(i);
    messages[i].properties.message_id = unique_name("m");
  }
  amqp.publish_all("", queue, messages);
  std::map<std::string, std::set<std::int64_t>> seen;
  for (std::size_t over = 0; over < kMessages;) {
    const Received received = delivery(queue);
    ASSERT_NE(received.tag, 0U) << over << " are over\n" << second.log_tail();
    if (has_header(received.message, "retry-id")) {
      EXPECT_TRUE(seen[retry_id(received)].insert(int_header(received.message, "retry-attempt")).second);
    }
    if (int_header(received.message, "retry-attempt") == 2) {
      amqp.ack(received);
      ++over;
    } else {
      amqp.reject(received);
    }
  }
  EXPECT_EQ(seen.size(), kMessages);
  EXPECT_TRUE(sidecar_->running());
  EXPECT_TRUE(second.running());
  second.signal(SIGTERM);
  EXPECT_EQ(second.wait_exit(), 0);
}

TEST_F(Operate, LogHoldsNoPayloadAndNoPassword) {
  const std::string secret = unique_name("secretword"),
                    user = "u" + std::to_string(wall_ms() % 1'000'000'000);
  db.exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY '" + secret + "'");
  db.exec("GRANT ALL ON `" + db.name() + "`.* TO '" + user + "'@'%'");
  auto url = parse_url(db.url());
  url->user = user;
  url->password = secret;
  config.store_url = format_url(*url);
  db.exec("CREATE DATABASE IF NOT EXISTS `" + db.name() + "`");
  config.log = "{ level: trace }";
  config.ladder = "[200ms]";
  start();
  const std::string queue = attached(), payload = unique_name("payloadword"),
                    inside = unique_name("headerword");
  Message message = order(payload);
  message.headers->emplace_back("private", inside);
  fail(queue, message);
  amqp.reject(delivery(queue));
  wait_state(queue, "parked");
  Message lost = message;
  lost.headers->emplace_back("retry-error", "x");
  ASSERT_TRUE(amqp.publish(failed(), "", lost));
  ASSERT_TRUE(amqp.publish(results(), "", lost));
  ASSERT_TRUE(eventually([&] { return current("").size() == 1; }, kBound));
  rung().signal(SIGTERM);
  EXPECT_EQ(rung().wait_exit(), 0);
  const std::string log = rung().log();
  EXPECT_EQ(log.find(secret), std::string::npos);
  EXPECT_EQ(log.find(payload), std::string::npos);
  EXPECT_EQ(log.find(inside), std::string::npos);
  EXPECT_EQ(log.find("guest:guest"), std::string::npos);
  EXPECT_NE(log.find(queue), std::string::npos) << "nothing is said about the parked message";
  db.exec("DROP USER '" + user + "'@'%'");
}

TEST_F(Operate, StartSummarySaysWhatIsAttachedToWhat) {
  const std::string queue = attached();
  config.ladders = "  slow: [1h, 2h]\n";
  config.queue(queue, "{ ladder: slow, success: { reported_within: 5m } }");
  start();
  ASSERT_TRUE(rung().logged(queue));
  const std::string log = rung().log();
  EXPECT_NE(log.find("slow"), std::string::npos);
  EXPECT_NE(log.find(config.node), std::string::npos);
}

TEST_F(Operate, JsonLogParses) {
  const std::string queue = new_name("it's \"odd\" \\ \t \xc3\xbc");
  amqp.declare(queue, {{"x-dead-letter-exchange", failed()}});
  config.log = "{ level: debug, format: json }";
  config.ladder = "[100ms]";
  config.queue(queue, "{ ladder: default }");
  start();
  fail(queue, order());
  amqp.reject(delivery(queue));
  wait_state(queue, "parked");
  rung().signal(SIGTERM);
  EXPECT_EQ(rung().wait_exit(), 0);
  int count = 0;
  for (const std::string& line : lines(rung().log())) {
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << line;
    ++count;
  }
  EXPECT_GE(count, 5);
}

// The very line that the sidecar prints attaches the queue.
TEST_F(Operate, AFloodOfOneEventIsLimitedAndCounted) {
  constexpr std::size_t kMessages = 340, kMost = 300;  // LogLimit::kMostLines
  config.log = "{ level: info, format: json }";
  start();
  Message message = order();
  message.headers->emplace_back("retry-queue", new_name());
  message.headers->emplace_back("retry-never", true);
  for (std::size_t i = 0; i < kMessages; ++i) {
    message.properties.message_id = std::to_string(i);
    ASSERT_TRUE(amqp.publish(failed(), "", message));
  }
  ASSERT_TRUE(eventually([&] {
    return rows("SELECT * FROM retry_current WHERE state = 'parked'").size() == kMessages;
  })) << rung().log_tail();
  rung().signal(SIGTERM);
  ASSERT_EQ(rung().wait_exit(), 0);
  std::map<std::string, std::size_t> written;
  std::size_t suppressed = 0;
  for (const std::string& line : lines(rung().log())) {
    const auto json = nlohmann::json::parse(line);
    ++written[json["event"]];
    if (json["event"] == "log lines suppressed" && json["of"] == "parked on arrival")
      suppressed = json["lines"];
  }
  EXPECT_EQ(written["parked on arrival"], kMost);
  EXPECT_EQ(suppressed, kMessages - kMost);
  EXPECT_EQ(written["stopped"], 1U) << "other events are not limited";
}

TEST_F(Operate, PrintedPolicyLineAttaches) {
  const char* ctl = std::getenv("RUNG_TEST_RABBITMQCTL");
  ASSERT_NE(ctl, nullptr) << "RUNG_TEST_RABBITMQCTL is not set";
  const std::string queue = new_name("it's $HOME \"so\" (a|b) .* \\d \xc3\xbc"), neighbour = new_name();
  amqp.declare(queue);  // not attached
  amqp.declare(neighbour);
  config.log = "{ level: info, format: json }";
  config.ladder = "[200ms]";
  std::string literal = queue;  // a * is a pattern
  literal.replace(literal.find('*'), 1, "[*]");
  config.queue(literal, "{ ladder: default }");
  start();
  ASSERT_TRUE(rung().logged("set_policy"));
  std::string command;
  for (const std::string& line : lines(rung().log())) {
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object()) continue;
    for (const auto& [key, value] : parsed.items()) {
      if (value.is_string() && value.get<std::string>().find("set_policy") != std::string::npos)
        command = value;
    }
  }
  const std::size_t at = command.find("rabbitmqctl");
  ASSERT_NE(at, std::string::npos) << command;
  std::string name;  // of the policy, to take it away again
  const Ran ran =
      run_shell(command.substr(0, at) + ctl + command.substr(at + std::string("rabbitmqctl").size()));
  ASSERT_EQ(ran.code, 0) << command << "\n" << ran.out;
  // The queue learns of its policy a moment later.
  Received back;
  ASSERT_TRUE(eventually(
      [&] {
        fail(queue, order());
        auto received = amqp.get_within(queue, Ms{1500});
        if (received) back = *received;
        return received.has_value();
      },
      kBound));
  EXPECT_NE(retry_id(back), "");
  amqp.ack(back);
  fail(neighbour, order());  // one queue was meant
  fail(queue, order());
  amqp.ack(delivery(queue));  // Rung has taken in what came before
  EXPECT_FALSE(amqp.get(neighbour));
  EXPECT_TRUE(current(neighbour).empty());
}

TEST_F(Operate, BadConfigIsTheUsersMistake) {
  config.ladder = "[5s, 1m, 0s]";
  Sidecar bad(config);
  bad.start();
  EXPECT_EQ(bad.wait_exit(), 1);
  const std::string log = bad.log();
  const std::size_t at = log.find(bad.config_path() + ":");
  ASSERT_NE(at, std::string::npos) << log;
  int line = 0, column = 0;
  ASSERT_EQ(std::sscanf(log.c_str() + at + bad.config_path().size(), ":%d:%d: ", &line, &column), 2) << log;
  const auto text = lines(config.text());
  ASSERT_LE(static_cast<std::size_t>(line), text.size());
  EXPECT_NE(text[static_cast<std::size_t>(line) - 1].find("0s"), std::string::npos) << log;
  EXPECT_EQ(text[static_cast<std::size_t>(line) - 1].substr(static_cast<std::size_t>(column) - 1, 2), "0s")
      << log;
}

TEST_F(Operate, MissingConfigIsTheUsersMistake) {
  const Ran ran = run_shell("'" + rung_program() + "' run -c /nowhere/rung.yaml");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.out.find("/nowhere/rung.yaml"), std::string::npos) << ran.out;
}

TEST_F(Operate, SigtermAndSigintDrainAndExitZero) {
  start();
  for (const int number : {SIGTERM, SIGINT}) {
    if (!rung().running()) start();
    const std::int64_t at = wall_ms();
    rung().signal(number);
    EXPECT_EQ(rung().wait_exit(), 0);
    EXPECT_LT(wall_ms() - at, 10'000);
    EXPECT_EQ(amqp.consumers(failed()), 0U);
  }
}

TEST_F(Operate, ADeletedExchangeComesBackAndIsRecorded) {
  config.broker = "  topology_check: 200ms\n";
  start();
  ASSERT_TRUE(rung().logged("shards acquired"));
  const std::string queue = attached();
  amqp.remove_exchange(failed());
  ASSERT_TRUE(rung().logged("topology repaired"));
  const auto events = [&] {
    return rows("SELECT subject, node FROM retry_events WHERE kind = 'topology_repaired'");
  };
  ASSERT_TRUE(eventually([&] { return events().size() == 1U; }, kBound));
  EXPECT_EQ(events()[0].at("subject"), "exchange " + failed());
  EXPECT_EQ(events()[0].at("node"), "node-1");
  fail(queue, order());
  delivery(queue);
  // One that can't be repaired is a problem of the instance, until it can.
  amqp.remove_exchange(parked());
  amqp.declare_exchange(parked(), "direct");
  const auto problems = [&] { return rows("SELECT problems FROM rung_nodes")[0].at("problems"); };
  EXPECT_TRUE(eventually([&] { return problems().find("\"topology\"") != std::string::npos; }, kBound));
  amqp.remove_exchange(parked());
  EXPECT_TRUE(eventually([&] { return problems().find("\"topology\"") == std::string::npos; }, kBound));
}

}  // namespace
}  // namespace rung::test
