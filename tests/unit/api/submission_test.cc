#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/api/messages/messages.h"
#include "src/core/machine/by_hand.h"

namespace rung::api {
namespace {

constexpr std::array<std::string_view, 1> kReservedNames = {"x-mark"};
constexpr std::array<std::string_view, 1> kReservedPrefixes = {"x-mark-"};
constexpr ReservedHeaders kReserved{kReservedNames, kReservedPrefixes};

const RuleBook& rules() {
  static const RuleBook book({{"default", *levels::Ladder::from_list({Ms{5000}})}}, {},
                             {{"mapped", TagRules{{"orders", "", ""}, "", {}}}});
  return book;
}

ReadTask good(const std::string& text) {
  FieldErrors errors;
  ReadTask read = read_task(Json::parse(text), "", rules(), kReserved, "me", errors);
  for (const FieldError& e : errors) ADD_FAILURE() << e.field << ": " << e.detail;
  return read;
}

TEST(Submission, ATagThatTheConfigMapsNeedsNoQueue) {
  const ReadTask read = good(R"({"tag": "mapped", "delay": "1m", "body": {"b": 1, "a": [1.5, null]}})");
  const NewTask& task = read.submission.task;
  EXPECT_EQ(task.task.tag, "mapped");
  EXPECT_EQ(task.task.queue, "");
  EXPECT_EQ(task.message->properties.type, "mapped");
  EXPECT_EQ(task.message->body, R"({"b":1,"a":[1.5,null]})") << "its own order";
  EXPECT_EQ(task.task.body_bytes, 22);
  EXPECT_EQ(read.submission.delay, Ms{60'000});
  EXPECT_EQ(task.intake_key, "") << "no message_id: never the same";
  EXPECT_EQ(content_of_origin(task.origin_json, kSubmitted), read.content);
}

TEST(Submission, TheContentLeavesOutWhen) {
  const std::string rest = R"("queue": "q", "message_id": "m", "body": "x"})";
  const ReadTask a = good(R"({"delay": "1m", )" + rest),
                 b = good(R"({"at": "2030-01-01T00:00:00Z", )" + rest);
  EXPECT_EQ(a.content, b.content);
  EXPECT_EQ(a.submission.task.intake_key, b.submission.task.intake_key);
  EXPECT_EQ(a.submission.task.intake_key.size(), 16U);
  EXPECT_EQ(a.submission.task.same_if_over_since, EpochMs{});
  for (const auto* more : {R"("tag": "t", )", R"("max_attempts": 2, )", R"("headers": {"a": 1}, )",
                           R"("properties": {"priority": 1}, )", R"("success": {"presumed_after": "1m"}, )",
                           R"("ladder": "default", )", R"("content_type": "a/b", )"})
    EXPECT_NE(good(std::string(R"({"delay": 1, )") + more + rest).content, a.content) << more;
  EXPECT_EQ(good(R"({"delay": 1, "headers": {}, )" + rest).content, a.content);
}

TEST(Submission, HeadersThatNoFrameHoldsAreRefusedAtOnce) {
  const auto wrong = [](const Json& headers) {
    FieldErrors errors;
    read_task({{"queue", "q"}, {"delay", 0}, {"headers", headers}}, "", rules(), kReserved, "me", errors);
    return errors.empty() ? "" : errors[0].field + ": " + errors[0].detail;
  };
  const std::string fits(255, 'n'), longer(256, 'n');
  EXPECT_EQ(wrong({{"a", {{fits, 1}}}}), "");
  const std::string name = "headers: a header name is longer than 255 bytes";
  EXPECT_EQ(wrong({{longer, 1}}), name);
  EXPECT_EQ(wrong({{"a", {{longer, 1}}}}), name);
  EXPECT_EQ(wrong({{"a", {1, {{longer, 1}}}}}), name);
  EXPECT_EQ(wrong({{"a", {{"!table", Json::array({Json::array({longer, 1})})}}}}), name);
  EXPECT_EQ(wrong({{"a", std::string(100 * 1024, 'x')}}), "");
  EXPECT_TRUE(wrong({{"a", std::string(130 * 1024, 'x')}}).ends_with("the limit for one frame"));
  Json many = Json::object();
  for (int i = 0; i < 256; ++i) many[std::to_string(i)] = i;
  EXPECT_EQ(wrong(many), "");
  EXPECT_EQ(wrong({{"a", many}}), "");
  many["one more"] = 1;
  EXPECT_EQ(wrong({{"a", {many}}}), "headers: more than 256 headers in one table");
}

TEST(Submission, HeadersOfTheBrokerAndOfRungAreRefused) {
  const auto wrong = [](const char* name) {
    FieldErrors errors;
    const Json headers = {{"mine", 1}, {name, 1}};
    read_task({{"queue", "q"}, {"delay", 0}, {"headers", headers}}, "", rules(), kReserved, "me", errors);
    return errors.empty() ? "" : errors[0].field + ": " + errors[0].detail;
  };
  EXPECT_EQ(wrong("x-mark"), "headers: 'x-mark' is reserved for the broker or for Rung: leave it out");
  EXPECT_EQ(wrong("x-mark-1"), "headers: 'x-mark-1' is reserved for the broker or for Rung: leave it out");
  EXPECT_EQ(wrong("retry-id"), "headers: 'retry-id' is reserved for the broker or for Rung: leave it out");
  EXPECT_EQ(wrong("x-marks"), "");
}

TEST(Submission, KeysAreOfTheMessageIdAlone) {
  EXPECT_EQ(submission_key("a"), submission_key("a"));
  EXPECT_NE(submission_key("a"), submission_key("b"));
  EXPECT_EQ(submission_key(""), "");
  EXPECT_EQ(content_of_origin("{}", kSubmitted), "");
  EXPECT_EQ(content_of_origin("no json", kSubmitted), "");
  EXPECT_EQ(content_of_origin(R"({"submitted": 5})", kSubmitted), "");
}

TEST(Submission, Base64) {
  EXPECT_EQ(from_base64(""), "");
  EXPECT_EQ(from_base64("Zg=="), "f");
  EXPECT_EQ(from_base64("Zm8="), "fo");
  EXPECT_EQ(from_base64("Zm9v"), "foo");
  EXPECT_EQ(from_base64("Zg"), "f");
  EXPECT_EQ(from_base64("/+8="), "\xff\xef");
  for (const auto* wrong :
       {"Z", "Zg=", "Zg===", "Z===", "Zh==", "Zm9v Zg==", "Zm9v\n", "-_8=", "Zg==Zg==", "="})
    EXPECT_EQ(from_base64(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace rung::api
