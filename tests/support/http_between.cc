#include "tests/support/http_between.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include "src/core/base/hex.h"
#include "src/core/base/url.h"
#include "src/http/server/server.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

// A path with an encoded slash comes as it was sent, and in others there is nothing to encode.
std::string target_of(const http::Request& request) {
  std::string target = request.path;
  for (char before = '?'; const auto& [name, value] : request.query) {
    target += std::exchange(before, '&') + percent_encode(name) + "=" + percent_encode(value);
  }
  return target;
}

}  // namespace

struct HttpBetween::Impl {
  std::unique_ptr<http::Server> server;
};

HttpBetween::HttpBetween(std::string server, Change change) : impl_(std::make_unique<Impl>()) {
  const auto url = parse_url(server);
  if (!url) throw std::runtime_error(url.error().message);
  const auto hand_on = [url = *url, change = std::move(change)](const http::Request& request) {
    HttpClient client(url.port, url.host);
    const auto body = request.body.empty() ? std::nullopt : std::optional(std::string(request.body));
    const HttpAnswer got =
        client.call(request.method, target_of(request), body, {{"Authorization", request.authorization}});
    Answer answer{got.status == 0 ? 502 : got.status, got.body};
    change(request.path, answer);
    http::Response response;
    response.status = answer.status;
    response.body = answer.body;
    return response;
  };
  auto started = http::Server::start({}, [hand_on](const http::Request& request) -> http::Server::Work {
    return [&request, hand_on](http::Budget&) { return hand_on(request); };
  });
  if (!started) throw std::runtime_error(started.error().message);
  impl_->server = *std::move(started);
}

HttpBetween::~HttpBetween() { impl_->server->stop(std::chrono::seconds{30}); }

std::string HttpBetween::url() const { return "http://127.0.0.1:" + std::to_string(impl_->server->port()); }

}  // namespace rung::test
