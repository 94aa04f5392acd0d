#include "src/http/wire.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rung::http {
namespace {

// Gives what it holds, a few bytes at a time, and then has ended (or is late).
class Script final : public Channel {
 public:
  Script(std::string text, std::size_t piece, long end) : text_(std::move(text)), piece_(piece), end_(end) {}
  bool open(BootMs) override { return true; }
  long read(char* to, std::size_t most, BootMs) override {
    const std::size_t n = text_.copy(to, std::min(most, piece_), at_);
    at_ += n;
    return n == 0 ? end_ : static_cast<long>(n);
  }
  bool write(const char* from, std::size_t size, BootMs) override {
    written.append(from, size);
    return true;
  }
  void finish() override {}
  std::string written;

 private:
  const std::string text_;
  const std::size_t piece_;
  const long end_;
  std::size_t at_ = 0;
};

constexpr std::size_t kMost = 64;
const std::string kLine = "POST /v1/tasks HTTP/1.1\r\n";

// What the library reads of one request; an error as "!" and its kind.
std::string read_all(Wire& wire) {
  std::string out;
  char piece[7];
  while (true) {
    const long n = wire.read(piece, sizeof piece);
    if (n == 0) return out;
    if (n < 0) return wire.too_large ? "!large" : wire.late ? "!late" : wire.broken ? "!broken" : "!ended";
    out.append(piece, static_cast<std::size_t>(n));
  }
}
std::string body_of(const std::string& text, long end = 0) {
  std::string seen;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, text.size()}) {
    Script script(text, piece, end);
    Wire wire(script);
    if (wire.read_head({}, kMost) != Wire::Head::there) return "!head";
    std::string read = read_all(wire);
    const std::string first = "POST / HTTP/1.1\r\n\r\n";
    if (read.starts_with(first)) read.erase(0, first.size());
    if (piece == 1) seen = read;
    EXPECT_EQ(read, seen) << "in pieces of " << piece << ": " << text;
  }
  return seen;
}
std::string chunked(const std::string& body) {
  return body_of(kLine + "Transfer-Encoding: chunked\r\n\r\n" + body);
}
std::string why(const std::string& text) {
  const auto head = parse_head(text);
  return head ? "" : head.error().message;
}

TEST(Wire, TakesAHeadApart) {
  const auto head =
      parse_head("POST /v1/tasks?a=b HTTP/1.1\r\nHost: x\r\nX-Y:\t a%20b \r\ncontent-length: 12\r\n");
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->method + " " + head->target + " " + head->version, "POST /v1/tasks?a=b HTTP/1.1");
  EXPECT_EQ(head->get("x-y"), "a%20b") << "as it came";
  EXPECT_EQ(head->length, 12U);
  EXPECT_TRUE(head->has_body());
  EXPECT_EQ(head->find("absent"), nullptr);
}

TEST(Wire, RefusesWhatTwoReadersTakeForDifferentThings) {
  for (const std::string line : {"Content-Length : 40",
                                 " Content-Length: 40",
                                 "Content-Length",
                                 ": 40",
                                 "Content-Length: %32",
                                 "Content-Length: +4",
                                 "Content-Length: 0x4",
                                 "Content-Length: 4, 4",
                                 "Content-Length:",
                                 "Content-Length: 99999999999999999999",
                                 "Content-Length: 4\r\nContent-Length: 4",
                                 "Content-Length: 4\r\nTransfer-Encoding: chunked",
                                 "Transfer-Encoding: chunked\r\ntransfer-encoding: gzip",
                                 "If-Match: \"1\"\r\nIf-Match: \"2\"",
                                 "Host: a\r\nHost: b",
                                 "X: a\nRange: bytes=0-9",
                                 "X: a\rY: b",
                                 "X: a\r\n folded",
                                 "X(y): z",
                                 "X: \x01"}) {
    EXPECT_NE(why(kLine + line + "\r\n"), "") << line;
  }
  EXPECT_NE(why(kLine + "X: a" + std::string(1, '\0') + "\r\n"), "");
  for (const std::string line :
       {"", "GET", "GET /", "GET  HTTP/1.1", "GET / HTTP/3.0", "GET / x HTTP/1.1", " GET / HTTP/1.1",
        "G(T / HTTP/1.1", "GET /\tx HTTP/1.1", "GET /\x01 HTTP/1.1"})
    EXPECT_NE(why(line + "\r\n"), "") << line;
}

TEST(Wire, ALineThatEndsByLfAloneIsNotWaitedFor) {
  for (const std::string text : {"GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nX: a\n\n", "\n"}) {
    Script script(text, 3, -2);
    Wire wire(script);
    EXPECT_EQ(wire.read_head({}, kMost), Wire::Head::wrong) << text;
  }
  Script script("\r\nGET / HTTP/1.1\r\n\r\n", 1, 0);
  Wire wire(script);
  EXPECT_EQ(wire.read_head({}, kMost), Wire::Head::there) << "an empty line before it is passed over";
}

