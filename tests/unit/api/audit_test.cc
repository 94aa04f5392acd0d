// Pages of the audit as JSON.
#include "src/api/tasks/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rung::api {
namespace {

TEST(AuditPages, AsJson) {
  AuditPage page;
  page.rows.push_back({{7, EpochMs{1'789'992'025'123}, "ann", "cancel", TaskId{42},
                        R"({"state":"scheduled"})", R"({"state":"cancelled"})", "paid", 3},
                       "orders"});
  page.rows.push_back({{6, EpochMs{1'789'992'025'123}, "bob", "pause", TaskId{0}, "{}", "{}"}, ""});
  page.next = {EpochMs{1'789'992'025'123}, 6};
  const Json json = to_json(page);
  EXPECT_EQ(json.at("next_cursor"), "6.1789992025123");
  EXPECT_EQ(json.at("audit")[0].at("retry_id"), "42");
  EXPECT_EQ(json.at("audit")[0].at("queue"), "orders");
  EXPECT_EQ(json.at("audit")[0].at("after"), Json({{"state", "cancelled"}}));
  EXPECT_EQ(json.at("audit")[1].at("retry_id"), nullptr);
  EXPECT_EQ(json.at("audit")[1].at("queue"), nullptr);
  page.next.reset();
  EXPECT_EQ(to_json(page).at("next_cursor"), nullptr);
}

TEST(AuditPages, Cursors) {
  EXPECT_EQ(audit_place_of("6.17"), (AuditPlace{EpochMs{17}, 6}));
  for (const char* wrong : {"", "6", "6.", ".17", "6.17.1", "-6.17", "6.-17", "a.b", "6 .17"})
    EXPECT_FALSE(audit_place_of(wrong)) << wrong;
}

}  // namespace
}  // namespace rung::api
