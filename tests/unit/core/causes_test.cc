// docs/causes.md: what varies in a message, what stays, what of a stack trace counts, and what the config
// adds.
#include <gtest/gtest.h>

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/causes/fingerprint.h"
#include "src/core/task/task.h"

namespace rung {
namespace {

using Texts = std::vector<std::string>;

// Each line's texts are of one cause, and no two lines' are.
void expect_causes(const std::vector<Texts>& causes) {
  for (std::size_t i = 0; i < causes.size(); ++i) {
    for (const std::string& text : causes[i]) EXPECT_EQ(cause_text(text), cause_text(causes[i][0])) << text;
    for (std::size_t other = 0; other < i; ++other)
      EXPECT_NE(cause_text(causes[i][0]), cause_text(causes[other][0])) << causes[i][0];
  }
}

TEST(CausesText, ShapesOfAValueAreOne) {
  for (const char* value : {"4711",
                            "-4711",
                            "ORD-2024-AB12",
                            "7c9e6679-7425-40de-944b-e07fc1f90ae7",
                            "[1, 2, 3]",
                            "[]",
                            "1.234,50",
                            "1'234.50",
                            "1\u00a0234,50",
                            "0x7ffe12",
                            "2h45m",
                            "1,234.50 EUR",
                            "EUR 1,234.50",
                            "€ 12",
                            "12 %",
                            "500ms",
                            "2 seconds",
                            "10.0.3.7:5432",
                            "db-3.internal:5432",
                            "localhost:5432",
                            "ch_e778fec30fae",
                            "NffrFeUfNVHib",
                            "deadbeef",
                            "QCXKHFZ",
                            "'Zöe'",
                            "''",
                            "https://example.com/a?b=c",
                            "ann@example.com",
                            "/var/lib/app/in/4711.csv",
                            "a.csv",
                            "C:\\Users\\Acme\\a.txt",
                            "2024-01-02T03:04:05.678Z",
                            "2024-01-02 03:04:05 +02:00",
                            "Mon, 02 Jan 2006 15:04:05 GMT",
                            "orders-7d9f8b6c5-x2kqz"})
    EXPECT_EQ(cause_text("could not take " + std::string(value) + " now"), "could not take * now") << value;
}

TEST(CausesText, CodesStay) {
  expect_causes({{"HTTP 404"},
                 {"HTTP 503"},
                 {"returned 404 for /a", "returned 404 for /b"},
                 {"returned 503 for /a"},
                 {"404 Not Found"},
                 {"503 Service Unavailable"},
                 {"POST https://pay.example/charges/7: 503", "POST https://pay.example/charges/8: 503"},
                 {"POST https://pay.example/charges/7: 404"},
                 {"[Errno 111] refused"},
                 {"[Errno 113] refused"},
                 {"exit code 1"},
                 {"exit code 137"},
                 {"SQLSTATE[23000]"},
                 {"SQLSTATE[42S22]"},
                 {"Error 1062: duplicate '7'", "Error 1062: duplicate '8'"},
                 {"Error 1452: duplicate '7'"},
                 {"ORA-00001: x"},
                 {"ORA-01400: x"},
                 {"E11000 duplicate"},
                 {"E11001 duplicate"},
                 {"550 5.1.1 unknown"},
                 {"550 5.7.1 unknown"},
                 {"connect ECONNREFUSED 10.0.0.1:1"},
                 {"connect ETIMEDOUT 10.0.0.1:1"},
                 {"not utf8"},
                 {"not utf16"},
                 {"digest sha256"},
                 {"digest md5"}});
}

TEST(CausesText, OtherNumbersAreNoCodes) {
  expect_causes({{"order 404 is lost", "order 503 is lost"},
                 {"response took 200 ms", "response took 503 ms"},
                 {"INV-00042 is open", "INV-00043 is open"},
                 {"request 4711 returned 404", "request 4712 returned 404"}});
}

TEST(CausesText, WordsStayAlsoInQuotes) {
  expect_causes({{"KeyError: 'customer_id'"},
                 {"KeyError: 'shipping_address'"},
                 {"column \"city\" of relation \"addresses\""},
                 {"column \"zip\" of relation \"addresses\""},
                 {"Cannot read properties of undefined (reading 'price')"},
                 {"Cannot read properties of undefined (reading 'lines')"},
                 {"No module named 'lxml'"},
                 {"No module named 'yaml'"},
                 {R"({"code":"declined","id":"a7"})", R"({"code": "declined", "id": "b8"})"},
                 {R"({"code":"expired","id":"a7"})"}});
}

TEST(CausesText, ValuesAfterWhatAnnouncesThemVary) {
  expect_causes(
      {{"Duplicate entry 'Ann' for key 'users.email'", "Duplicate entry 'Bob' for key 'users.email'"},
       {"Duplicate entry 'Ann' for key 'users.phone'"},
       {"customer 'Ann' is unknown", "customer \"Bob\" is unknown"},
       {"getaddrinfo ENOTFOUND db", "getaddrinfo ENOTFOUND cache"},
       {"lost, id=abc", "lost, id=xyz"},
       {"Failing row contains (1, null, Berlin).", "Failing row contains (2, Rome, null)."}});
}

// Each with its text.
const std::vector<std::pair<std::string, std::string>> kTraces = {
    {"java.lang.IllegalStateException: no stock of SKU-4711\n"
     "\tat java.base/java.util.Optional.orElseThrow(Optional.java:403)\n"
     "\tat com.acme.OrderService.lambda$ship$0(OrderService.java:42) ~[app.jar:1.4.2]\n"
     "\tat org.springframework.amqp.rabbit.Listener.invoke(Listener.java:7)\n",
     "java.lang.illegalstateexception no stock of in com.acme.orderservice.ship"},
    {"System.Exception: order 7\n ---> System.InvalidOperationException: no stock\n"
     "   at System.Linq.ThrowHelper.ThrowNoElementsException()\n"
     "   at Acme.Orders.Shipper.<Ship>d__12.MoveNext() in C:\\src\\Shipper.cs:line 43\n"
     "   --- End of inner exception stack trace ---\n   at Acme.Main.Run()\n",
     "system.invalidoperationexception no stock in acme.orders.shipper.ship"},
    {"Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in a\n    b()\nKeyError: 'x'\n\n"
     "During handling of the above exception, another exception occurred:\n\n"
     "Traceback (most recent call last):\n  File \"/app/consume.py\", line 12, in on_message\n    "
     "ship(order)\n"
     "  File \"/app/orders.py\", line 42, in ship\n    raise OutOfStock(sku)\n"
     "  File \"/app/venv/lib/python3.11/site-packages/pika/x.py\", line 1, in f\n    g()\n"
     "acme.OutOfStock: SKU-4711\n",
     "acme.outofstock in orders.ship"},
    {"/app/lib/order.rb:12:in `block in ship': no stock (Acme::OutOfStock)\n\tfrom "
     "/app/lib/order.rb:9:in `each'\n",
     "acme outofstock no stock in order.ship"},
    {"Uncaught PDOException: SQLSTATE[23000]: lost in /app/src/Order.php:33\nStack trace:\n"
     "#0 /app/vendor/laravel/src/Connection.php(7): PDOStatement->execute()\n"
     "#1 /app/src/Job.php(8): App\\Order->ship(Object(App\\Item))\n#2 {main}",
     "uncaught pdoexception sqlstate 23000 lost in order"},
    {"OutOfStock: SKU-4711\n    at new Stock (/app/node_modules/stock/index.js:1:2)\n"
     "    at async OrderService.ship (/app/dist/orders.js:42:11)\n",
     "outofstock in orderservice.ship"},
    {"panic: order 4711 is lost\n\ngoroutine 17 [running]:\npanic({0x1, 0x2})\n"
     "\t/usr/local/go/src/runtime/panic.go:884 +0x213\n"
     "example.com/acme/orders.(*Service).Ship.func1(0xc000010000, {0x1, 0x2})\n\t/app/orders/ship.go:42 "
     "+0x1d\n",
     "panic order * is lost goroutine * running in example.com.acme.orders.service.ship"},
    {"thread 'main' panicked at src/orders.rs:42:5:\norder 4711 is lost\nnote: run with RUST_BACKTRACE=1",
     "order * is lost in orders"},
    {"** (KeyError) key :total not found\n    (elixir 1.14) lib/enum.ex:7: Enum.map/2\n"
     "    (orders 0.1.0) lib/orders/ship.ex:12: anonymous fn/1 in Orders.Ship.run/2\n",
     "keyerror key total not found in orders.ship.run"},
    {"{badmatch,{error,timeout}}\n[{gen_server,call,2,[{file,\"gen_server.erl\"},{line,7}]},\n"
     " {orders,ship,2,[{file,\"src/orders.erl\"},{line,42}]}]",
     "badmatch error timeout in orders.ship"},
    {"std::runtime_error: lost\n 0# boost::stacktrace::f() at /a.hpp:1\n 1# acme::ship(int) at "
     "/src/ship.cc:42\n",
     "std runtime_error lost in acme.ship"}};

TEST(CausesTrace, OfEachLanguageTheExceptionAndItsFirstOwnFrameCount) {
  for (const auto& [trace, text] : kTraces) EXPECT_EQ(cause_text(trace), text) << trace;
}

TEST(CausesTrace, TheCauseWithoutOwnFramesHasThoseAround) {
  EXPECT_EQ(
      cause_text("a.b.OuterException: x\n\tat com.acme.A.f(A.java:1)\nCaused by: java.net.SocketException: "
                 "reset\n\tat java.net.Socket.read(Socket.java:2)\n\t... 9 more\n"),
      "java.net.socketexception reset in com.acme.a.f");
}

CauseRule rule(std::string_view expression, std::string name) {
  return {*parse_rule_regex(expression), std::move(name)};
}

TEST(CausesRules, TheFirstMatchNamesTheCauseAndMasksAddValues) {
  const CauseRules rules(
      {rule("/customer [a-z]+/", ""), rule("/quota/i", "over quota"), rule("/quota of/", "not this one")});
  EXPECT_EQ(cause_text("the QUOTA of tenant Ann is used up", &rules), "over quota");
  EXPECT_EQ(cause_text("customer ann is blocked since 3 days", &rules), "is blocked since");
  EXPECT_EQ(cause_text("no mail to customer ann yet", &rules), "no mail to * yet");
  EXPECT_EQ(cause_text("E: customer ann\n\tat com.acme.A.f(A.java:1)\n", &rules), "in com.acme.a.f");
  EXPECT_TRUE(rule("/x*/", "").regex.matches(""));
  EXPECT_FALSE(rule("/x+/", "").regex.matches(""));
}

// --- Whatever bytes an error has: it has a fingerprint, always the same.

std::string id_of(std::string_view queue, std::string_view type, std::string_view error) {
  return cause_id(queue, type, cause_text(error));
}

void expect_sound(std::string_view error) {
  const std::string id = id_of("orders", "E", error);
  EXPECT_EQ(id.size(), 12U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(id_of("orders", "E", std::string(error)), id);
}

std::string repeated(std::string_view part) {
  std::string out;
  while (out.size() < kErrorBytes) out += part;
  return out;
}

// What traces are made of: words, what stands between them, and bytes that stand nowhere.
Texts pieces() {
  std::set<std::string> out = {"\xe2", "\xff", "\x1a", "\x1b[", "*.a", "<id>", std::string(1, '\0')};
  for (const auto& [trace, text] : kTraces) {
    const auto in_word = [&](std::size_t at) {
      return std::isalnum(static_cast<unsigned char>(trace[at])) != 0;
    };
    for (std::size_t at = 0, end = 0; at < trace.size(); at = end) {
      for (end = at + 1; end < trace.size() && in_word(end) == in_word(at); ++end) {
      }
      out.insert(trace.substr(at, end - at));
    }
  }
  return {out.begin(), out.end()};
}

TEST(CausesHostile, RandomBytesAndPieces) {
  const Texts all = pieces();
  std::mt19937 random(32);
  for (int i = 0; i < 300; ++i) {
    std::string error(random() % 2000, '\0');
    for (char& c : error) c = static_cast<char>(random());
    expect_sound(error);
  }
  for (int i = 0; i < 2000; ++i) {
    std::string error;
    for (std::size_t n = random() % 40; n > 0; --n) error += all[random() % all.size()];
    expect_sound(error);
  }
}

TEST(CausesHostile, SixteenKilobytesOfOneThing) {
  for (const std::string& part : pieces()) expect_sound(repeated(part));
}

TEST(CausesHostile, QueueAndTypeCount) {
  const std::string id = id_of("orders", "A", "lost");
  EXPECT_NE(id_of("invoices", "A", "lost"), id);
  EXPECT_NE(id_of("orders", "B", "lost"), id);
  EXPECT_NE(id_of("order", "sA", "lost"), id);
}

// Ids are stored, and the same on each instance.
TEST(CausesHostile, IdsStayTheSame) {
  EXPECT_EQ(cause_text(""), "");
  EXPECT_EQ(cause_text("charge ch_e778fec30fae declined"), "charge * declined");
  EXPECT_EQ(id_of("orders", "PaymentDeclined", "charge ch_e778fec30fae declined"), "ab2e7d02d4f4");
}

// ---- the rule, held on texts of real systems: each line of tests/causes/*.jsonl has an error and the label
// of its cause.
//
//   RUNG_CAUSES=other.jsonl build/dev/test_unit_core --gtest_filter='CausesCorpus.*'    prints the rate of
//   another one

using Counts = std::map<std::string, int>;

// The key with the highest count.
std::string most_of(const Counts& counts) {
  std::string most;
  int count = 0;
  for (const auto& [key, n] : counts) {
    if (n <= count) continue;
    most = key;
    count = n;
  }
  return most;
}

// Percent of its texts that are grouped right.
double rate_of(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> texts;  // label, cause
  std::map<std::string, Counts> ids_of, labels_of;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    const std::string label = json.at("cause"), type = json.at("error_type"), error = json.at("error");
    const std::string id = id_of("orders", type, error);
    ++ids_of[label][id];
    ++labels_of[id][label];
    texts.emplace_back(label, id);
  }
  std::size_t split = 0, merged = 0;
  for (const auto& [label, id] : texts) {
    split += id != most_of(ids_of[label]) ? 1 : 0;      // outside the largest group of its label
    merged += label != most_of(labels_of[id]) ? 1 : 0;  // in a group most of whose texts have another label
  }
  if (texts.empty()) return 0;
  const double right = 100 - 100 * static_cast<double>(split + merged) / static_cast<double>(texts.size());
  std::cout << path << ": " << texts.size() << " texts, " << right << " % right; false splits " << split
            << ", false merges " << merged << "\n";
  return right;
}

// The rule was not made on these. Nobody looks at them, so the test prints only the rates.
TEST(CausesCorpus, NinetyThreeOfAHundredTextsAreGroupedRight) {
  if (const char* other = std::getenv("RUNG_CAUSES"); other != nullptr) {
    rate_of(other);
    return;
  }
  for (const char* name : {"held", "unseen"})
    EXPECT_GE(rate_of(RUNG_SOURCE_DIR "/tests/causes/" + std::string(name) + ".jsonl"), 93) << name;
}

}  // namespace
}  // namespace rung
