// rung logs: each event of the list, by its name or by a line of the log.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "src/cli/shared/ctl.h"

namespace rung::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Ran logs(std::vector<std::string> words) {
  words.insert(words.begin(), {RUNG_TEST_PROGRAM, "logs"});
  const auto ran = run_program(words, std::chrono::seconds{60});
  EXPECT_TRUE(ran) << ran.error().message;
  return *ran;
}

TEST(Logs, EachEventIsListed) {
  const Ran ran = logs({"list", "--json"});
  EXPECT_EQ(ran.exit, 0);
  std::set<std::string> listed;
  const auto json = nlohmann::json::parse(ran.out);
  for (const auto& event : json["events"]) {
    EXPECT_TRUE(listed.insert(event["event"]).second) << event << " stands twice";
    EXPECT_FALSE(event["meaning"].get<std::string>().empty()) << event;
    EXPECT_FALSE(event["levels"].get<std::string>().empty()) << event;
  }
  EXPECT_GT(listed.size(), 100U);
}

TEST(Logs, AnEventIsExplainedByItsWords) {
  const Ran ran = logs({"explain", "broker", "unavailable"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("event    broker unavailable\n"), HasSubstr("about    Broker\n"),
                             HasSubstr("level    warn\n"), HasSubstr("fields   reason\n"),
                             HasSubstr("meaning  Retries wait")));
}

TEST(Logs, ALineOfTheLogNamesItsEvent) {
  const std::pair<const char*, const char*> lines[] = {
      {"2026-11-24T09:12:01.204Z warn  broker unavailable reason=\"connection refused\"",
       "broker unavailable"},
      {"Nov 24 09:12:01 vm rung[7]: 2026-11-24T09:12:01.204Z info  queue paused queue=orders",
       "queue paused"},
      {"2026-11-24T09:12:01.204Z info  queue queue=orders ladder=default", "queue"},
      {R"({"time":"2026-11-24T09:12:01.204Z","level":"error","event":"claim failed","tasks":3})",
       "claim failed"},
      {"database does not answer: intake paused, unacked messages returned to orders.failed",
       "database does not answer: intake paused, unacked messages returned to ..."}};
  for (const auto& [line, event] : lines) {
    const Ran ran = logs({"explain", line, "--json"});
    ASSERT_EQ(ran.exit, 0) << line << ran.err;
    EXPECT_EQ(nlohmann::json::parse(ran.out)["event"], event) << line;
  }
}

TEST(Logs, LinksLeadToTheDocs) {
  EXPECT_THAT(logs({"explain", "delayed exchange"}).out, HasSubstr("(docs/delays.md)"));
}

TEST(Logs, AnUnknownEventIsNotFoundAndSimilarOnesAreNamed) {
  const Ran part = logs({"explain", "unavailable"});
  EXPECT_EQ(part.exit, 3);
  EXPECT_EQ(part.out, "");
  EXPECT_THAT(part.err, AllOf(HasSubstr("no event \"unavailable\""), HasSubstr("broker unavailable")));
  EXPECT_EQ(logs({"explain", "queue", "pausd"}).exit, 3) << "there is an event `queue`, too";
  const Ran typo = logs({"explain", "brokre", "connected"});
  EXPECT_EQ(typo.exit, 3);
  EXPECT_THAT(typo.err, HasSubstr("similar: broker connected"));
  const Ran nothing = logs({"explain", "frobnicate"});
  EXPECT_EQ(nothing.exit, 3);
  EXPECT_THAT(nothing.err, HasSubstr("`rung logs list` lists them"));
}

}  // namespace
}  // namespace rung::cli
