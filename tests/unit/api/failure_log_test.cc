// Failures given as JSON Lines.
#include "src/api/rules/failure_log.h"

#include <gmock/gmock.h>

#include <sstream>

#include "src/core/base/rfc3339.h"

namespace rung::api {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

auto read_log(const std::string& text) {
  std::istringstream in(text);
  return read_failure_log(in, "orders");
}

TEST(FailureLogTest, ReadsEachField) {
  const auto log = read_log(
      "\n"
      R"({"at":"2026-11-16T10:00:00Z","error":"HTTP 503","type":"HttpError","tag":"order.created",)"
      R"("headers":{"tenant":"acme","size":3},"answer":"200ms","works_after":"10m","retry_after":"30s",)"
      R"("failures":[{"after":"30s","error":"late","type":"Late"},{"after":"1m","reason":"silent"}]})"
      "\n"
      R"({"at":"90s","reason":"expired"})"
      "\n");
  ASSERT_TRUE(log) << log.error().front();
  ASSERT_THAT(log->messages(), SizeIs(2));
  const FailedMessage& m = log->messages()[0];
  const EpochMs at = *from_rfc3339("2026-11-16T10:00:00Z");
  EXPECT_EQ(m.began(), at);
  EXPECT_EQ(m.works_at, at + 10min);
  EXPECT_EQ(m.tag, "order.created");
  EXPECT_EQ(m.headers, (RuleHeaders{{"tenant", "acme"}, {"size", "3"}}));
  ASSERT_THAT(m.failures, SizeIs(3));
  EXPECT_EQ(m.failures[0].text->error, "HTTP 503");
  EXPECT_EQ(m.failures[0].answer, 200ms);
  EXPECT_EQ(m.failures[0].retry_after, 30s);
  EXPECT_EQ(m.failures[1].at, at + 30s);
  EXPECT_EQ(m.failures[1].text->type, "Late");
  EXPECT_EQ(m.failures[2].text->how, FailureText::How::silent);
  EXPECT_EQ(m.failures[2].text->type, "timed_out");
  const FailedMessage& expired = log->messages()[1];
  EXPECT_EQ(expired.began(), kLogBegins + 90s);
  EXPECT_EQ(expired.works_at, std::nullopt);
  EXPECT_EQ(expired.failures[0].text->error, "dead-lettered: expired (queue orders)");
}

TEST(FailureLogTest, SaysWhatIsWrongInWhichLine) {
  const auto log = read_log(R"({"at":"0s"})"
                            "\nnot json\n"
                            R"({"at":"yesterday"})"
                            "\n"
                            R"({"error":"x"})"
                            "\n"
                            R"({"at":"0s","works_afer":"1m"})"
                            "\n"
                            R"({"at":"0s","reason":"bored"})"
                            "\n"
                            R"({"at":"0s","failures":[{"error":"x"}]})"
                            "\n"
                            R"({"at":"0s","failures":[{"after":"2m"},{"after":"1m"}]})"
                            "\n[1]\n");
  ASSERT_FALSE(log);
  EXPECT_THAT(
      log.error(),
      ElementsAre(HasSubstr("2: invalid JSON at line 2, column"),
                  HasSubstr("3: at: must be an RFC 3339 time"), HasSubstr("4: at: is missing"),
                  HasSubstr("5: works_afer: unknown field"), HasSubstr("6: reason: 'bored' is none of "),
                  HasSubstr("7: failures[0].after: is missing"),
                  HasSubstr("8: failures[1].after: must not be before"), HasSubstr("9: must be an object")));
}

}  // namespace
}  // namespace rung::api
