// HTTP requests to the management API, with libcurl. Thread: one, except interrupt(). send() blocks, bounded
// by the timeouts.
#pragma once

#include <memory>
#include <string>

#include "src/core/time.h"

namespace rung::rabbit {

struct HttpClientOptions {
  std::string base;            // "http://host:port" or "https://host:port"
  std::string user, password;  // basic authentication
  std::string ca = {};         // PEM file; "" = the system's
  bool verify = true;          // the server's certificate and its name
  Ms connecting, answering;    // the complete answer must arrive within the sum of both
};

struct HttpReply {
  int status = 0;  // 0 = no answer; `error` says why
  std::string body;
  std::string error;  // "is not reachable", "does not answer in time", "cannot be used: ..."
};

class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `path` is percent-encoded, includes the query, and is sent unchanged. `json`: the body, "" = none.
  HttpReply send(const char* method, const std::string& path, const std::string& json = "");
  // Any thread: aborts the current call and all later ones.
  void interrupt();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rung::rabbit
