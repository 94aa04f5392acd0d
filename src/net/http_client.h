// An HTTP client, with libcurl: the management API, a collector of traces. It keeps its connection.
// An answer is bounded: in bytes, whatever the server sends, and in time.
// Thread: one, except interrupt(). send() blocks, bounded by the timeouts.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/core/base/time.h"

namespace rung::net {

struct HttpClientOptions {
  std::string base;                      // "http://host:port" or "https://host:port"; "" = each path is a URL
  std::string user = {}, password = {};  // basic authentication; no user = none
  // Sent with each request. REQUIRES: no control characters.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string content_type = "application/json";  // of each body
  std::string ca = {};                            // PEM file; "" = the system's
  bool verify = true;                             // the server's certificate and its name
  Ms connecting, answering;                       // the complete answer must arrive within the sum of both
  std::size_t max_answer = 64UL * 1024;           // bytes of its headers and its body
};

struct HttpReply {
  int status = 0;  // 0 = no answer; `error` says why
  std::string body;
  Ms retry_after{0};  // Retry-After, as seconds or as a date; 0 = none
  Ms took{0};
  // "is not reachable", "does not answer in time", "answers with more than 64 KB", "cannot be used: ..."
  std::string error;
  // Without an answer: the server is not there, or has ended the connection: it may be restarting.
  bool may_pass = false;
};

class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `path` is percent-encoded, includes the query, and is sent unchanged. `body`: any bytes, "" = none.
  HttpReply send(const char* method, const std::string& path, const std::string& body = "");
  // Any thread: aborts the current call and all later ones.
  void interrupt();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rung::net
