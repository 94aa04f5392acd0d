// Dialects: the built-in ones against messages in each framework's form (tests/unit/rabbitmq/dialects), and
// what is wrong in a user's file.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plugin/rabbitmq/dialects/ready.h"
#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/config/load.h"
#include "src/core/machine/headers.h"
#include "src/core/message/message.h"
#include "src/core/rules/dialect.h"
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using confile::parse_dialect;
using confile::Problems;
using nlohmann::json;

std::vector<std::string> fixture_files() {
  std::vector<std::string> files;
  const std::string folder = std::string(RUNG_SOURCE_DIR) + "/tests/unit/rabbitmq/dialects";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

Message message_of(const json& from) {
  Message message;
  if (from.contains("properties"))
    message.properties = properties_from_json(from["properties"].dump()).value();
  if (from.contains("headers")) message.headers = headers_from_json(from["headers"].dump()).value();
  if (from.contains("body")) message.body = from["body"].get<std::string>();
  return message;
}

// By name: a broker may sort them.
Table sorted(const std::optional<Table>& headers) {
  Table out = headers.value_or(Table{});
  std::ranges::sort(out, {}, &std::pair<std::string, Value>::first);
  return out;
}

class DialectFixture : public testing::TestWithParam<std::string> {
 protected:
  static json read() {
    std::ifstream in(GetParam());
    return json::parse(in);
  }
};

TEST_P(DialectFixture, IsReadAndGoesBackAsItWasReceived) {
  const json fixture = read();
  const auto dialect = built_in_dialects().find(fixture["dialect"].get<std::string>());
  ASSERT_NE(dialect, built_in_dialects().end());
  const ErrorQueue entry{.from = fixture["error_queue"], .dialect = dialect->second};
  Message message = message_of(fixture["message"]);
  const std::string key = fixture.value("routing_key", "");
  DialectFacts read = read_dialect(*entry.dialect, message, {entry.from, key});
  BrokerFacts facts = rabbit::take_broker_headers(message, Inlet::error);
  take_failure(entry, std::move(read), message, facts);
  const Failure failure = read_failure(message, "an-error-exchange", "a-key", facts.failure);

  const json& expect = fixture["expect"];
  if (expect.contains("queue")) {
    EXPECT_EQ(failure.queue, expect["queue"]);
  }
  if (expect.contains("error_type")) {
    EXPECT_EQ(failure.error_type, expect["error_type"]);
  }
  if (expect.contains("error")) {
    EXPECT_NE(failure.error.find(expect["error"].get<std::string>()), std::string::npos) << failure.error;
  }
  if (expect.contains("stack_starts_with")) {
    EXPECT_NE(failure.error.find(expect["stack_starts_with"].get<std::string>()), std::string::npos)
        << failure.error;
  }
  if (expect.contains("failed_at_ms")) {
    EXPECT_EQ(failure.failed_at_s, expect["failed_at_ms"].get<std::int64_t>() / 1000);
  }
  if (expect.contains("executor")) {
    EXPECT_EQ(failure.executor, expect["executor"]);
  }
  if (expect.contains("exchange")) {
    EXPECT_EQ(failure.exchange, expect["exchange"]);
  }
  if (expect.contains("routing_key")) {
    EXPECT_EQ(failure.routing_key, expect["routing_key"]);
  }

  if (fixture.contains("differs")) return;  // the framework itself changes the message: the fixture says how
  const Message back = strip(message, nullptr, facts);
  const Message received = message_of(fixture["received"]);
  EXPECT_EQ(back.body, received.body);
  EXPECT_EQ(sorted(back.headers), sorted(strip(received, nullptr).headers));
}
std::string fixture_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Of, DialectFixture, testing::ValuesIn(fixture_files()), fixture_name);

TEST(ReadyDialects, EachHasAFixture) {
  for (const auto& [name, dialect] : built_in_dialects()) {
    EXPECT_TRUE(std::ranges::any_of(fixture_files(), [&](const std::string& file) {
      return std::filesystem::path(file).filename().string().starts_with(name + "-");
    })) << name;
  }
}

std::vector<std::string> problems_of(const std::string& yaml) {
  Problems problems("my.yaml");
  EXPECT_EQ(parse_dialect(yaml, problems), nullptr);
  std::vector<std::string> lines;
  for (const ConfigProblem& problem : problems.take()) lines.push_back(problem.str());
  return lines;
}

