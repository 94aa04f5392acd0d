#include "tests/support/http_between.h"

#include <httplib.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace rung::test {

struct HttpBetween::Impl {
  httplib::Server server;
  std::thread thread;
  int port = 0;
};

HttpBetween::HttpBetween(std::string server, Change change) : impl_(std::make_unique<Impl>()) {
  const auto hand_on = [server = std::move(server), change = std::move(change)](
                           const httplib::Request& request, httplib::Response& response) {
    httplib::Client client(server);
    client.set_url_encode(false);
    httplib::Headers headers;
    if (request.has_header("Authorization"))
      headers.emplace("Authorization", request.get_header_value("Authorization"));
    const auto got = client.Get(request.target, headers);
    Answer answer{got ? got->status : 502, got ? got->body : ""};
    change(request.path, answer);
    response.status = answer.status;
    response.set_content(answer.body, "application/json");
  };
  impl_->server.Get(".*", hand_on);
  impl_->port = impl_->server.bind_to_any_port("127.0.0.1");
  if (impl_->port < 0) throw std::runtime_error("no port to listen at");
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  while (!impl_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

HttpBetween::~HttpBetween() {
  impl_->server.stop();
  impl_->thread.join();
}

std::string HttpBetween::url() const { return "http://127.0.0.1:" + std::to_string(impl_->port); }

}  // namespace rung::test
