// docs/causes.md: what varies in a message, what is kept.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "src/core/causes/fingerprint.h"

namespace rung {
namespace {

std::string text_of(std::string_view error) { return fingerprint("orders", "", error).text; }
std::string id_of(std::string_view error) { return fingerprint("orders", "", error).id; }

// Texts of one cause.
using Same = std::vector<std::string_view>;
void expect_same(const std::vector<Same>& table) {
  for (const Same& same : table) {
    for (const std::string_view text : same)
      EXPECT_EQ(id_of(text), id_of(same[0])) << text << "\n  " << text_of(text) << "\n  " << text_of(same[0]);
  }
}
// Texts of as many causes.
void expect_different(const std::vector<Same>& table) {
  for (const Same& different : table) {
    for (std::size_t i = 1; i < different.size(); ++i)
      EXPECT_NE(id_of(different[i]), id_of(different[0])) << different[i] << "\n  " << text_of(different[i]);
  }
}

TEST(CausesText, ShapesOfAValueAreOne) {
  Same same;
  std::vector<std::string> texts;
  for (const char* value : {"4711",
                            "-4711",
                            "+1",
                            "ORD-2024-AB12",
                            "7c9e6679-7425-40de-944b-e07fc1f90ae7",
                            "[1, 2, 3]",
                            "[7]",
                            "[]",
                            "{}",
                            "1.234,50",
                            "1'234.50",
                            "1\xe2\x80\x99"
                            "234.50",
                            "1\xc2\xa0"
                            "234,50",
                            "1\xe2\x80\xaf"
                            "234,50",
                            "1e-5",
                            "0x7ffe12",
                            "2h45m",
                            "1,234.50 EUR",
                            "EUR 1,234.50",
                            "$12",
                            "12 %",
                            "12 kB",
                            "500 ms",
                            "500ms",
                            "2 seconds",
                            "10.0.3.7:5432",
                            "db-3.internal:5432",
                            "localhost:5432",
                            "fe80::1",
                            "[2001:db8::7]:5432",
                            "00:1b:44:11:3a:b7",
                            "cus_NffrFeUfNVHib",
                            "ch_e778fec30fae",
                            "NffrFeUfNVHib",
                            "deadbeef",
                            "xkcdqrst",
                            "QCXKHFZ",
                            "'x'",
                            "\"some text\"",
                            "`x`",
                            "`x'",
                            "\xe2\x80\x9cx\xe2\x80\x9d",
                            "\xc2\xabx\xc2\xbb",
                            "\\\"x\\\"",
                            "https://example.com/a?b=c",
                            "ann@example.com",
                            "/var/lib/app/in/4711.csv",
                            "./in/a.csv",
                            "~/a",
                            "in/2024/a.csv",
                            "a.csv",
                            "C:\\Program Files\\Acme\\a.txt",
                            "\\\\files\\share\\a.txt",
                            "2024-01-02",
                            "2024-01-02T03:04:05.678Z",
                            "2024-01-02 03:04:05 +02:00",
                            "12:30 PM",
                            "Mon, 02 Jan 2006 15:04:05 GMT",
                            "Mon Jan 15 00:18:34 CET 2025",
                            "2 January 2024",
                            "\xd9\xa4\xd9\xa7",
                            "\xef\xbc\x91\xef\xbc\x92",
                            "kL3+WqOLNNv4UKrt",
                            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.TJVA95OrM7E2cBab30RM",
                            "orders-7d9f8b6c5-x2kqz",
                            "pool-3-thread-7",
                            "v1.4.2",
                            "6d06d69c",
                            "9f2c41d07ab35e1c",
                            "orders.internal",
                            "arn:aws:sqs:eu-west-1:1:q"})
    texts.push_back("could not take " + std::string(value) + " now");
  for (const std::string& text : texts) same.push_back(text);
  expect_same({same});
  EXPECT_EQ(text_of(same[0]), "could not take * now");
}

TEST(CausesText, CaseBlanksAndPunctuationDoNotCount) {
  expect_same({{"No stock", "no  STOCK", "no\tstock.", "no\nstock", "no\xc2\xa0stock!"}});
}

TEST(CausesText, ThePluralAfterANumberDoesNotCount) {
  expect_same({{"1 order left", "3 orders left"}, {"4 items (12 bytes)", "1 item (1 byte)"}});
  expect_different({{"orders left", "order left"}});
}

TEST(CausesText, CodesStay) {
  expect_different({{"HTTP 404", "HTTP 503"},
                    {"HTTP/1.1 404", "HTTP/1.1 503"},
                    {"status code: 404", "status code: 503"},
                    {"returned 404", "returned 503"},
                    {"server responded with 404 for /a", "server responded with 503 for /a"},
                    {"got 404 from orders", "got 503 from orders"},
                    {"404 Not Found", "503 Service Unavailable", "502 Bad Gateway"},
                    {"orders: (404) Not Found", "orders: (410) Gone"},
                    {"[Errno 111] refused", "[Errno 113] refused"},
                    {"io failed (os error 2)", "io failed (os error 13)"},
                    {"exit code 1", "exit code 137"},
                    {"exited with status 1", "exited with status 2"},
                    {"killed by signal 9", "killed by signal 11"},
                    {"SQLSTATE[23000]", "SQLSTATE[42S22]"},
                    {"(SQLSTATE 23505)", "(SQLSTATE 40001)"},
                    {"ERROR 1062 (23000): x", "ERROR 1213 (40001): x"},
                    {"Error 1062: duplicate", "Error 1452: duplicate"},
                    {"Msg 2627, Level 14", "Msg 547, Level 14"},
                    {"ORA-00001: x", "ORA-01400: x"},
                    {"PLS-00201", "PLS-00306"},
                    {"TNS-12541", "TNS-12514"},
                    {"SQL0803N", "SQL0204N"},
                    {"E11000 duplicate", "E11001 duplicate"},
                    {"AADSTS50034: x", "AADSTS50126: x"},
                    {"error TS2345: x", "error TS2322: x"},
                    {"curl: (28) x", "curl: (7) x"},
                    {"(1062, \"Duplicate entry\")", "(2006, \"Duplicate entry\")"},
                    {"550 5.1.1 unknown", "550 5.7.1 unknown"},
                    {"hresult 0x80131904", "hresult 0x80004005"},
                    {"reply-code=404, reply-text=x", "reply-code=406, reply-text=x"},
                    {"connect ECONNREFUSED 10.0.0.1:1", "connect ETIMEDOUT 10.0.0.1:1"}});
  expect_same({{"HTTP/1.1 404", "HTTP/2 404", "http 404"},
               {"ERROR 1062 (23000): order 7", "ERROR 1062 (23000): order 8"},
               {"HTTP 503 after 3 ms from 10.0.0.1", "HTTP 503 after 7 ms from 10.0.0.2"}});
}

TEST(CausesText, OtherNumbersAreNoCodes) {
  expect_same({{"order 404 is lost", "order 503 is lost"},
               {"got 404 orders", "got 503 orders"},
               {"response took 200 ms", "response took 503 ms"},
               {"INV-00042 is open", "INV-00043 is open"},
               {"error: 12 orders failed", "error: 13 orders failed"},
               {"postal code 10115 unknown", "postal code 20095 unknown"},
               {"request 4711 returned 404", "request 4712 returned 404"}});
}

TEST(CausesText, TechnicalWordsStay) {
  expect_different({{"not utf8", "not utf16"},
                    {"not UTF-8", "not ISO-8859-1"},
                    {"digest sha256", "digest md5"},
                    {"int32 overflow", "int64 overflow"},
                    {"s3 failed", "ec2 failed"},
                    {"api v1", "api v2"},
                    {"Http2Stream closed", "Base64Decoder closed"},
                    {"com.acme.Http2Stream", "com.acme.OAuth2Client"},
                    {"ERR_HTTP2_ERROR x", "ERR_TLS_ERROR x"}});
  expect_same({{"com.acme.Order@6d06d69c lost", "com.acme.Order@1b2c3d lost"}});
}

TEST(CausesText, NamesOfASchemaStay) {
  expect_different(
      {{"null value in column \"city\" of relation \"addresses\"",
        "null value in column \"zip\" of relation \"addresses\""},
       {"Duplicate entry '7' for key 'users.email'", "Duplicate entry '7' for key 'users.phone'"},
       {"Undefined array key \"iban\"", "Undefined array key \"vat_id\""},
       {"Cannot read properties of undefined (reading 'price')",
        "Cannot read properties of undefined (reading 'lines')"},
       {"\"sku\" is required", "\"qty\" is required"},
       {"'First Name' is required", "'Last Name' is required"},
       {"'int' object has no attribute 'a'", "'int' object has no attribute 'b'"},
       {"missing field `a`", "missing field `b`"},
       {"undefined method `ship' for nil", "undefined method `send' for nil"},
       {"insert into (\"SHOP\".\"ORDERS\".\"CITY\")", "insert into (\"SHOP\".\"ORDERS\".\"ZIP\")"}});
  expect_same({{"\"items[0].price\" must be a number", "\"items[3].price\" must be a number"},
               {"customer 'Ann' is unknown", "customer 'Bob' is unknown"},
               {"undefined method `ship' for nil", "undefined method 'ship' for nil"},
               {"relation \"orders_2024\"", "relation \"orders_2025\""},
               {"it doesn't fit 'a'", "it doesn't fit 'b'"}});
}

TEST(CausesText, OfJsonKeysAndWhatTheySayStay) {
  expect_same({{R"({"code":"declined","id":"a7","n":1,"ok":true})",
                R"({"code":"declined","id":"b8","n":22,"ok":false})"},
               {R"({"message":"order 1 is lost"})", R"({"message": "order 2 is lost"})"},
               {R"({'error': 'lost', 'user': 'Ann'})", R"({'error': 'lost', 'user': 'Bob'})"},
               {R"("{\"code\":\"declined\"}")", R"("{\"code\":\"expired\"}")"}});
  expect_different({{R"({"code":"declined"})", R"({"code":"expired"})"},
                    {R"({"a":"x"})", R"({"b":"x"})"},
                    {R"({"status":404})", R"({"status":503})"},
                    {R"({"error":{"type":"card","message":"expired"}})",
                     R"({"error":{"type":"card","message":"declined"}})"}});
}

TEST(CausesText, OfKeyValueTheValueVariesUnlessItSays) {
  expect_same({{"lost id=a", "lost id=b"},
               {"lost (name=Ann Lee, id=4)", "lost (name=Bob, id=5)"},
               {"Key (email)=(a@b.c) exists", "Key (email)=(Bob) exists"},
               {"Failing row contains (1, null, Berlin).", "Failing row contains (2, Rome, null)."}});
  expect_different({{"reason=expired", "reason=declined"},
                    {"status=404", "status=503"},
                    {"rpc error: code = Internal", "rpc error: code = Unknown"}});
}

TEST(CausesText, BracketsWithNothingButValuesVaryAsAWhole) {
  expect_same({{"timed out (total=10, idle=0)", "timed out (total=7)", "timed out",
                "timed out (total: 1 234, idle: 0)"},
               {"lost [host db]", "lost [host db-3.internal]", "lost [item SKU-A]", "lost [cid: deadbeef]"},
               {"null at [Source: (String)\"{\"a\": [1]}\"; line: 1, column: 7] here",
                "null at [Source: REDACTED; line: 2, column: 17] here"}});
  expect_different(
      {{"lost (reason: expired)", "lost (reason: declined)"}, {"lost (still open)", "lost (closed)"}});
}

TEST(CausesText, AValueAroundTheTextMayBeMissing) {
  expect_same({{"not found: X1", "not found: ''", "not found:", "[req-7f9a8b] not found", "7: not found"}});
}

TEST(CausesText, AListOfPairsIsOne) {
  expect_same({{"names DNS:a.example, DNS:b.example", "names DNS:c.example"}});
}

TEST(CausesText, IdsMayBeLettersAlone) {
  expect_same(
      {{"order SKU-A is lost", "order ord_abcdefghijkl is lost", "order 7 is lost", "order QUXKZJ is lost"},
       {"bad object abcdefa", "bad object 9fceb02"},
       {"Request ID: QUJD", "Request ID: a7"},
       {"product LAMP is lost", "product 7 is lost"}});
  expect_different({{"READ-ONLY", "NOT-NULL"},
                    {"insufficient_funds", "invalid_account"},
                    {"findByOrderId", "findByUserId"}});
}

TEST(CausesText, TheDatabaseOfATableVaries) {
  expect_same({{"Table 'shop.orders' is full", "Table 'shop_eu.orders' is full"},
               {"(`shop`.`orders`)", "(`shop_eu`.`orders`)"},
               {"collection: shop.orders index: a", "collection: shop_eu.orders index: a"}});
}

TEST(CausesText, ContentTypesAreNoPaths) {
  expect_different({{"cannot read application/json", "cannot read application/xml"}});
}

TEST(CausesText, HostsAfterALookupVary) {
  expect_same({{"getaddrinfo ENOTFOUND db", "getaddrinfo ENOTFOUND cache"},
               {"dial tcp: lookup db on 10.0.0.2:53: no such host",
                "dial tcp: lookup mq on 10.0.0.3:53: no such host"}});
  EXPECT_EQ(text_of("getaddrinfo failed"), "getaddrinfo failed");
}

TEST(CausesText, OfChineseOnlyTheNumbersVary) {
  const std::string order = "\xe8\xae\xa2\xe5\x8d\x95", lost = "\xe4\xb8\xa2\xe5\xa4\xb1";
  EXPECT_EQ(text_of(order + "4711" + lost), text_of(order + "12" + lost));
  EXPECT_NE(text_of(order + "4711" + lost), text_of(order + "4711" + order));
}

TEST(CausesText, WhatIsComparedStays) {
  expect_different({{"1 == 2 failed", "1 != 2 failed", "1 <= 2 failed"}});
}

}  // namespace
}  // namespace rung