TEST(Wire, BodiesByLength) {
  EXPECT_EQ(body_of(kLine + "Content-Length: 5\r\n\r\nhello, and more"), "hello");
  EXPECT_EQ(body_of(kLine + "\r\nhello"), "") << "none is announced";
  EXPECT_EQ(body_of(kLine + "Content-Length: 5\r\n\r\nhell"), "!ended");
  EXPECT_EQ(body_of(kLine + "Content-Length: 5\r\n\r\nhell", -2), "!late");
  EXPECT_EQ(body_of(kLine + "Content-Length: 64\r\n\r\n" + std::string(64, 'x')), std::string(64, 'x'));
  EXPECT_EQ(body_of(kLine + "Content-Length: 65\r\n\r\n" + std::string(65, 'x')), "!large");
}

TEST(Wire, BodiesByChunks) {
  EXPECT_EQ(chunked("5\r\nhello\r\n0\r\n\r\n"), "hello");
  EXPECT_EQ(chunked("2;a=b\r\nhe\r\n0A\r\n0123456789\r\n00\r\nX: y\r\n\r\n"), "he0123456789");
  EXPECT_EQ(chunked("0\r\n\r\n"), "");
  EXPECT_EQ(chunked("20\r\n" + std::string(32, 'x') + "\r\n20\r\n" + std::string(32, 'y') + "\r\n0\r\n\r\n"),
            std::string(32, 'x') + std::string(32, 'y'));
  EXPECT_EQ(chunked("20\r\n" + std::string(32, 'x') + "\r\n21\r\n" + std::string(33, 'y') + "\r\n0\r\n\r\n"),
            "!large");
  for (const std::string body :
       {"5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "\r\n", "x\r\n", "-1\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n", "5 5\r\nhello\r\n", "5\r\nhello\r\n0\r\nX: y\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n", "1000000000000000\r\nx\r\n"})
    EXPECT_EQ(chunked(body), "!broken") << body;
  EXPECT_EQ(chunked(std::string(2000, '1')), "!broken");
  EXPECT_EQ(chunked("5\r\nhello\r\n"), "!ended");
  EXPECT_EQ(chunked("5\r\nhello\r\n0\r\n"), "!ended");
}

TEST(Wire, TheNextRequestBeginsWhereTheBodyEnds) {
  Script script(kLine + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n", 1000,
                0);
  Wire wire(script);
  ASSERT_EQ(wire.read_head({}, kMost), Wire::Head::there);
  read_all(wire);
  ASSERT_EQ(wire.read_head({}, kMost), Wire::Head::there);
  EXPECT_EQ(wire.head().target, "/x");
  EXPECT_EQ(read_all(wire), "GET / HTTP/1.1\r\n\r\n");
}

TEST(Wire, WhoAsksWhetherToGoOnIsTold) {
  Script script(kLine + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\nok", kLine.size() + 46, 0);
  Wire wire(script);
  ASSERT_EQ(wire.read_head({}, kMost), Wire::Head::there);
  EXPECT_EQ(script.written, "");
  EXPECT_EQ(read_all(wire).substr(19), "ok");
}

TEST(Wire, Queries) {
  EXPECT_EQ(
      parse_query("message_id=a=b&queue=q1?x&&tag=a+b%26%3d&empty=&alone"),
      (Pairs{{"message_id", "a=b"}, {"queue", "q1?x"}, {"tag", "a b&="}, {"empty", ""}, {"alone", ""}}));
  EXPECT_EQ(parse_query(""), Pairs{});
  for (const auto* text : {"a=%", "a=%4", "a=%4g", "%zz=1"}) EXPECT_FALSE(parse_query(text)) << text;
  EXPECT_EQ(decode_path("/v1/tasks/%35+"), "/v1/tasks/5+");
  EXPECT_EQ(decode_path("/%zz"), "/%zz");
  EXPECT_EQ(decode_path("/v1%2ftasks"), "/v1%2ftasks") << "not a path separator";
  EXPECT_EQ(decode_path("/v1%2Ftasks/%35"), "/v1%2Ftasks/%35");
}

TEST(Wire, HostIsANameOrAnAddress) {
  for (const auto* good : {"localhost", "localhost:80", "127.0.0.1:8025", "[::1]", "[::1]:8025",
                           "rung.example.", "my_host-1", "localhost:"})
    EXPECT_EQ(why("GET / HTTP/1.1\r\nHost: " + std::string(good) + "\r\n"), "") << good;
  for (const auto* bad :
       {"", "localhost:80@evil", "user@localhost", "localhost/x", "localhost:x", "localhost:123456", "[::1",
        "[::1]x", "[]", "a b", "a,b", ":80", "localhost?x", "local%68ost", "\xC3\xA4"})
    EXPECT_NE(why("GET / HTTP/1.1\r\nHost: " + std::string(bad) + "\r\n").find("Host is a name"),
              std::string::npos)
        << bad;
}

}  // namespace
}  // namespace rung::http
