#include "src/store/mysql/errors.h"

#include <gtest/gtest.h>

namespace rung::mysql {
namespace {

// A permanent error gives up the message, so only errors about this row's data may be permanent.
TEST(Errors, AboutARowsDataIsAShortList) {
  int many = 0;
  for (int code = 1; code < 6000; ++code) many += trouble_of(code, "") == Trouble::row ? 1 : 0;
  EXPECT_LT(many, 25);
  for (const int code : {1153, 1264, 1292, 1300, 1366, 1406, 2020, 4025})
    EXPECT_EQ(trouble_of(code, ""), Trouble::row) << code;
}

TEST(Errors, WhatAPersonHasToMendIsWaitedOut) {
  // Rights, logins, tables, columns, schemas, locks of others, statements that are not understood, unknown.
  for (const int code :
       {1044, 1045, 1142, 1143, 1227, 1146, 1054, 1049, 1046, 1036, 1100, 1099, 1064, 1030, 1526, 1932, 5999})
    EXPECT_EQ(trouble_of(code, ""), Trouble::refused) << code;
}

TEST(Errors, WhatPassesByItselfIsTransient) {
  for (const int code : {1205, 1213, 1040, 1021}) EXPECT_EQ(trouble_of(code, ""), Trouble::passing);
  for (const int code : {1290, 1792, 1836, 1047}) EXPECT_EQ(trouble_of(code, ""), Trouble::elsewhere);
  for (const int code : {2002, 2006, 2013, 1053, 1927}) EXPECT_EQ(trouble_of(code, ""), Trouble::gone);
}

TEST(Errors, The1105OfAnOversizedPacketIsToldFromTheOthers) {
  EXPECT_EQ(trouble_of(1105,
                       "Parameter of prepared statement which is set through mysql_send_long_data() is "
                       "longer than 'max_allowed_packet' bytes"),
            Trouble::row);
  EXPECT_EQ(trouble_of(1105, "Unknown error"), Trouble::refused);
}

TEST(Errors, WordsThatMayQuoteAMessageAreKnown) {
  for (const int code : {1062, 1064, 1292, 1366, 1406}) EXPECT_TRUE(quotes_values(code)) << code;
  for (const int code : {1142, 1146, 1153, 2013}) EXPECT_FALSE(quotes_values(code)) << code;
}

}  // namespace
}  // namespace rung::mysql
