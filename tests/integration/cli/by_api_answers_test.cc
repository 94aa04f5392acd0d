// Commands over HTTP against a server that answers as it was told: what is not Rung, breaks off, has no
// bounds.
#include "tests/integration/cli/fixture.h"
#include "tests/support/http_script.h"

namespace rung::cli {
namespace {

using Words = std::vector<std::string>;

class ByApiAnswers : public CliTest {
 protected:
  static Ran from(const std::string& url, Words words) {
    words.insert(words.begin(), RUNG_TEST_PROGRAM);
    words.insert(words.end(), {"--api", url});
    return run_program(words);
  }
};

TEST_F(ByApiAnswers, WhatAnswersIsNotRung) {
  using Answer = test::HttpScript::Answer;
  const std::string now = R"({"now": "2026-11-26T10:00:00.000Z"})";
  Answer first{200, now}, rest;
  test::HttpScript script(
      [&](const auto& request, std::size_t) { return request.target == "/v1/now" ? first : rest; });
  const auto list = [&](Answer start, Answer then = {}) {
    first = std::move(start);
    rest = std::move(then);
    return from(script.url(), {"list"});
  };
  const auto expect = [](const Ran& ran, int exit, const std::string& why) {
    EXPECT_EQ(ran.exit, exit) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr(why));
  };
  expect(list({200, "<html>hello</html>"}), 1, "not Rung's: 200 to GET /v1/now");
  expect(list({404, "<html>no such page</html>"}), 1, "not Rung's: 404");
  expect(list({404, R"({"detail": "no such path"})"}), 1, "it is older than this program");
  expect(list({502, "<html>bad gateway</html>"}), 2, "cannot answer now: 502");
  expect(list({200, R"({"now": 5})"}), 1, "not as Rung writes it: now.now");
  expect(list({200, std::string(300, '[')}), 1, "not Rung's");
  expect(list({200, now}, {200, R"({"tasks": 5})"}), 1, "not as Rung writes it");
  expect(list({200, now}, {200, R"({"tasks": [], "next": "7"})"}), 1, "a page that leads to itself");
  expect(list({test::HttpScript::kEndlessBody}), 2, "answers with more than 64 MB");
  expect(list({test::HttpScript::kCut}), 2, "cannot be used");
  EXPECT_THAT(list({200, now}, {500, "{\"detail\": \"a \\u001b[31mred\"}"}).err, Not(HasSubstr("\x1b")));
}

// A request, by its method and path without the query: "POST /v1/tasks".
std::string what(const test::HttpScript::Request& request) {
  return request.method + " " + request.target.substr(0, request.target.find('?'));
}
const test::HttpScript::Answer kNow{200, R"({"now": "2026-11-26T10:00:00.000Z"})"};
const test::HttpScript::Answer kBusy{503, R"({"detail": "it stops"})"};

TEST_F(ByApiAnswers, AServerThatIsAwayForAMomentIsAskedAgain) {
  for (const int passing : {503, 429, test::HttpScript::kCut}) {
    test::HttpScript script([&](const auto& request, std::size_t number) -> test::HttpScript::Answer {
      if (number == 2 || number == 3) return {passing, R"({"detail": "not now"})"};
      return request.target == "/v1/now" ? kNow : test::HttpScript::Answer{200, R"({"tasks": []})"};
    });
    const Ran ran = from(script.url(), {"list", "--json"});
    EXPECT_EQ(ran.exit, 0) << passing << ran.err;
  }
}

TEST_F(ByApiAnswers, WhatWasDoneBeforeAnErrorIsTold) {
  int busy = 0;
  test::HttpScript script([&](const auto& request, std::size_t) -> test::HttpScript::Answer {
    const std::string asked = what(request);
    if (asked == "GET /v1/now") return kNow;
    if (asked.starts_with("POST /v1/tasks/2/") && busy-- > 0) return kBusy;
    const std::string id = asked.substr(asked.find("tasks/") + 6, 1);
    return {200, R"({"retry_id": ")" + id + R"(", "state": "parked"})"};
  });
  busy = 1;
  const Ran failed = from(script.url(), {"finish", "1", "2", "3", "--failed"});
  EXPECT_EQ(failed.exit, 2);
  EXPECT_THAT(failed.out, testing::StartsWith("1  parked"));
  EXPECT_THAT(failed.err, AllOf(HasSubstr("it stops"),
                                HasSubstr("task 2 may have been changed, 1 after it were not tried")));
  busy = 1;
  const Ran as_json = from(script.url(), {"finish", "1", "2", "3", "--failed", "--json"});
  EXPECT_EQ(as_json.exit, 2);
  EXPECT_EQ(json::parse(as_json.out)["results"].size(), 1U);
  busy = 1;
  const Ran safe = from(script.url(), {"discard", "1", "2", "3", "--json"});
  EXPECT_EQ(safe.exit, 0) << safe.err;
  EXPECT_EQ(json::parse(safe.out)["results"].size(), 3U);
}

TEST_F(ByApiAnswers, ALineThatIsTooLargeKeepsNoOtherFromBeingSubmitted) {
  test::HttpScript script([&](const auto& request, std::size_t) -> test::HttpScript::Answer {
    if (what(request) == "GET /v1/now") return kNow;
    const json tasks = json::parse(request.body);
    if (tasks.size() > 2 || request.body.find("huge") != std::string::npos)
      return {413, R"({"detail": "the body is too large"})"};
    json results = json::array();
    for (std::size_t i = 0; i < tasks.size(); ++i)
      results.push_back({{"status", 201}, {"task", {{"retry_id", std::to_string(i + 1)}}}});
    return {201, json{{"results", results}}.dump()};
  });
  std::string lines;
  for (const char* body : {"a", "b", "huge", "c", "d"})
    lines += json{{"delay", "1h"}, {"queue", "q"}, {"body", body}}.dump() + "\n";
  const Ran ran = from(script.url(), {"submit", "--jsonl", file("lines", lines)});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.out, "4 submitted, 0 duplicates, 1 refused\n");
  EXPECT_THAT(ran.err, HasSubstr("line 3: the body is too large"));
}

TEST_F(ByApiAnswers, ABulkThatCannotBeWatchedGoesOn) {
  int failures = 0;
  test::HttpScript script([&](const auto& request, std::size_t) -> test::HttpScript::Answer {
    if (what(request) == "GET /v1/now") return kNow;
    if (what(request) == "POST /v1/bulks")
      return {202, R"({"id": "7", "action": "cancel", "state": "running", "total": 5})"};
    if (failures-- > 0) return kBusy;
    return {500, R"({"detail": "broken"})"};
  });
  failures = 2;
  const Ran ran = from(script.url(), {"cancel", "--queue", "q", "--yes"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("broken"), HasSubstr("bulk 7 goes on on the server"),
                             HasSubstr("rung bulk pause 7"), Not(HasSubstr("sidecar"))));
}

}  // namespace
}  // namespace rung::cli