TEST(DialectFile, SaysWhatIsWrongAndWhere) {
  using testing::ElementsAre;
  using testing::HasSubstr;
  EXPECT_THAT(problems_of("about: x\n"), ElementsAre(HasSubstr("my.yaml:1:1: name is missing")));
  EXPECT_THAT(problems_of("name: mine\nqueu: []\n"),
              ElementsAre(HasSubstr("my.yaml:2:1: unknown key \"queu\": did you mean queue?")));
  EXPECT_THAT(problems_of("name: mine\nqueue: [ { header: X, match: '(' } ]\n"),
              ElementsAre(HasSubstr("my.yaml:2:30: queue[1].match: not a regular expression")));
  EXPECT_THAT(problems_of("name: mine\nerror: [ { body: true } ]\n"),
              ElementsAre(HasSubstr("my.yaml:2:10: error[1]: body needs json")));
  EXPECT_THAT(problems_of("name: mine\nerror: [ { header: X, property: type } ]\n"),
              ElementsAre(HasSubstr("a reading has one source")));
  EXPECT_THAT(problems_of("name: mine\nfailed_at: [ { header: X } ]\n"),
              ElementsAre(HasSubstr("as is missing")));
  for (const char* pattern : {"'*'", "'re*'", "retry-id"})
    EXPECT_THAT(problems_of(std::string("name: mine\nremove: [ ") + pattern + " ]\n"),
                ElementsAre(HasSubstr("matches headers that Rung needs")));
  EXPECT_THAT(problems_of("name: mine\nerror: [ { property: colour } ]\n"),
              ElementsAre(HasSubstr("error[1].property: \"colour\" is not app_id")));
  EXPECT_THAT(problems_of("- name: mine\n"), ElementsAre(HasSubstr("a dialect is a map")));
}

DialectFacts facts_of(const std::string& yaml, const Message& message, const std::string& queue = "q") {
  Problems problems("my.yaml");
  const DialectPtr dialect = parse_dialect("name: mine\n" + yaml, problems);
  if (dialect == nullptr) {
    ADD_FAILURE() << problems.take().front().str();
    return {};
  }
  return read_dialect(*dialect, message, {queue});
}

TEST(DialectReading, TakesTheFirstThatYieldsAValue) {
  Message message;
  message.headers = Table{{"B", "from b"}, {"C", "from c"}, {"Empty", ""}};
  EXPECT_EQ(
      facts_of("error: [ { header: A }, { header: Empty }, { header: B }, { header: C } ]", message).error,
      "from b");
}

TEST(DialectReading, GoesIntoTablesArraysAndJsonTexts) {
  Message message;
  message.body = R"({"options": {"traceback": "Traceback", "a/b": "slash"}, "n": [1, 2]})";
  message.headers = Table{{"T", Table{{"inner", Array{Value("first"), Value(std::int32_t{7})}}}},
                          {"J", R"([{"class": "Old"}, {"class": "New"}])"}};
  EXPECT_EQ(facts_of("error: [ { body: true, json: /options/traceback } ]", message).error, "Traceback");
  EXPECT_EQ(facts_of("error: [ { body: true, json: /options/a~1b } ]", message).error, "slash");
  EXPECT_EQ(facts_of("error: [ { body: true, json: /n/1 } ]", message).error, "2");
  EXPECT_EQ(facts_of("error: [ { header: T, json: /inner/0 } ]", message).error, "first");
  EXPECT_EQ(facts_of("error: [ { header: T, json: /inner/1 } ]", message).error, "7");
  EXPECT_EQ(facts_of("error: [ { header: J, json: /-1/class } ]", message).error, "New");
  for (const char* nowhere : {"/n/2", "/n/x", "/n/01x", "/options/none", "/options/traceback/deeper", "/-1"})
    EXPECT_EQ(facts_of(std::string("error: [ { body: true, json: ") + nowhere + " } ]", message).error, "");
}

TEST(DialectReading, TimesInEachForm) {
  Message message;
  message.headers = Table{{"iso", "2024-05-01T12:34:56.1234567Z"},
                          {"no_zone", "2024-05-01T12:34:56"},
                          {"nsb", "2024-05-01 12:34:56:123456 Z"},
                          {"s", std::int32_t{1714566896}},
                          {"ms", "1714566896123"},
                          {"stamp", Timestamp{1714566896}},
                          {"bad", "yesterday"},
                          {"far", std::int64_t{253402300800}}};
  const auto at = [&](const std::string& header, const std::string& form) {
    const auto facts = facts_of("failed_at: [ { header: " + header + ", as: " + form + " } ]", message);
    return facts.failed_at ? facts.failed_at->ms : -1;
  };
  EXPECT_EQ(at("iso", "iso8601"), 1714566896123);
  EXPECT_EQ(at("no_zone", "iso8601"), 1714566896000);
  EXPECT_EQ(at("nsb", "nservicebus"), 1714566896123);
  EXPECT_EQ(at("s", "epoch_s"), 1714566896000);
  EXPECT_EQ(at("stamp", "epoch_s"), 1714566896000);
  EXPECT_EQ(at("ms", "epoch_ms"), 1714566896123);
  for (const char* form : {"iso8601", "nservicebus", "epoch_s", "epoch_ms"}) EXPECT_EQ(at("bad", form), -1);
  EXPECT_EQ(at("far", "epoch_s"), -1);
}

TEST(DialectReading, AStackStandsBelowTheErrorOnce) {
  Message message;
  message.headers = Table{{"E", "no card"}, {"S", "at Pay()"}, {"Full", "Error: no card\nat Pay()"}};
  EXPECT_EQ(facts_of("error: [ { header: E } ]\nstack: [ { header: S } ]", message).error,
            "no card\nat Pay()");
  EXPECT_EQ(facts_of("error: [ { header: E } ]\nstack: [ { header: Full } ]", message).error,
            "Error: no card\nat Pay()");
}

}  // namespace
}  // namespace rung
