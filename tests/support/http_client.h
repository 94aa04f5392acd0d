// An HTTP client for tests: one connection, kept open. Thread: one at a time.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/core/base/time.h"

namespace rung::test {

struct HttpAnswer {
  int status = 0;                              // 0 = no response
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  std::string header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? "" : it->second;
  }
};

class HttpClient {
 public:
  using Headers = std::map<std::string, std::string>;
  // `ca`: use TLS, and verify the server's certificate with this CA.
  explicit HttpClient(int port, const std::string& host = "127.0.0.1", const std::string& ca = "");
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  // `body`: nullopt = none. Content-Type: application/json unless `headers` has one.
  HttpAnswer call(const std::string& method, const std::string& path,
                  const std::optional<std::string>& body = {}, const Headers& headers = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// RabbitMQ's management API of the test's servers, as guest: much faster than rabbitmqctl.
HttpAnswer call_management(const std::string& method, const std::string& path,
                           const std::optional<std::string>& body = {});

// A port of 127.0.0.1 that was free a moment ago.
int free_port();

// Sends raw bytes and reads until the other side closes, or `within` has passed.
std::string send_raw(int port, const std::string& bytes, Ms within = std::chrono::minutes{2});

}  // namespace rung::test
