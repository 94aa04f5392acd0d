#include "src/http/server/server.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "src/api/base/message.h"
#include "src/http/server/places.h"
#include "src/http/server/session.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

// Of the last call of OpenSSL that failed.
std::string tls_reason() {
  char text[200] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return text;
}

// The server's side of TLS: 1.3, and 1.2 with authenticated encryption and forward secrecy. `cert`, `key`:
// PEM files, a chain and its key without a password. Error: names the config key. Calls OpenSSL directly
// where Asio's calls would hide the reason of a failure.
Result<boost::asio::ssl::context> load_tls(const std::string& cert, const std::string& key) {
  ERR_clear_error();
  boost::asio::ssl::context context(boost::asio::ssl::context::tls_server);
  SSL_CTX* const ctx = context.native_handle();
  if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) return permanent("TLS: " + tls_reason());
  // TLS 1.3 has only authenticated encryption.
  if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
    return permanent("TLS: " + tls_reason());
  SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Never prompt for a password on the terminal.
  SSL_CTX_set_default_passwd_cb(ctx, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(ctx, cert.c_str()) != 1)
    return permanent("http.cert: " + cert + " holds no certificate (PEM): " + tls_reason());
  if (SSL_CTX_use_PrivateKey_file(ctx, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return permanent("http.key: " + key +
                     " holds no private key (PEM, without a password) that fits http.cert: " + tls_reason());
  return context;
}

namespace net = boost::asio;
using net::ip::tcp;
using Code = boost::system::error_code;

constexpr std::int64_t kMostBodies = 64 << 20;  // bytes
constexpr Ms kAcceptAgain{10};
constexpr int kBacklog = 256;

// Child processes must not inherit the sockets.
void close_on_exec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

// "10.0.0.3", also for IPv4 peers of an IPv6 socket.
std::string text_of(const net::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return net::ip::make_address_v4(net::ip::v4_mapped, address.to_v6()).to_string();
}

class HttpServer final : public Server {
 public:
  HttpServer(const ServerOptions& options, Admit admit)
      : shared_{options, std::move(admit), Places(options.connections, options.connections_of_one_address()),
                Budget(kMostBodies)} {}

  Result<void> begin() {
    const ServerOptions& options = shared_.options;
    if (!options.cert.empty()) {
      auto tls = load_tls(options.cert, options.key);
      if (!tls) return tl::unexpected(tls.error());
      tls_ = *std::move(tls);
    }
    if (auto listening = listen(options); !listening) return listening;
    accept();
    thread_ = std::thread([this] { run(); });
    return {};
  }

  Result<void> reload_certificate() override {
    const ServerOptions& options = shared_.options;
    if (options.cert.empty()) return {};
    auto tls = load_tls(options.cert, options.key);
    if (!tls) return tl::unexpected(tls.error());
    auto fresh = std::make_shared<net::ssl::context>(*std::move(tls));
    net::post(io_, [this, fresh] { *tls_ = std::move(*fresh); });  // open connections keep the old one
    return {};
  }

  int port() const override { return port_; }
  int connections() const override { return shared_.places.count(); }

  void drain() override {
    net::post(io_, [this] { close_down(); });
  }

  bool stop(Ms most) override {
    std::promise<void> closed;
    net::post(io_, [&] {
      close_down();
      closed.set_value();
    });
    closed.get_future().wait();
    if (!shared_.places.wait_until_empty(most)) {
      net::post(io_, [this] {
        for (Places::Connection* one : shared_.places.connections()) one->abort();
      });
      if (!shared_.places.wait_until_empty(Ms{200})) return false;
    }
    running_.reset();
    if (thread_.joinable()) thread_.join();
    shared_.workers.join();
    return true;
  }

 private:
  Result<void> listen(const ServerOptions& options) {
    const std::string where = options.host + ":" + std::to_string(options.port);
    Code code;
    const auto found =
        tcp::resolver(io_).resolve(options.host, std::to_string(options.port), tcp::resolver::passive, code);
    if (code || found.empty()) return permanent("http.listen: " + where + ": " + code.message());
    const tcp::endpoint endpoint = found.begin()->endpoint();
    if (!endpoint.address().is_loopback() && !options.beyond_this_machine)
      return permanent("http.listen: " + options.host +
                       " is not a loopback address: set http.token_file, http.tokens_file or http.oidc");
    acceptor_.open(endpoint.protocol(), code);
    if (!code) acceptor_.set_option(net::socket_base::reuse_address(true), code);
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(kBacklog, code);
    if (code) return permanent("http.listen: cannot listen on " + where + ": " + code.message());
    close_on_exec(acceptor_.native_handle());
    port_ = acceptor_.local_endpoint().port();
    return {};
  }

  void run() {
    while (true) {
      try {
        io_.run();
        return;
      } catch (const std::exception& e) {
        // The exception came from one connection and ended it.
        log::error("HTTP connection ended by an exception", {{"what", e.what()}});
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](Code code, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!code) {
        take(std::move(socket));
        return accept();
      }
      // No file descriptor left, or the connection ended before it was accepted: retry a little later.
      accept_again_.expires_after(kAcceptAgain);
      accept_again_.async_wait([this](Code) {
        if (acceptor_.is_open()) accept();
      });
    });
  }

  void take(tcp::socket socket) {
    Code code;
    close_on_exec(socket.native_handle());
    const tcp::endpoint peer = socket.remote_endpoint(code);
    if (code) return;
    socket.set_option(tcp::no_delay(true), code);
    Places::Place* const place = shared_.places.take(text_of(peer.address()));
    if (place == nullptr) return turn_away(std::move(socket));
    serve(shared_, std::move(socket), *place, tls_ ? &*tls_ : nullptr);
  }

  void turn_away(tcp::socket socket) const {
    if (tls_) return;
    Response response = problem(503, "all connections are in use (http.connections)", "");
    response.headers.emplace_back("Retry-After", "1");
    Code ignored;
    socket.non_blocking(true, ignored);  // the data fits, or is not sent
    boost::beast::http::write(socket, to_beast(std::move(response), true), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  // I/O thread.
  void close_down() {
    shared_.draining = true;
    Code ignored;
    acceptor_.close(ignored);
    for (Places::Connection* one : shared_.places.connections()) one->drain();
  }

  Shared shared_;
  net::io_context io_{1};
  net::executor_work_guard<net::io_context::executor_type> running_{io_.get_executor()};
  tcp::acceptor acceptor_{io_};
  net::steady_timer accept_again_{io_};
  std::optional<net::ssl::context> tls_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Admit admit) {
  auto server = std::make_unique<HttpServer>(options, std::move(admit));
  if (auto begun = server->begin(); !begun) return tl::unexpected(begun.error());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace rung::http
