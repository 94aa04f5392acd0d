// Whatever bytes an error has: it has a fingerprint, always the same, soon.
#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/utf8.h"
#include "src/core/causes/fingerprint.h"
#include "src/core/task/task.h"

namespace rung {
namespace {

void expect_sound(std::string_view error) {
  const Fingerprint print = fingerprint("orders", "E", error);
  EXPECT_EQ(print.id.size(), 12U);
  EXPECT_EQ(print.id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_LE(print.text.size(), 500U);
  EXPECT_TRUE(is_utf8(print.text));
  const Fingerprint again = fingerprint("orders", "E", std::string(error));
  EXPECT_EQ(again.id, print.id);
  EXPECT_EQ(again.text, print.text);
}

std::string repeated(std::string_view part) {
  std::string out;
  while (out.size() < kErrorBytes) out += part;
  return out;
}

TEST(CausesHostile, RandomBytes) {
  std::mt19937 random(32);
  for (int i = 0; i < 300; ++i) {
    std::string error(random() % 2000, '\0');
    for (char& c : error) c = static_cast<char>(random());
    expect_sound(error);
  }
}

// Of what the scanner looks for, in any order: cut anywhere, too.
TEST(CausesHostile, RandomPieces) {
  const std::vector<std::string> pieces = {"'",
                                           "\"",
                                           "`",
                                           "\\\"",
                                           "\\",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "(",
                                           ")",
                                           "=",
                                           ":",
                                           "://",
                                           "@",
                                           "/",
                                           "\n",
                                           "\\n",
                                           " at ",
                                           "at a.b(",
                                           "C:\\",
                                           "1",
                                           "x7",
                                           "a.b",
                                           "::",
                                           "-",
                                           "\xe2",
                                           "\xe2\x80\x9c",
                                           "\t",
                                           "from ",
                                           "#0 ",
                                           "#0 a.php(1): b()",
                                           "Caused by: ",
                                           "Suppressed: ",
                                           "---> ",
                                           " ---> ",
                                           "Traceback (most recent call last)\n",
                                           "File \"a.py\", line 1, in b",
                                           "thread 'a' panicked at ",
                                           "panic: ",
                                           "goroutine 1 [running]:\n",
                                           "main.f(0x1)\n\t/a.go:1",
                                           "** (",
                                           "(app 1.0) lib/a.ex:1: A.b/1",
                                           "{a,b,1,[{file,",
                                           "a.rb:1:in `",
                                           "a.rb:1:in 'b': c (D)",
                                           "0: a::b\n",
                                           "1# a() at b",
                                           ".php:",
                                           ".php on line ",
                                           "<>c__",
                                           "<a>b__0",
                                           "\xd9\xa4",
                                           "status",
                                           "code",
                                           "true",
                                           "Mon",
                                           "*.a",
                                           "=>",
                                           "Ltd.",
                                           "customer Ann",
                                           "<id>",
                                           "</id>",
                                           "<html>",
                                           "<title>",
                                           "A{",
                                           "#<A",
                                           "attempt 3",
                                           "request_id",
                                           " of 7",
                                           "--- End of inner exception",
                                           "Next ",
                                           "Exception",
                                           std::string(1, '\0')};
  std::mt19937 random(33);
  for (int i = 0; i < 3000; ++i) {
    std::string error;
    for (std::size_t n = random() % 40; n > 0; --n) error += pieces[random() % pieces.size()];
    error.resize(error.size() - (error.empty() ? 0 : random() % 2));
    expect_sound(error);
  }
}

TEST(CausesHostile, SixteenKilobytesOfOneThing) {
  for (const std::string_view part : {"'",
                                      "\"",
                                      "`",
                                      "\\\"",
                                      " 'a",
                                      " \"a",
                                      "\xe2\x80\x9c",
                                      "1",
                                      "1 ",
                                      "a",
                                      "e",
                                      "at ",
                                      "at a(",
                                      "at a(\n",
                                      "\tat a.b(C.java:1)\n",
                                      "{",
                                      "[",
                                      "(",
                                      "(1,",
                                      "{\"a\":",
                                      "[{",
                                      "a=",
                                      "a=(",
                                      ")=(",
                                      "a.",
                                      "a::",
                                      "a@",
                                      "/",
                                      "a/",
                                      "-",
                                      ":",
                                      "::",
                                      "a:",
                                      "\n",
                                      "\\n",
                                      "\\",
                                      "<",
                                      "a<",
                                      "---> ",
                                      " ---> A: b",
                                      "Caused by: A: b\n",
                                      "Suppressed: A\n",
                                      " a.php:1",
                                      ".php:",
                                      "from a:1:in `b'\n",
                                      "#0 ",
                                      "#0 a.php(1): b()\n",
                                      "0: a::b\n",
                                      "File \"a\", line 1, in b\n",
                                      "Traceback (most recent call last):\n",
                                      "** (",
                                      "{a,b,1,[{file,",
                                      "\xff",
                                      "\xe2",
                                      "C:\\a ",
                                      "Exception",
                                      "E",
                                      "a b(",
                                      "\t/a.go:1\nmain.f(\n",
                                      "Mon ",
                                      "http/",
                                      "text/",
                                      "a+",
                                      "a=b+",
                                      "[(",
                                      "(a=b)",
                                      "[a: 1",
                                      "{\"path\": [",
                                      "[Source: ",
                                      "a'b@",
                                      "(a=(",
                                      "1(",
                                      "LINE 1:\n",
                                      "GMT ",
                                      "==",
                                      "Ab & ",
                                      "customer Ab ",
                                      "A Ltd ",
                                      "{\"a\":\"b",
                                      "{\"a\":{",
                                      "{\"a\":{\"b\":1},",
                                      "<aaa>b</aaa>",
                                      "<aaa>b",
                                      "<html",
                                      "<html><title>a</title>",
                                      "a=b ",
                                      "a=\"b",
                                      "A{a: b, ",
                                      "A(a=b",
                                      "#<A ",
                                      "attempt 3 of ",
                                      "1 of 2 ",
                                      "request_id=a ",
                                      "a b c d e f g h ",
                                      "constraint (A.b "}) {
    const std::clock_t begun = std::clock();  // of the processor: a busy machine changes nothing
    expect_sound(repeated(part));
    // Two fingerprints, unoptimized, perhaps with a sanitizer; a quadratic one takes longer.
    EXPECT_LT(std::clock() - begun, 2 * CLOCKS_PER_SEC) << part;
  }
}

TEST(CausesHostile, DeepNesting) {
  expect_sound(std::string(8000, '[') + std::string(8000, ']'));
  expect_sound(std::string(8000, '{') + "1" + std::string(8000, '}'));
  std::string quotes;
  for (int i = 0; i < 500; ++i) quotes += R"({"message":")";
  expect_sound(quotes);
  std::string generics = "at a.";
  for (int i = 0; i < 3000; ++i) generics += "<a";
  expect_sound("x\n" + generics + "(b)");
}

TEST(CausesHostile, OnlyTheFirstKilobytesCount) {
  const std::string error = repeated("not found, ");
  EXPECT_EQ(fingerprint("orders", "", error.substr(0, kErrorBytes) + "and more").id,
            fingerprint("orders", "", error.substr(0, kErrorBytes)).id);
}

TEST(CausesHostile, QueueAndTypeCount) {
  const std::string id = fingerprint("orders", "A", "lost").id;
  EXPECT_NE(fingerprint("invoices", "A", "lost").id, id);
  EXPECT_NE(fingerprint("orders", "B", "lost").id, id);
  EXPECT_NE(fingerprint("order", "sA", "lost").id, fingerprint("orders", "A", "lost").id);
}

// Ids are stored.
TEST(CausesHostile, IdsStayTheSame) {
  EXPECT_EQ(fingerprint("orders", "", "").text, "");
  EXPECT_EQ(fingerprint("orders", "PaymentDeclined", "charge ch_e778fec30fae declined").text,
            "charge * declined");
  EXPECT_EQ(fingerprint("orders", "PaymentDeclined", "charge ch_e778fec30fae declined").id, "ab2e7d02d4f4");
}

}  // namespace
}  // namespace rung
