// Which failures have the same cause: docs/causes.md, and the corpus of tests/causes.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "src/core/base/utf8.h"
#include "src/core/causes/fingerprint.h"
#include "src/core/causes/text.h"
#include "src/core/causes/trace.h"

namespace rung {
namespace {

using causes::normalise;
using ::testing::HasSubstr;

std::string id(std::string_view error) { return fingerprint("orders", "", error).id; }

TEST(Causes, AnIdIsOfQueueTypeAndText) {
  const std::string one = fingerprint("orders", "Timeout", "no answer").id;
  EXPECT_EQ(one.size(), 12U);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(fingerprint("orders", "Timeout", "no answer").id, one);
  EXPECT_NE(fingerprint("invoices", "Timeout", "no answer").id, one);
  EXPECT_NE(fingerprint("orders", "Refused", "no answer").id, one);
  EXPECT_NE(fingerprint("orders", "Timeout", "no reply").id, one);
  EXPECT_NE(fingerprint("a", "bc", "d").id, fingerprint("ab", "c", "d").id);
}

TEST(Causes, WhatVariesIsAStar) {
  const std::pair<const char*, const char*> kCases[] = {
      {"Order 4711 not found", "order * not found"},
      {"order ORD-2024-AB12 not found", "order * not found"},
      {"order 550e8400-e29b-41d4-a716-446655440000 not found", "order * not found"},
      {"order cus_NffrFeUfNVHib not found", "order * not found"},
      {"order  '4711'\tnot found", "order * not found"},
      {"charges/ch_e778fec30fae: card declined", "charges/*: card declined"},
      {"insufficient funds: 1,234.50 EUR", "insufficient funds: *"},
      {"insufficient funds: -3\u00a0000,10 USD", "insufficient funds: *"},
      {"timed out after 2h45m", "timed out after *"},
      {"timed out after 30 seconds", "timed out after *"},
      {"items [1, 2, 3] are missing", "items [*] are missing"},
      {"items [] are missing", "items [*] are missing"},
      {"connect ECONNREFUSED 10.0.0.3:5432", "connect econnrefused *"},
      {"connect ECONNREFUSED db-3.internal:5432", "connect econnrefused *"},
      {"cannot open /tmp/upload_9a8b.csv: no such file", "cannot open *: no such file"},
      {"cannot open C:\\data\\in.csv: no such file", "cannot open *: no such file"},
      {"GET https://api.acme.io/v1/charges/ch_3N?x=1 failed", "get * failed"},
      {"no mailbox alice.smith+test@example.co.uk", "no mailbox *"},
      {"since Mon, 06 May 2024 08:12:31 GMT", "since *"},
      {"com.acme.Order@6d06d69c is locked", "com.acme.order* is locked"},
      {"charge failed order=abc attempt=3", "charge failed order=* attempt=*"},
      {"pod payments-7d9c6b5f4-x2x9k is not ready", "pod * is not ready"},
      {"\xd9\xa1\xd9\xa2 items", "*"},
      {"unknown country \xe2\x80\x9cNarnia\xe2\x80\x9d", "unknown country *"},
  };
  for (const auto& [error, text] : kCases) EXPECT_EQ(normalise(error), text) << error;
}

TEST(Causes, WhatSaysWhatHappenedStays) {
  const std::pair<const char*, const char*> kCases[] = {
      {"GET http://a.example.com/7 returned 404", "get * returned 404"},
      {"HTTP/1.1 503 Service Unavailable", "http/* 503 service unavailable"},
      {"Request failed with status code 429", "request failed with status code 429"},
      {"[Errno 111] Connection refused", "[errno 111] connection refused"},
      {"worker exited with exit code 137 after 12s", "worker exited with exit code 137 after *"},
      {"ORA-00001: unique constraint violated", "ora-00001: unique constraint violated"},
      {"E11000 duplicate key", "e11000 duplicate key"},
      {"Column 'customer_id' cannot be null", "column customer_id cannot be null"},
      {"Duplicate entry '42' for key 'orders.uniq'", "duplicate entry * for key orders.uniq"},
      {"\"email\" is required", "email is required"},
      {"\"items[3].price\" must be a number", "items[*].price must be a number"},
      {"'NoneType' object has no attribute 'price'", "nonetype object has no attribute price"},
      {"{\"error\":\"card_expired\",\"order\":\"zz\"}", "{error:card_expired,order:*}"},
      {"bad sha256 of application/json", "bad sha256 of application/json"},
      {"Http2Stream is closed", "http2stream is closed"},
      {"it doesn't work, does it?", "it doesn't work, does it?"},
  };
  for (const auto& [error, text] : kCases) EXPECT_EQ(normalise(error), text) << error;
  EXPECT_NE(id("ORA-00001: violated"), id("ORA-02291: violated"));
  EXPECT_EQ(id("INV-00042: violated"), id("INV-00043: violated"));
}

TEST(Causes, AStackTraceIsItsTypeAndItsFirstOwnFrame) {
  const std::string java =
      "org.springframework.amqp.ListenerExecutionFailedException: Listener threw\n"
      "\tat org.springframework.amqp.Adapter.invoke(Adapter.java:12)\n"
      "Caused by: java.lang.NullPointerException: null\n"
      "\tat java.base/java.util.Objects.requireNonNull(Objects.java:220)\n"
      "\tat com.acme.PriceService.price(PriceService.java:42)\n"
      "\tat com.acme.Listener.on(Listener.java:4)\n\t... 12 more";
  const auto trace = causes::find_trace(java);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->type, "java.lang.nullpointerexception");
  EXPECT_EQ(trace->frame, "com.acme.priceservice.price");
  EXPECT_EQ(trace->message, "null");
  std::string redeployed = java;
  redeployed.replace(redeployed.find(":42"), 3, ":51");
  EXPECT_EQ(id(redeployed), id(java));
  std::string elsewhere = java;
  elsewhere.replace(elsewhere.find("PriceService.price"), 18, "StockService.count");
  EXPECT_NE(id(elsewhere), id(java));
  // A 404 and a 503 differ, although both come from one line.
  const auto net = [](const std::string& status) {
    return "System.Net.Http.HttpRequestException: Response status code does not indicate success: " + status +
           ".\n   at System.Net.Http.HttpResponseMessage.EnsureSuccessStatusCode()\n"
           "   at Acme.StockClient.GetAsync(String sku) in /src/StockClient.cs:line 12";
  };
  EXPECT_NE(id(net("404 (Not Found)")), id(net("503 (Service Unavailable)")));
  EXPECT_FALSE(causes::find_trace("one line at (once)"));
  EXPECT_FALSE(causes::find_trace("two lines\nat most"));
}

// Strangers write errors.
TEST(Causes, AnyBytesAreFineAndTheTimeIsBounded) {
  std::mt19937 dice{7};
  std::vector<std::string> hostile{"",
                                   std::string(16'384, '\''),
                                   std::string(16'384, '1'),
                                   std::string(16'384, '['),
                                   std::string(16'384, '\0'),
                                   std::string(16'384, '\xff'),
                                   std::string(8'192, '\n')};
  for (const char* piece :
       {"at ", "at a.b(", "\"a\":", "File \"", "=(", "a@", "\\\"", "x=", "#0 ", "---> A: b\n", "a/b",
        "Caused by: ", "1: a::b\n", "Traceback (most recent call last)\n", "`"}) {
    std::string text;
    while (text.size() < 16'384) text += piece;
    hostile.push_back(text);
  }
  for (int i = 0; i < 300; ++i) {
    std::string text(1000, ' ');
    for (char& c : text) c = static_cast<char>(i % 2 == 0 ? dice() % 256 : 32 + dice() % 95);
    hostile.push_back(text);
  }
  for (const std::string& error : hostile) {
    const Fingerprint one = fingerprint("orders", "", error);
    EXPECT_EQ(one.id.size(), 12U);
    EXPECT_LE(one.text.size(), 3000U);
    EXPECT_EQ(fingerprint("orders", "", error).id, one.id);
  }
  // What follows after 16 KiB does not count.
  EXPECT_EQ(id(std::string(16'384, 'a') + "b"), id(std::string(16'384, 'a') + "c"));
}

struct Text {
  std::string cause, error, id, text;
};

std::string largest(const std::map<std::string, int>& counts) {
  return std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->first;
}

void expect_grouped(const std::string& file, std::size_t percent) {
  SCOPED_TRACE(file);
  std::ifstream in(file);
  std::vector<Text> texts;
  std::map<std::string, std::map<std::string, int>> of_label, of_group;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    Text one{json.at("cause"), json.at("error"), {}, {}};
    const Fingerprint found = fingerprint("orders", json.value("error_type", ""), one.error);
    one.id = found.id;
    one.text = found.text;
    ++of_label[one.cause][one.id];
    ++of_group[one.id][one.cause];
    texts.push_back(std::move(one));
  }
  ASSERT_GE(texts.size(), 400U);
  std::ostringstream told;
  std::size_t splits = 0, merges = 0, wrong = 0;
  for (const Text& one : texts) {
    const bool split = largest(of_label[one.cause]) != one.id,
               merged = largest(of_group[one.id]) != one.cause;
    splits += split ? 1 : 0;
    merges += merged ? 1 : 0;
    wrong += split || merged ? 1 : 0;
    if (split || merged)
      told << (split ? "split " : "merged ") << one.cause << ": " << one.text << "\n  " << one.error << "\n";
  }
  std::cout << file << ": " << texts.size() << " texts, " << of_label.size() << " causes, " << of_group.size()
            << " groups, " << splits << " false splits, " << merges << " false merges\n";
  if (percent == 0) std::cout << told.str();
  EXPECT_LE(wrong * 100, texts.size() * (100 - percent));
}

TEST(Causes, TheCorporaAreGroupedRight) {
  if (const char* other = std::getenv("RUNG_TEST_CORPUS"); other != nullptr) return expect_grouped(other, 0);
  const std::string folder = RUNG_SOURCE_DIR "/tests/causes/";
  for (const char* corpus : {"services", "shop", "apps"}) expect_grouped(folder + corpus + ".jsonl", 99);
  for (const char* corpus : {"market", "unseen"}) expect_grouped(folder + corpus + ".jsonl", 93);
}

}  // namespace
}  // namespace rung
