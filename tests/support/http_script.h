// An HTTP server that answers as the test says. One connection at a time.
// Thread: every method from any thread; `script` is called on the server's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rung::test {

class HttpScript {
 public:
  struct Request {
    std::string method, target, body;
    std::map<std::string, std::string> headers;  // names in lower case
  };
  struct Answer {
    // kCut: closes the connection; kSilent: does not answer until the server ends; kEndlessBody,
    // kEndlessHeaders: writes for ever, as long as the client reads; kDrips: the same, but slowly.
    int status = 200;
    std::string body = {};
    std::map<std::string, std::string> headers = {};
  };
  static constexpr int kCut = 0, kSilent = -1, kEndlessBody = -2, kEndlessHeaders = -3, kDrips = -4;
  // `number`: of the request, from 1.
  using Script = std::function<Answer(const Request&, std::size_t number)>;

  // `port`: 0 = any. Throws if it cannot listen.
  explicit HttpScript(Script script, int port = 0);
  // The same answer to each.
  explicit HttpScript(const Answer& answer) : HttpScript([answer](auto&, auto) { return answer; }) {}
  ~HttpScript();
  HttpScript(const HttpScript&) = delete;
  HttpScript& operator=(const HttpScript&) = delete;

  int port() const;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }
  std::vector<Request> requests() const;
  // Waits for so many requests in all, at most 30 s.
  bool wait_for(std::size_t requests) const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rung::test
