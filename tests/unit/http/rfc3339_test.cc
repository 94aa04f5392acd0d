#include <gtest/gtest.h>

#include "src/core/base/time.h"

namespace rung {
namespace {

TEST(Rfc3339, ThereAndBack) {
  const EpochMs t{1'795'280'700'123};
  EXPECT_EQ(to_rfc3339(t), "2026-11-21T17:05:00.123Z");
  EXPECT_EQ(from_rfc3339("2026-11-21T17:05:00.123Z"), t);
  EXPECT_EQ(from_rfc3339("2026-11-21t17:05:00.1239z"), t) << "finer than a ms is cut off";
  EXPECT_EQ(from_rfc3339("2026-11-21T18:05:00.123+01:00"), t);
  EXPECT_EQ(from_rfc3339("2026-11-21T11:35:00.123-05:30"), t);
  EXPECT_EQ(from_rfc3339("1970-01-01T00:00:00Z"), EpochMs{0});
  EXPECT_EQ(to_rfc3339(*from_rfc3339("9999-12-31T23:59:59.999Z")), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(from_rfc3339("2028-02-29T00:00:00Z"), EpochMs{1'835'395'200'000});
}

TEST(Rfc3339, NothingElse) {
  for (const auto* text :
       {"", "now", "2026-11-21", "2026-11-21T17:05:00", "2026-11-21T17:05Z", "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "2026-11-21T24:00:00Z", "2026-11-21T17:60:00Z", "2026-11-21T17:05:61Z",
        "2026-11-21T17:05:00.Z", "2026-11-21T17:05:00+0100", "2026-11-21T17:05:00+24:00",
        "2026-11-21T17:05:00Z ", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00", "12026-11-21T17:05:00Z"})
    EXPECT_EQ(from_rfc3339(text), std::nullopt) << text;
}

}  // namespace
}  // namespace rung
