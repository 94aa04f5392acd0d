// docs/causes.md: what of documents and objects counts, what is omitted, and names that stand in no quotes.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "src/core/causes/fingerprint.h"

namespace rung {
namespace {

std::string shown(std::string_view error) { return fingerprint("orders", "", error).text; }

// Each line's texts are of one cause, and no two lines' are.
void expect_causes(const std::vector<std::vector<std::string_view>>& causes) {
  for (std::size_t i = 0; i < causes.size(); ++i) {
    for (const std::string_view text : causes[i]) EXPECT_EQ(shown(text), shown(causes[i][0])) << text;
    for (std::size_t other = 0; other < i; ++other)
      EXPECT_NE(shown(causes[i][0]), shown(causes[other][0])) << causes[i][0];
  }
}

TEST(CausesDocuments, OfJsonOnlyWhatItSaysCounts) {
  expect_causes(
      {{R"({"code":"declined","id":"ch_7"})", R"({"code":"declined","id":"ch_8","fee":12,"ok":true})",
        R"({"code":"declined","charge":{"id":"ch_7","amount":12}})"},
       {R"({"code":"expired","id":"ch_7"})"},
       {R"({"refusalReason":"Refused","resultCode":"05","ref":"A7"})",
        R"({"refusalReason":"Refused","resultCode":"05","card":"3065","ref":"B8"})"},
       {R"({"refusalReason":"Not enough balance","resultCode":"51","ref":"A7"})"},
       {R"({"message":"invalid","errors":{"email":["is taken"]}})"},
       {R"({"message":"invalid","errors":{"name":["is taken"]}})"},
       {R"({"message":"invalid","errors":{"lines[0].qty":["is taken"]}})",
        R"({"message":"invalid","errors":{"lines[7].qty":["is taken"]}})"}});
}

// Otherwise all of them would be one cause.
TEST(CausesDocuments, KeysStayWhereNothingElseIs) {
  expect_causes({{R"({"a":"x","b":1})"},
                 {R"({"a":"x","c":1})"},
                 {"order=7 qty=3"},
                 {"order=7 sku=A"},
                 {"trace id: 7f9a"}});
}

TEST(CausesDocuments, TheKeyTellsACodeFromData) {
  expect_causes(
      {{R"({"errorCode":"E4012","currencyCode":"EUR"})", R"({"errorCode":"E4012","currencyCode":"CHF"})"},
       {R"({"errorCode":"E4013","currencyCode":"EUR"})"},
       {R"({"name":"ValidationError","message":"x"})"},
       {R"({"name":"Ann","message":"x"})", R"({"name":"Bob","message":"x"})"}});
}

TEST(CausesDocuments, OfXmlHtmlAndLogfmt) {
  expect_causes({{"<Error><Code>NoSuchKey</Code><Key>a/7.pdf</Key></Error>",
                  "<Error><Code>NoSuchKey</Code><Key>b/8.pdf</Key><HostId>a+b=</HostId></Error>"},
                 {"<Error><Code>AccessDenied</Code><Key>a/7.pdf</Key></Error>"},
                 {"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
                  "<!DOCTYPE html><html><title>502 Bad Gateway</title><hr><center>nginx/1.18.0 "
                  "(Ubuntu)</center></html>"},
                 {"<html><head><title>503 Service Unavailable</title></head></html>"},
                 {"level=error msg=\"no stock\" order=7",
                  "level=error msg=\"no stock\" order=8 host=worker-3 took=3ms"},
                 {"level=error msg=\"no price\" order=7"}});
}

TEST(CausesDocuments, OfAPrintedObjectTheStateIsData) {
  expect_causes({{"stale %Shop.Order{id: 7, status: :active}", "stale %Shop.Order{id: 8, status: :past_due}"},
                 {"stale Order{id=7, status=NEW}", "stale Order{id=8, status=PAID}"},
                 {"order is NEW, status=NEW"},
                 {"order is NEW, status=PAID"},
                 {"HttpError{status=404}"},
                 {"HttpError{status=503}"},
                 {"undefined method `vat' for #<Invoice:0x7f8b>",
                  "undefined method `vat' for #<Invoice:0x7f8c id=7>"}});
}

TEST(CausesNames, OfPeopleAndCompaniesVary) {
  expect_causes({{"customer Ann Lee is blocked", "customer Mei-Lin O'Hara is blocked",
                  "customer Björn Příklad is blocked", "customer 4711 is blocked"},
                 {"limit of Müller & Söhne KG exceeded", "limit of Blue Kettle Ltd. exceeded",
                  "limit of SARL Petit Pois exceeded", "limit of Pasta e Basta S.p.A. exceeded"},
                 {"no stock in warehouse Leipzig", "no stock in warehouse HAM2"},
                 {"customer not found"},
                 {"customer Not Found for order"},
                 {"user Unknown"},
                 {"user Locked"},
                 {"Payment Service is down"},
                 {"Order Service is down"}});
}

TEST(CausesNames, CurrenciesVary) {
  expect_causes({{"no rate for HUF/EUR", "no rate for PLN/EUR"}, {"no price in CHF", "no price in EUR"}});
}

TEST(CausesNames, OfASchemaStayInMoreSentences) {
  expect_causes({{"unique constraint (SHOP.UQ_A) violated", "unique constraint (SHOP_EU.UQ_A) violated"},
                 {"unique constraint (SHOP.UQ_B) violated"},
                 {"No module named 'lxml'"},
                 {"No module named 'yaml'"},
                 {"config key 'smtp.host' is missing"},
                 {"config key 'smtp.port' is missing"},
                 {"because \"qty\" is null"},
                 {"because \"price\" is null"},
                 {"Key: 'Order.Email' Error:Field validation for 'Email' failed on the 'required' tag"},
                 {"Key: 'Order.Email' Error:Field validation for 'Email' failed on the 'email' tag"}});
}

TEST(CausesNames, CodesInQuotesAndOfServicesStay) {
  expect_causes({{"got code \"451\", with message \"451 4.7.1 <a@b.example>: try later\"",
                  "got code \"451\", with message \"451 4.7.1 <c@d.example>: try later\""},
                 {"got code \"550\", with message \"550 5.7.1 <a@b.example>: denied\""},
                 {"reason AC04 for A7", "reason AC04 for B8"},
                 {"reason MD01 for A7"},
                 {"error code PAY-1003"},
                 {"error code PAY-1004"},
                 {"AcceptSecurityContext error, data 52e, v1db1"},
                 {"AcceptSecurityContext error, data 775, v1db1"},
                 {"GET /orders/7 -> 404", "GET /orders/8 -> 404"},
                 {"GET /orders/7 -> 503"}});
}

TEST(CausesOmitted, AttemptsTraceIdsAndRepeats) {
  expect_causes({{"refused", "refused (attempt 1)", "attempt 3 of 10: refused", "refused attempt=4",
                  "refused, request_id=7f9a", "refused (trace id: 7f9a)", "refused [queue id A2A0E9]"},
                 {"10.0.0.1 answered SERVFAIL", "10.0.0.1 answered SERVFAIL; 10.0.0.2 answered SERVFAIL"},
                 {"blocked", "blocked since 2024-01-02"},
                 {"with 0 bytes received", "with 0 out of 512 bytes received"},
                 {"1 validation error for Order", "2 validation errors for Order"},
                 {"attempt to write"}});
}

TEST(CausesOmitted, RowsOfSqlVary) {
  expect_causes({{"into `a` (`b`) values (7, Please ring twice)",
                  "into `a` (`b`) values (8, Bitte klingeln, 1. Stock)"}});
}

}  // namespace
}  // namespace rung
