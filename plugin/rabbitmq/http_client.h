// Requests to the management API, by libcurl. Thread: one, but for interrupt(). send() blocks, bounded by the
// timeouts.
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
  Ms connecting, answering;    // an answer has to be there, all of it, after the sum
};

struct HttpReply {
  int status = 0;  // 0 = no answer; `error` says why
  std::string body;
  std::string error;  // "is not there", "does not answer in time", "cannot be asked: ..."
};

class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `path` is percent-encoded, with its query; it is sent as it is. `json`: the body, "" = none.
  HttpReply send(const char* method, const std::string& path, const std::string& json = "");
  // Any thread: ends the call under way and all that follow.
  void interrupt();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rung::rabbit
