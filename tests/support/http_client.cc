#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string_view>

namespace rung::test {

struct HttpClient::Impl {
  std::string base;
  CURL* easy = nullptr;
  ~Impl() { curl_easy_cleanup(easy); }
};

namespace {

std::size_t take_body(const char* from, std::size_t, std::size_t size, void* to) {
  static_cast<HttpAnswer*>(to)->body.append(from, size);
  return size;
}

std::size_t take_header(const char* from, std::size_t, std::size_t size, void* to) {
  auto& headers = static_cast<HttpAnswer*>(to)->headers;
  const std::string line(from, size);
  if (line.starts_with("HTTP/")) headers.clear();  // also that of a 100
  const std::size_t colon = line.find(':'), begin = line.find_first_not_of(" \t", colon + 1);
  if (colon == std::string::npos || begin == std::string::npos) return size;
  std::string name = line.substr(0, colon);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  headers[name] = line.substr(begin, line.find_last_not_of("\r\n") + 1 - begin);
  return size;
}

}  // namespace

HttpClient::HttpClient(int port, const std::string& host, const std::string& ca)
    : impl_(std::make_unique<Impl>()) {
  impl_->base = (ca.empty() ? "http://" : "https://") + host + ":" + std::to_string(port);
  impl_->easy = curl_easy_init();
  const auto set = [this](CURLoption option, auto value) { curl_easy_setopt(impl_->easy, option, value); };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_TIMEOUT_MS,
      120'000L);  // 64 MB, read by a build without optimization, take 50 s on a slow machine
  set(CURLOPT_WRITEFUNCTION, &take_body);
  set(CURLOPT_HEADERFUNCTION, &take_header);
  if (!ca.empty()) set(CURLOPT_CAINFO, ca.c_str());
}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

HttpAnswer HttpClient::call(const std::string& method, const std::string& path,
                            const std::optional<std::string>& body, const Headers& headers) {
  const bool posts = body || method == "POST";
  // What libcurl would add by itself goes by an empty value.
  Headers all = {{"Accept", ""}, {"Expect", ""}};
  if (posts) all["Content-Type"] = body ? "application/json" : "";
  for (const auto& [name, value] : headers) all[name] = value;
  curl_slist* lines = nullptr;
  for (const auto& [name, value] : all) {
    const std::string line = name + ":" + (value.empty() ? "" : " " + value);
    lines = curl_slist_append(lines, line.c_str());
  }
  const std::string url = impl_->base + path, content = body.value_or("");
  HttpAnswer answer;
  const auto set = [this](CURLoption option, auto value) { curl_easy_setopt(impl_->easy, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_HTTPGET, 1L);  // forgets the request before
  if (method == "HEAD") set(CURLOPT_NOBODY, 1L);
  if (posts) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(content.size()));
    set(CURLOPT_POSTFIELDS, content.c_str());
  }
  set(CURLOPT_CUSTOMREQUEST, method.c_str());
  set(CURLOPT_HTTPHEADER, lines);
  set(CURLOPT_WRITEDATA, &answer);
  set(CURLOPT_HEADERDATA, &answer);
  const CURLcode code = curl_easy_perform(impl_->easy);
  set(CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
  curl_slist_free_all(lines);
  if (code != CURLE_OK) return {};
  long status = 0;
  curl_easy_getinfo(impl_->easy, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
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

HttpAnswer call_management(const std::string& method, const std::string& path,
                           const std::optional<std::string>& body) {
  const char* url = std::getenv("RUNG_TEST_MANAGEMENT");
  if (url == nullptr) throw std::runtime_error("RUNG_TEST_MANAGEMENT is not set: run the tests by tests/run");
  HttpClient http(std::stoi(std::string(url).substr(std::string_view(url).rfind(':') + 1)));
  return http.call(method, path, body, {{"authorization", "Basic Z3Vlc3Q6Z3Vlc3Q="}});
}

int free_port() {
  // Below those of tests/servers, and of the range from which the kernel takes ports for connections: one of
  // these could be taken before it is used.
  static std::minstd_rand random(std::random_device{}());
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = std::uniform_int_distribution<int>(10'000, 19'999)(random);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    const bool is_free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (is_free) return port;
  }
  throw std::runtime_error("no free port");
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
