#include "src/api/views.h"

#include <gtest/gtest.h>

namespace rung::api {
namespace {

// Whoever made the bulk: HTTP writes its filter as JSON, the command line as flags.
TEST(Views, TheFilterOfABulkIsAnObject) {
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

}  // namespace
}  // namespace rung::api
