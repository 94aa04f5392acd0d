// An HTTP server that forwards each request to another server and lets the test change the response.
// Thread: `change` is called on the server's workers.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace rung::test {

class HttpBetween {
 public:
  struct Answer {
    int status = 200;
    std::string body;
  };
  using Change = std::function<void(const std::string& path, Answer& answer)>;

  // `server`: http://host:port. Throws std::runtime_error if it cannot listen.
  HttpBetween(std::string server, Change change);
  ~HttpBetween();
  HttpBetween(const HttpBetween&) = delete;
  HttpBetween& operator=(const HttpBetween&) = delete;

  std::string url() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rung::test
