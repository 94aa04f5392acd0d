#include "tests/support/http_script.h"

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace rung::test {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

HttpScript::Request read(asio::ip::tcp::socket& socket, beast::flat_buffer& buffer,
                         boost::system::error_code& error) {
  beast::http::request_parser<beast::http::string_body> parser;
  parser.body_limit(64u << 20);
  beast::http::read(socket, buffer, parser, error);
  const auto& got = parser.get();
  HttpScript::Request request{std::string(got.method_string()), std::string(got.target()), got.body(), {}};
  for (const auto& field : got) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    request.headers[name] = std::string(field.value());
  }
  return request;
}

void write(asio::ip::tcp::socket& socket, const HttpScript::Answer& answer,
           boost::system::error_code& error) {
  beast::http::response<beast::http::string_body> response;
  response.result(static_cast<unsigned>(answer.status));
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  response.body() = answer.body;
  response.prepare_payload();
  beast::http::write(socket, response, error);
}

// Until the client closes the connection, or the server ends.
void write_for_ever(asio::ip::tcp::socket& socket, bool headers) {
  std::string text = "HTTP/1.1 200 OK\r\n";
  if (!headers) text += "Transfer-Encoding: chunked\r\n\r\n";
  for (boost::system::error_code error; !error;) {
    asio::write(socket, asio::buffer(text), error);
    text =
        headers ? "X-More: " + std::string(1000, 'x') + "\r\n" : "2000\r\n" + std::string(8192, 'x') + "\r\n";
  }
}

// A byte now and then, of an answer that has no end.
void drip(asio::ip::tcp::socket& socket) {
  std::string text = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
  for (boost::system::error_code error; !error;) {
    asio::write(socket, asio::buffer(text), error);
    text = "[";
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

}  // namespace

struct HttpScript::Impl {
  Impl(Script s, int port)
      : script(std::move(s)),
        acceptor(io, {asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)}),
        thread([this] { run(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
      ::shutdown(acceptor.native_handle(), SHUT_RDWR);
      if (connection >= 0) ::shutdown(connection, SHUT_RDWR);
      changed.notify_all();
    }
    thread.join();
  }

  void run() {
    for (;;) {
      asio::ip::tcp::socket socket(io);
      boost::system::error_code error;
      acceptor.accept(socket, error);
      if (!enter(error ? -1 : socket.native_handle())) return;
      serve(socket);
      leave();
    }
  }

  void serve(asio::ip::tcp::socket& socket) {
    beast::flat_buffer buffer;
    for (boost::system::error_code error; !error;) {
      const Request request = read(socket, buffer, error);
      if (error) return;
      std::size_t number = 0;
      {
        const std::lock_guard lock(mutex);
        all.push_back(request);
        number = all.size();
        changed.notify_all();
      }
      const Answer answer = script(request, number);
      if (answer.status == kCut) return;
      if (answer.status == kSilent) {
        std::unique_lock lock(mutex);
        return changed.wait(lock, [&] { return ended; });
      }
      if (answer.status == kEndlessBody || answer.status == kEndlessHeaders)
        return write_for_ever(socket, answer.status == kEndlessHeaders);
      if (answer.status == kDrips) return drip(socket);
      write(socket, answer, error);
    }
  }

  bool enter(int socket) {
    const std::lock_guard lock(mutex);
    connection = socket;
    return !ended;
  }
  void leave() {
    const std::lock_guard lock(mutex);
    connection = -1;
  }

  const Script script;
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor;
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<Request> all;  // guarded by mutex
  bool ended = false;        // guarded by mutex
  int connection = -1;       // guarded by mutex
  std::thread thread;
};

HttpScript::HttpScript(Script script, int port) : impl_(std::make_unique<Impl>(std::move(script), port)) {}
HttpScript::~HttpScript() = default;

int HttpScript::port() const { return impl_->acceptor.local_endpoint().port(); }

std::vector<HttpScript::Request> HttpScript::requests() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->all;
}

bool HttpScript::wait_for(std::size_t requests) const {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, std::chrono::minutes{2},
                                 [&] { return impl_->all.size() >= requests; });
}

}  // namespace rung::test
