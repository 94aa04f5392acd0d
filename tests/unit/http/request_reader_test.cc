// How the reader parses a connection's bytes, however they are split: above all, no input that two parsers
// could understand differently is accepted.
#include "src/http/server/request_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace rung::http {
namespace {

constexpr std::size_t kMostBody = 64;
const std::string kLine = "POST /v1/tasks HTTP/1.1\r\n";
const std::string kHost = "Host: localhost\r\n";
const std::string kChunked = kLine + kHost + "Transfer-Encoding: chunked\r\n\r\n";

// Feeds `text`, `piece` bytes at a time. What the first request is: "METHOD PATH BODY"; a refusal as its
// status; "more" if it is incomplete.
class Feed {
 public:
  Feed(std::string text, std::size_t piece) : text_(std::move(text)), piece_(piece) {}

  std::string read() {
    const std::string head = finish([this] { return reader.read_head(); });
    return head.empty() ? finish([this] { return reader.read_body(); }) : head;
  }
  std::string request() {
    const std::string wrong = read();
    if (!wrong.empty()) return wrong;
    const Request& got = reader.request();
    return got.method + " " + got.path + " " + std::string(got.body);
  }

  Budget bodies{1 << 20};
  RequestReader reader{kMostBody, bodies};
  std::string detail;  // of a refusal

 private:
  // "": it is ready.
  template <typename Read>
  std::string finish(const Read& read) {
    while (true) {
      try {
        if (read()) return "";
      } catch (const api::Problem& why) {
        detail = why.detail;
        return std::to_string(why.status);
      }
      if (at_ == text_.size()) return "more";
      const std::size_t size = std::min(piece_, text_.size() - at_);
      std::memcpy(reader.prepare().data(), text_.data() + at_, size);
      reader.commit(size);
      at_ += size;
    }
  }

