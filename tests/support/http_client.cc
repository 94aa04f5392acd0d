#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace rung::test {

struct HttpClient::Impl {
  std::unique_ptr<httplib::Client> client;
};

HttpClient::HttpClient(int port, const std::string& host, const std::string& ca)
    : impl_(std::make_unique<Impl>()) {
  const std::string url = (ca.empty() ? "http://" : "https://") + host + ":" + std::to_string(port);
  impl_->client = std::make_unique<httplib::Client>(url);
  impl_->client->set_keep_alive(true);
  impl_->client->set_read_timeout(30, 0);
  impl_->client->set_tcp_nodelay(true);
  if (!ca.empty()) {
    impl_->client->set_ca_cert_path(ca.c_str());
    impl_->client->enable_server_certificate_verification(true);
  }
}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

HttpAnswer HttpClient::call(const std::string& method, const std::string& path,
                            const std::optional<std::string>& body, const Headers& headers) {
  httplib::Request request;
  request.method = method;
  request.path = path;
  for (const auto& [name, value] : headers) request.headers.emplace(name, value);
  if (body) {
    request.body = *body;
    if (!request.has_header("Content-Type")) request.headers.emplace("Content-Type", "application/json");
  }
  HttpAnswer answer;
  const auto result = impl_->client->send(request);
  if (!result) return answer;
  answer.status = result->status;
  answer.body = result->body;
  for (const auto& [name, value] : result->headers) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.headers[lower] = value;
  }
  return answer;
}

namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

}  // namespace

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no free port");
  close(fd);
  return ntohs(address.sin_port);
}

std::string send_raw(int port, const std::string& bytes, Ms within) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  std::string out;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t n = send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    const auto until = std::chrono::steady_clock::now() + within;
    char buffer[4096];
    while (std::chrono::steady_clock::now() < until) {
      pollfd p{fd, POLLIN, 0};
      const auto left = std::chrono::duration_cast<Ms>(until - std::chrono::steady_clock::now());
      if (poll(&p, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 1))) <= 0) break;
      const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      out.append(buffer, static_cast<std::size_t>(n));
    }
  }
  close(fd);
  return out;
}

}  // namespace rung::test
