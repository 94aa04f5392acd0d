#include "src/http/render.h"

#include <gtest/gtest.h>

#include "src/http/problem.h"

namespace rung::http {
namespace {

// Whoever made the bulk: HTTP writes its filter as JSON, the command line as flags.
TEST(Render, TheFilterOfABulkIsAnObject) {
  const auto filter = [](const std::string& text) {
    Bulk bulk;
    bulk.filter_text = text;
    return dump(to_json(bulk).at("filter"));
  };
  EXPECT_EQ(filter(R"({"queue":"orders","error":"timeout"})"), R"({"queue":"orders","error":"timeout"})");
  EXPECT_EQ(filter("--queue orders --message-id m-1"), R"({"queue":"orders","message_id":"m-1"})");
  EXPECT_EQ(filter("--error 'it'\\''s late' --created-since 2026-11-22T00:00:00.000Z"),
            R"({"error":"it's late","created_after":"2026-11-22T00:00:00.000Z"})");
  EXPECT_EQ(filter("--tag $'a\\033[2J\\'b\\\\' --queue ''"), R"({"tag":"a\u001b[2J'b\\","queue":""})");
  EXPECT_EQ(filter(""), "{}");
}

TEST(Render, AnswersHoldNoControlOrFormatCharacter) {
  const Response response = answer(200, {{"message_id", "\x1b[2J\x7f\u009b\u202e\U000e0041"}});
  EXPECT_EQ(response.body, R"({"message_id":"\u001b[2J\u007f\u009b\u202e\udb40\udc41"})"
                           "\n");
}

}  // namespace
}  // namespace rung::http