  const std::string text_;
  const std::size_t piece_;
  std::size_t at_ = 0;
};

// The same, however it is cut.
std::string request_of(const std::string& text) {
  std::string whole = Feed(text, 16 * 1024).request();
  for (const std::size_t piece : {1, 2, 5})
    EXPECT_EQ(Feed(text, piece).request(), whole) << piece << ": " << text;
  return whole;
}
std::string with_headers(const std::string& lines, const std::string& body = "") {
  return request_of(kLine + kHost + lines + "\r\n" + body);
}
std::string by_chunks(const std::string& body) {
  const std::string got = request_of(kChunked + body), start = "POST /v1/tasks ";
  return got.starts_with(start) ? "!" + got.substr(start.size()) : got;
}

TEST(RequestReader, TakesARequestApart) {
  Feed feed(
      "POST /v1/%74asks?a=b%20c&d HTTP/1.1\r\nhOST: x\r\nif-match:\t \"1\" \r\nContent-Type: a/b\r\n"
      "authorization: Bearer a%41\r\norigin: o\r\nContent-Encoding: e\r\nContent-Length: 5\r\n\r\nhello",
      7);
  EXPECT_EQ(feed.request(), "POST /v1/tasks hello");
  const Request& got = feed.reader.request();
  EXPECT_EQ(got.query, (api::Pairs{{"a", "b c"}, {"d", ""}}));
  EXPECT_EQ(got.if_match, "\"1\"");
  EXPECT_EQ(got.host + " " + got.origin + " " + got.content_type + " " + got.content_encoding, "x o a/b e");
  EXPECT_EQ(got.authorization, "Bearer a%41") << "as it came";
  EXPECT_TRUE(got.has_body);
  EXPECT_TRUE(feed.reader.keep_alive());
  EXPECT_FALSE(feed.reader.is_head());
}

// RFC 9112, 3.2.2: every server must take it.
TEST(RequestReader, ATargetInAbsoluteForm) {
  const auto path_and_host = [](const std::string& target) {
    Feed feed("GET " + target + " HTTP/1.1\r\nHost: other\r\n\r\n", 7);
    const std::string got = feed.request();
    return got + feed.reader.request().host;
  };
  EXPECT_EQ(path_and_host("http://rung.example:8025/readyz"), "GET /readyz rung.example:8025");
  EXPECT_EQ(path_and_host("HTTPS://rung.example?a=b"), "GET / rung.example");
  EXPECT_EQ(path_and_host("/v1?to=http://x/"), "GET /v1 other");
  for (const auto* bad : {"http://localhost:80@evil/readyz", "http:///readyz"})
    EXPECT_EQ(path_and_host(bad).substr(0, 3), "400") << bad;
}

TEST(RequestReader, WhatTwoReadersTakeForDifferentThingsIs400) {
  const std::string body(40, 'x');
  for (const std::string line : {"Content-Length : 40",
                                 " Content-Length: 40",
                                 "Content-Length",
                                 ": 40",
                                 "Content-Length: %32",
                                 "Content-Length: +4",
                                 "Content-Length: 0x4",
                                 "Content-Length: 4, 4",
                                 "Content-Length:",
                                 "Content-Length: -4",
                                 "Content-Length: 1e1",
                                 "Content-Length: 99999999999999999999",
                                 "Content-Length: 4\r\nContent-Length: 4",
                                 "Content-Length: 4\r\nContent-Length: 5",
                                 "Content-Length: 4\r\nTransfer-Encoding: chunked",
                                 "Transfer-Encoding: chunked\r\nContent-Length: 4",
                                 "Transfer-Encoding: chunked\r\ntransfer-encoding: gzip",
                                 "Transfer-Encoding: gzip\r\ntransfer-encoding: chunked",
                                 "Transfer-Encoding : chunked",
                                 "Transfer-Encoding:\r\n chunked",
                                 "Transfer: chunked\r\n -Encoding",
                                 "Content: 40\r\n\t-Length",
                                 "If-Match: \"1\"\r\nIf-Match: \"2\"",
                                 "Host: b",
                                 "X: a\nRange: bytes=0-9",
                                 "X: a\n",
                                 "X: a\rY: b",
                                 "X: a\r\n folded",
                                 "X(y): z",
                                 "X: \x01"}) {
    EXPECT_EQ(with_headers(line + "\r\n", body), "400") << line;
  }
  EXPECT_EQ(with_headers("X: a" + std::string(1, '\0') + "b\r\n"), "400");
  EXPECT_EQ(with_headers("Content-Length: 4" + std::string(1, '\0') + "0\r\n", body), "400");
  for (const std::string line :
       {"nonsense", "GET", "GET /", "GET  / HTTP/1.1", "GET  HTTP/1.1", "GET / HTTP/3.0", "GET / HTTP/1.2",
        "GET / x HTTP/1.1", " GET / HTTP/1.1", "G(T / HTTP/1.1", "GET /\tx HTTP/1.1", "GET /\x01 HTTP/1.1",
        "GET / HTTP/1.1 "})
    EXPECT_EQ(request_of(line + "\r\n" + kHost + "\r\n"), "400") << line;
}

TEST(RequestReader, SaysWhatIsWrong) {
  const auto why = [](const std::string& text) {
    Feed feed(text, 1000);
    feed.request();
    return feed.detail;
  };
  EXPECT_NE(why(kLine + kHost + "X: a\nY: b\r\n\r\n").find("a line must end with CR LF"), std::string::npos);
  EXPECT_NE(why(kLine + kHost + "Content-Length: x\r\n\r\n").find("Content-Length, a number"),
            std::string::npos);
  EXPECT_EQ(why(kLine + kHost + kHost + "\r\n"), "the header Host is given twice");
  EXPECT_EQ(why(kLine + "\r\n"), "an HTTP/1.1 request must have the header Host");
  EXPECT_NE(why(kLine + "Host: a@b\r\n\r\n").find("Host must be a name"), std::string::npos);
}

TEST(RequestReader, HeadsAreBounded) {
  EXPECT_EQ(with_headers("X: " + std::string(15'000, 'h') + "\r\n"), "POST /v1/tasks ");
  EXPECT_EQ(with_headers("X: " + std::string(17'000, 'h') + "\r\n"), "431");
  std::string lines;
  for (int i = 0; i < 99; ++i) lines += "A" + std::to_string(i) + ": b\r\n";
  EXPECT_EQ(with_headers(lines), "POST /v1/tasks ");
  EXPECT_EQ(with_headers(lines + "A: b\r\n"), "431");
  // Beast forgets what it has taken: many short lines have no end for it.
  std::string endless = kLine;
  for (int i = 0; i < 4000; ++i) endless += "A: b\r\n";
  EXPECT_EQ(request_of(endless), "431");
  EXPECT_EQ(request_of("GET /" + std::string(20'000, 'a')), "431");
}

TEST(RequestReader, BodiesByLength) {
  EXPECT_EQ(with_headers("Content-Length: 5\r\n", "hello, and more"), "POST /v1/tasks hello");
  EXPECT_EQ(with_headers("", "hello"), "POST /v1/tasks ") << "none is announced";
  EXPECT_EQ(with_headers("Content-Length: 5\r\n", "hell"), "more");
  EXPECT_EQ(with_headers("Content-Length: 64\r\n", std::string(64, 'x')),
            "POST /v1/tasks " + std::string(64, 'x'));
  EXPECT_EQ(with_headers("Content-Length: 65\r\n", std::string(65, 'x')), "413");
  EXPECT_EQ(request_of("GET / HTTP/1.1\r\n" + kHost + "Content-Length: 1\r\n\r\nx"), "400");
  EXPECT_EQ(with_headers("Transfer-Encoding: gzip\r\n", "x"), "501");
  EXPECT_EQ(with_headers("Transfer-Encoding: gzip, chunked\r\n", "x"), "501");
}

TEST(RequestReader, BodiesByChunks) {
  EXPECT_EQ(by_chunks("5\r\nhello\r\n0\r\n\r\n"), "!hello");
  EXPECT_EQ(by_chunks("2;a=b\r\nhe\r\n0A\r\n0123456789\r\n00\r\nX: y\r\n\r\n"), "!he0123456789");
  EXPECT_EQ(by_chunks("0\r\n\r\n"), "!") << "in pieces, too: boostorg/beast#2861";
  EXPECT_EQ(
      by_chunks("20\r\n" + std::string(32, 'x') + "\r\n20\r\n" + std::string(32, 'y') + "\r\n0\r\n\r\n"),
      "!" + std::string(32, 'x') + std::string(32, 'y'));
  EXPECT_EQ(
      by_chunks("20\r\n" + std::string(32, 'x') + "\r\n21\r\n" + std::string(33, 'y') + "\r\n0\r\n\r\n"),
      "413");
  for (const std::string body :
       {"5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n", "5;\x01\r\nhello\r\n0\r\n\r\n", "\r\n", "x\r\n", "-1\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n", "5 5\r\nhello\r\n", "5 \r\nhello\r\n", "5\r\r\nhello\r\n0\r\n\r\n",
        "1000000000000000000\r\nx\r\n", "5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"})
    EXPECT_EQ(by_chunks(body), "400") << body;
  EXPECT_EQ(by_chunks("5;" + std::string(20'000, 'a')), "400") << "a line has an end";
  EXPECT_EQ(by_chunks("0\r\nX: " + std::string(20'000, 'a')), "400") << "so has the trailer";
  EXPECT_EQ(by_chunks("5\r\nhello\r\n"), "more");
  EXPECT_EQ(by_chunks("5\r\nhello\r\n0\r\n"), "more");
  EXPECT_EQ(by_chunks("5\r\nhello\r\n0\r\nX: y\n\r\n"), "more") << "nothing is taken";
}

TEST(RequestReader, ATrailerIsNoHeader) {
  Feed feed(kChunked + "0\r\nAuthorization: x\r\nIf-Match: y\r\n\r\n", 1000);
  EXPECT_EQ(feed.read(), "");
  EXPECT_EQ(feed.reader.request().authorization, "");
  EXPECT_FALSE(feed.reader.request().if_match);
}

TEST(RequestReader, TheNextRequestBeginsWhereTheBodyEnds) {
  Feed feed(kChunked + "1\r\na\r\n0\r\n\r\n\r\nHEAD /x HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n",
            10'000);
  EXPECT_EQ(feed.request(), "POST /v1/tasks a");
  feed.reader.next();
  EXPECT_TRUE(feed.reader.has_input());
  EXPECT_EQ(feed.request(), "GET /x ") << "an empty line before it is passed over";
  EXPECT_TRUE(feed.reader.is_head());
  EXPECT_FALSE(feed.reader.keep_alive());
  EXPECT_FALSE(feed.reader.request().has_body);
  Feed old("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1000);
  EXPECT_EQ(old.request(), "GET / ") << "HTTP/1.0 has no Host";
  EXPECT_FALSE(old.reader.keep_alive());
}

TEST(RequestReader, WhoAsksWhetherToGoOnIsKnown) {
  const std::string head = kLine + kHost + "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n";
  Feed asks(head, 1000);
  EXPECT_EQ(asks.request(), "more");
  EXPECT_TRUE(asks.reader.expects_continue());
  Feed old("POST / HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", 1000);
  EXPECT_EQ(old.request(), "more");
  EXPECT_FALSE(old.reader.expects_continue()) << "HTTP/1.0 doesn't know it";
}

TEST(RequestReader, ABodyWithoutRoomIsRefusedBeforeItIsRead) {
  Budget bodies(1 << 20);
  Budget::Share taken(bodies);
  ASSERT_TRUE(taken.grow(1 << 20));
  const auto refused = [&](const std::string& text) {
    RequestReader reader(1 << 20, bodies);
    std::memcpy(reader.prepare().data(), text.data(), text.size());
    reader.commit(text.size());
    EXPECT_TRUE(reader.read_head());
    try {
      reader.read_body();
      return false;
    } catch (const api::Problem& why) {
      EXPECT_EQ(why.status, 503);
      return true;
    }
  };
  const auto of_length = [&](std::size_t n) {
    return kLine + kHost + "Content-Length: " + std::to_string(n) + "\r\n\r\n";
  };
  EXPECT_TRUE(refused(of_length(kSmallBody + 1)));
  EXPECT_FALSE(refused(of_length(kSmallBody))) << "a small one always has room";
  EXPECT_FALSE(refused(kChunked + "5\r\nhello\r\n")) << "so has one that is small so far";
}

}  // namespace
}  // namespace rung::http
